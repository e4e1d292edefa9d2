"""How many tasks an effect needs, and what effect the tasks at hand can show.

Planning before a run belongs here; judging a run does not (`delta`). Both planners are for a two-sided z
test of the mean paired difference over tasks.
"""

import math

from scipy import special


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

    Raises:
        ValueError: `effect` is 0, which no number of tasks shows.
    """
    if effect == 0:
        raise ValueError("tasks_needed: effect is 0; give the smallest difference worth seeing")
    variance = omega2 + sigma2_a / k_a + sigma2_b / k_b
    return math.ceil(_quantiles(alpha, power) ** 2 * variance / effect**2)


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
    """Smallest effect that n tasks show: `tasks_needed` solved for δ. Arguments as there."""
    variance = omega2 + sigma2_a / k_a + sigma2_b / k_b
    return _quantiles(alpha, power) * math.sqrt(variance / n)


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
        ValueError: `effect` is 0, or `base + effect` is no rate.
    """
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
    """
    # The variance after depends on the gain, which makes this the positive root of a quadratic.
    scale = n * k / _quantiles(alpha, power) ** 2 + 1
    slope = 1 - 2 * base
    gain = (slope + math.sqrt(slope**2 + 8 * scale * base * (1 - base))) / (2 * scale)
    return gain if 0 < gain <= 1 - base else math.nan


def _quantiles(alpha: float, power: float) -> float:
    return float(special.ndtri(1 - alpha / 2) + special.ndtri(power))
