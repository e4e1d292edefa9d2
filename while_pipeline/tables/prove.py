"""Tables of `prove`: sealed tasks, both policies' attempts at them, and what that proves."""

from typing import ClassVar

from while_pipeline.tables.base import ScenarioTable, Table, column


class HeldOut(ScenarioTable):
    """One row is a sealed task with the scenario it is evaluated by."""

    task_id: str = column("Task.", unique=True)
    fresh: bool = column("Whether no earlier look was taken at this task.")

    class Config:
        """A task is evaluated by one scenario a day."""

        unique: ClassVar[list[str]] = ["task_id"]


class Trials(Table):
    """One row is an attempt of the serving policy (`before`) or the candidate (`after`) at a sealed task."""

    rollout_id: str = column("Rollout.")
    task_id: str = column("Task.")
    category: str = column("Task category.")
    arm: str = column("Which policy.", isin=["before", "after"])
    policy_version: str = column("Policy that played.")
    sample: int = column("0 .. k-1 within the task.", ge=0)
    passed: bool = column("Whether it passed; null without a verdict.", nullable=True)
    reward: float = column("Reward; null without a verdict.", nullable=True, ge=0, le=1)
    reason: str = column("Why.")
    findings: str = column("Conduct rules that found something.", json=True)
    judge: str = column("Identity of the judge.")
    customer: str = column("Identity of the customer.")
    messages: str = column("All messages but the system message.", json=True)

    class Config:
        """One row a task, arm and sample."""

        unique: ClassVar[list[str]] = ["task_id", "arm", "sample"]


class Delta(Table):
    """One row is the paired difference between candidate and serving policy in one category, or overall."""

    scope: str = column("`overall` or a task category.", unique=True)
    n_tasks: int = column("Held-out tasks.", ge=0)
    k: int = column("Samples per task.", nullable=True)
    before: float = column("pass@1 of the serving policy.", nullable=True)
    after: float = column("pass@1 of the candidate.", nullable=True)
    difference: float = column("Mean over tasks of after minus before.", nullable=True)
    low: float = column("Lower bound: Student t with two pseudo-tasks at +-1/sqrt(k).", nullable=True)
    high: float = column("Upper bound of the same.", nullable=True)
    t_low: float = column("Lower bound of plain Student t, for comparison.", nullable=True)
    t_high: float = column("Upper bound of plain Student t.", nullable=True)
    percentile_low: float = column("Lower bound of the percentile bootstrap, for comparison.", nullable=True)
    percentile_high: float = column("Upper bound of the percentile bootstrap.", nullable=True)
    p_sign_flip: float = column("Exact two-sided sign-flip p.", nullable=True)
    p_adjusted: float = column(
        "The same corrected: Holm over categories, Bonferroni over looks.", nullable=True
    )
    n_changed: int = column("Tasks with a difference.", nullable=True)
    n_unknown: int = column("Attempts without a verdict.", ge=0)
    tasks_needed: int = column("Tasks that would show this difference with 80 % power.", nullable=True)
    verdict: str = column("better, worse, no_difference, inside_noise, not_comparable or too_few.")
    reason: str = column("Why.")


class Looks(Table):
    """One row is one look at the sealed tasks: a decision was taken on what they showed."""

    candidate: str = column("Candidate policy.", unique=True)
    serving: str = column("Policy it was held against.")
    look: int = column("How many looks this candidate's tasks have had, this one included.", ge=1)
    n_tasks: int = column("Tasks looked at.", ge=0)
    n_fresh: int = column("Of them, not looked at before.", ge=0)
    level: float = column("Level of the interval after correcting for the looks.")
    tasks: str = column("Ids of the tasks.", json=True)


class Promotion(Table):
    """One row is the decision on a day's candidate: promoted or refused, with the reason."""

    candidate: str = column("Candidate policy.", unique=True)
    serving: str = column("Policy that served the day.")
    promoted: bool = column("Whether the candidate serves from the next day on.")
    reason: str = column("The figures that decided.")
