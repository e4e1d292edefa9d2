"""How many tasks an effect needs, and what effect the tasks at hand can show.

Planning before a run belongs here; judging a run does not (`delta`). `tasks_needed` and its kin are the
published formula for a two-sided z test of the mean paired difference over tasks. `plan` answers for the rule
that decides here, the pseudo-pair interval, which asks for a little more: at 40 tasks of 4 samples an effect
that the z formula promises with 80 % power shows 74 times in 100.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass

from scipy import optimize, special

from while_pipeline.prove.checked import finite, inside, whole
from while_pipeline.prove.variance import PairedComponents


def tasks_needed(
    effect: float,
    *,
    omega2: float,
    sigma2_a: float,
    sigma2_b: float,
    k_a: int,
    k_b: int,
    alpha: float = 0.05,
    power: float = 0.8,
) -> int:
    """Tasks needed to see an effect: (z_{α/2} + z_β)² (ω² + σ²_A/k_A + σ²_B/k_B) / δ², rounded up.

    Source: Miller, "Adding Error Bars to Evals", arXiv 2411.00640, section 5.

    Args:
        effect: δ, the mean paired difference of pass rates, of either sign.
        omega2: ω², variance over tasks of the true difference.
        sigma2_a: σ²_A, mean variance of one sample within a task, first arm.
        sigma2_b: The same for the second arm.
        k_a: Samples per task, first arm.
        k_b: Samples per task, second arm.
        alpha: Two-sided false-positive rate.
        power: Chance to see the effect when it is there.

    Returns:
        The number, at least 1: what every task shows alike one task shows.

    Raises:
        ValueError: `effect` is 0, which no number of tasks shows; an argument is NaN, infinite or out of
            range.
    """
    finite("tasks_needed", "effect", effect)
    if effect == 0:
        raise ValueError("tasks_needed: effect is 0; give the smallest difference worth seeing")
    variance = _variance("tasks_needed", omega2, (sigma2_a, sigma2_b), (k_a, k_b))
    return max(1, math.ceil(_quantiles("tasks_needed", alpha, power) ** 2 * variance / effect**2))


def detectable_effect(
    n: int,
    *,
    omega2: float,
    sigma2_a: float,
    sigma2_b: float,
    k_a: int,
    k_b: int,
    alpha: float = 0.05,
    power: float = 0.8,
) -> float:
    """Smallest effect that n tasks show: `tasks_needed` solved for δ. Arguments as there.

    Returns:
        The effect, which may pass 1 for few tasks: then they show none. 0 when nothing varies.

    Raises:
        ValueError: n is below 1; an argument is NaN, infinite or out of range.
    """
    whole("detectable_effect", "n", n, low=1)
    variance = _variance("detectable_effect", omega2, (sigma2_a, sigma2_b), (k_a, k_b))
    return _quantiles("detectable_effect", alpha, power) * math.sqrt(variance / n)


def tasks_needed_from_rate(
    effect: float, *, base: float, k: int, alpha: float = 0.05, power: float = 0.8
) -> int:
    """Tasks needed when all that is known is today's pass rate.

    `tasks_needed` with ω² = 0 (every task gains the same) and binomial variances at `base` and at
    `base + effect`. Where the gain varies between tasks, more are needed.

    Args:
        effect: Change of the pass rate, of either sign.
        base: Pass rate before.
        k: Samples per task in each arm.
        alpha: Two-sided false-positive rate.
        power: Chance to see the effect when it is there.

    Raises:
        ValueError: `effect` is 0, or `base` or `base + effect` is no rate.
    """
    finite("tasks_needed_from_rate", "base", base, low=0, high=1)
    after = base + effect
    if not 0 <= after <= 1:
        raise ValueError(f"tasks_needed_from_rate: base + effect is {after:g}, expected a rate in [0, 1]")
    return tasks_needed(
        effect,
        omega2=0.0,
        sigma2_a=base * (1 - base),
        sigma2_b=after * (1 - after),
        k_a=k,
        k_b=k,
        alpha=alpha,
        power=power,
    )


def detectable_effect_from_rate(
    n: int, *, base: float, k: int, alpha: float = 0.05, power: float = 0.8
) -> float:
    """Smallest gain that n tasks show: `tasks_needed_from_rate` solved for the effect.

    Returns:
        The gain; NaN when even a rise to 1 would not be seen.

    Raises:
        ValueError: n or k is below 1, or `base` is no rate.
    """
    whole("detectable_effect_from_rate", "n", n, low=1)
    whole("detectable_effect_from_rate", "k", k, low=1)
    finite("detectable_effect_from_rate", "base", base, low=0, high=1)
    # The variance after depends on the gain, which makes this the positive root of a quadratic.
    scale = n * k / _quantiles("detectable_effect_from_rate", alpha, power) ** 2 + 1
    slope = 1 - 2 * base
    gain = (slope + math.sqrt(slope**2 + 8 * scale * base * (1 - base))) / (2 * scale)
    return gain if 0 < gain <= 1 - base else math.nan


@dataclass(frozen=True)
class Plan:
    """What n tasks of k samples can show, and what would show more. Effects are differences of pass rates."""

    n: int
    """Tasks."""
    k: int
    """Samples per task in each arm."""
    power: float
    """Chance that an effect shows when it is there."""
    base: float | None
    """Pass rate that the plan starts from; None when it was made from components."""
    fewest: int
    """Tasks that must change before the sign-flip test can agree."""
    effect: float | None
    """Smallest effect that shows. None when n is below `fewest`, when even a rise to 1 would not show, or
    when nothing varied in what the plan was made from."""
    target: float
    """The effect that `tasks_for_target` is for."""
    tasks_for_target: int | None
    """Tasks of k samples that show `target`; None where `base + target` is no rate, or nothing varied."""
    effect_of_samples: float | None
    """Smallest effect that shows with twice the samples on the same tasks."""
    effect_of_tasks: float | None
    """Smallest effect that shows with twice the tasks: as dear as twice the samples, and never worse."""

    @property
    def sentence(self) -> str:
        """Say the plan in one sentence, points rounded up."""
        if self.base is None and self.tasks_for_target is None:
            return f"Nothing varied, so nothing says what {self._tasks} could show."
        change = "difference" if self.base is None else "gain"
        base = "" if self.base is None else f" (base {self.base:.2f})"
        reach = f"with {100 * self.power:g} % power{base}"
        if self.effect is not None:
            said = [f"{self._tasks} show a {change} of {_points(self.effect)} points or more {reach}"]
        elif self.n < self.fewest:
            said = [f"{self._tasks} can show no {change}{base}: at least {self.fewest} tasks must change"]
        else:
            said = [f"{self._tasks} can show no {change} {reach}"]
        if self.tasks_for_target is not None:
            said.append(f"{_points(self.target)} points need {self.tasks_for_target} tasks")
        more = (
            (f"{2 * self.k} samples a task", self.effect_of_samples),
            (f"{2 * self.n} tasks", self.effect_of_tasks),
        )
        shown = [f"{what} would show {_points(effect)}" for what, effect in more if effect is not None]
        said += [" and ".join(shown)] if shown else []
        return "; ".join(said) + "."

    @property
    def _tasks(self) -> str:
        tasks = f"{self.n} held-out task{'' if self.n == 1 else 's'}"
        return f"{tasks} with {self.k} sample{'' if self.k == 1 else 's'} each"


def plan(
    n: int,
    *,
    k: int,
    base: float | None = None,
    components: PairedComponents | None = None,
    target: float = 0.05,
    alpha: float = 0.05,
    power: float = 0.8,
) -> Plan:
    """Say what n held-out tasks of k samples in each arm can show under the rule that decides.

    An effect shows when the pseudo-pair interval is expected to lie above 0 even where luck is as bad as it
    is once in 1 / (1 - power) times. Played out with 80 % promised, interval, sign-flip test and six changed
    tasks together find the effect 76 to 84 times in 100 from 20 tasks on, and as few as 68 times with 8 tasks
    of one sample. The noise band is not planned for: under 20 tasks of 2 samples it takes another 7.

    From a base rate every task is taken to start from it and to gain the same (ω² = 0, binomial variances):
    tasks that gain unlike each other need more. Components measured on trials (`paired_components`) say how
    much they differ.

    Args:
        n: Tasks, 0 or more.
        k: Samples per task in each arm.
        base: Pass rate before; the plan is for a gain. Give this or `components`.
        components: What makes the differences vary; the plan is for a difference of either sign.
        target: The effect to find the number of tasks for, between 0 and 1.
        alpha: Two-sided false-positive rate.
        power: Chance that an effect shows when it is there, above `alpha`.

    Raises:
        ValueError: neither or both of `base` and `components` are given; an argument is NaN, infinite or out
            of range.
    """
    whole("plan", "n", n)
    whole("plan", "k", k, low=1)
    inside("plan", "target", target)
    inside("plan", "alpha", alpha)
    inside("plan", "power", power, low=alpha)
    rule = _rule(base, components, alpha, power)
    return Plan(
        n=n,
        k=k,
        power=power,
        base=base,
        fewest=rule.fewest,
        effect=rule.effect(n, k),
        target=target,
        tasks_for_target=rule.tasks(target, k),
        effect_of_samples=rule.effect(n, 2 * k),
        effect_of_tasks=rule.effect(2 * n, k),
    )


@dataclass(frozen=True)
class _Rule:
    """When an effect shows, for differences of a known variance."""

    base: float | None
    """Pass rate before, every task alike; None where `parts` are known."""
    parts: PairedComponents
    alpha: float
    power: float

    @property
    def fewest(self) -> int:
        """Fewest changed tasks that can be significant: m of them give a sign-flip p of 2 / 2^m at best."""
        return math.floor(math.log2(2 / self.alpha)) + 1

    def effect(self, n: int, k: int) -> float | None:
        """Smallest effect that n tasks of k samples show."""
        largest = self._largest
        if n < self.fewest or not self._varies or largest == 0 or self._margin(largest, n, k) < 0:
            return None
        return float(optimize.brentq(self._margin, 0.0, largest, args=(n, k)))

    def tasks(self, effect: float, k: int) -> int | None:
        """Fewest tasks of k samples that show the effect."""
        if not self._varies or (self.base is not None and self.base + effect > 1):
            return None
        enough = self.fewest
        while self._margin(effect, enough, k) < 0:
            enough *= 2
        numbers = range(self.fewest, enough)
        return self.fewest + bisect_left(numbers, True, key=lambda n: self._margin(effect, n, k) >= 0)

    @property
    def _largest(self) -> float:
        """Largest effect there can be."""
        return 1.0 if self.base is None else 1 - self.base

    @property
    def _varies(self) -> bool:
        return self.base is not None or any(self.parts)

    def _margin(self, effect: float, n: int, k: int) -> float:
        """Lower end of the deciding interval, where luck is as bad as the power still has to bear.

        The interval is Student's t over n differences of mean `effect` and two pseudo-tasks at ±1/√k.
        """
        variance = self._variance(effect, k)
        centre = n * effect / (n + 2)
        squares = (n - 1) * variance + n * effect**2 + 2 / k - (n + 2) * centre**2
        half = special.stdtrit(n + 1, 1 - self.alpha / 2) * math.sqrt(squares / ((n + 1) * (n + 2)))
        return float(centre - half - special.ndtri(self.power) * math.sqrt(n * variance) / (n + 2))

    def _variance(self, effect: float, k: int) -> float:
        if self.base is None:
            return self.parts.omega2 + (self.parts.sigma2_a + self.parts.sigma2_b) / k
        after = self.base + effect
        return (self.base * (1 - self.base) + after * (1 - after)) / k


def _rule(base: float | None, components: PairedComponents | None, alpha: float, power: float) -> _Rule:
    if (base is None) == (components is None):
        raise ValueError("plan: give either a base rate or components")
    if base is not None:
        finite("plan", "base", base, low=0, high=1)
    parts = components or PairedComponents(0.0, 0.0, 0.0)
    finite("plan", "component", parts, low=0)
    return _Rule(base, parts, alpha, power)


def _points(effect: float) -> str:
    """Percentage points, rounded up to a tenth so that none is promised too many."""
    return f"{math.ceil(1000 * effect - 1e-9) / 10:g}"


def _variance(function: str, omega2: float, sigma2: tuple[float, float], k: tuple[int, int]) -> float:
    parts = finite(function, "variance", (omega2, *sigma2), low=0)
    samples = whole(function, "k", k, low=1)
    return float(parts[0] + (parts[1:] / samples).sum())


def _quantiles(function: str, alpha: float, power: float) -> float:
    inside(function, "alpha", alpha)
    inside(function, "power", power)
    return float(special.ndtri(1 - alpha / 2) + special.ndtri(power))
