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
    scenario_id: str = column("Scenario: both arms play the same.")
    task_id: str = column("Task.")
    category: str = column("Task category.")
    arm: str = column("Which policy.", isin=["before", "after"])
    policy_version: str = column("Policy that played.")
    sample: int = column("0 .. k-1 within the task.", ge=0)
    passed: bool = column("Whether it passed; null without a verdict.", nullable=True)
    reward: float = column("Reward; null without a verdict.", nullable=True, ge=0, le=1)
    reason: str = column("Why.")
    answered: bool = column("Whether it ended with words of the agent; false when lost.")
    truncated: bool = column("Whether a limit of tokens or turns cut it off; null when lost.", nullable=True)
    findings: str = column("Conduct rules that found something; null when lost.", nullable=True, json=True)
    judge: str = column("Identity of the judge.")
    customer: str = column("Identity of the customer.")
    messages: str = column("All messages but the system message.", json=True)

    class Config:
        """One row a task, arm and sample."""

        unique: ClassVar[list[str]] = ["task_id", "arm", "sample"]


class Delta(Table):
    """One row is the paired difference between candidate and serving policy: overall, a category, a guard."""

    kind: str = column("What the row is about.", isin=["overall", "category", "guard"])
    scope: str = column("`overall`, a task category, or the conduct rule a guard watches.")
    n_tasks: int = column("Held-out tasks with a known value in both arms.", ge=0)
    k: int = column("Samples per task: the fewest known ones of any.", nullable=True)
    before: float = column("pass@1 of the serving policy; for a guard, the share free of it.", nullable=True)
    after: float = column("The same of the candidate.", nullable=True)
    difference: float = column("Mean over tasks of after minus before.", nullable=True)
    low: float = column("Lower bound: Student t with two pseudo-tasks at +-1/sqrt(k).", nullable=True)
    high: float = column("Upper bound of the same.", nullable=True)
    t_low: float = column("Lower bound of plain Student t, for comparison.", nullable=True)
    t_high: float = column("Upper bound of plain Student t.", nullable=True)
    percentile_low: float = column("Lower bound of the percentile bootstrap, for comparison.", nullable=True)
    percentile_high: float = column("Upper bound of the percentile bootstrap.", nullable=True)
    p_sign_flip: float = column("Exact two-sided sign-flip p.", nullable=True)
    p_adjusted: float = column(
        "The same corrected: for looks overall, by Holm over categories and guards.", nullable=True
    )
    q: float = column(
        "Benjamini-Hochberg's over categories and guards, for exploring: it decides nothing.", nullable=True
    )
    noise: float = column(
        "Half-width of the band in which re-runs of both policies move the difference; null at k = 1.",
        nullable=True,
    )
    n_changed: int = column("Tasks with a difference.", nullable=True)
    n_unknown: int = column("Attempts that are absent or have no known value.", ge=0)
    graded_before: float = column("Share of attempts with a known value, serving policy.", nullable=True)
    graded_after: float = column("The same of the candidate.", nullable=True)
    answered_before: float = column("Share that ended with words of the agent.", nullable=True)
    answered_after: float = column("The same of the candidate.", nullable=True)
    truncated_before: float = column("Share that a limit of tokens or turns cut off.", nullable=True)
    truncated_after: float = column("The same of the candidate.", nullable=True)
    tasks_needed: int = column(
        "Tasks that would show this difference, or 5 points if it is smaller, with 80 % power.", nullable=True
    )
    plan: str = column("What tasks like these can show, and what more would; overall only.", nullable=True)
    caution: str = column(
        "Where the arms differ in answered or truncated beyond chance; overall only.", nullable=True
    )
    verdict: str = column("better, worse, no_difference, inside_noise, not_comparable or too_few.")
    reason: str = column("Why.")

    class Config:
        """One row a kind and scope."""

        unique: ClassVar[list[str]] = ["kind", "scope"]


class Looks(Table):
    """One row is one look at the sealed tasks: a decision was taken on what they showed."""

    candidate: str = column("Candidate policy.", unique=True)
    serving: str = column("Policy it was held against.")
    look: int = column("How many looks this candidate's tasks have had, this one included.", ge=1)
    n_tasks: int = column("Tasks looked at.", ge=0)
    n_fresh: int = column("Of them, not looked at before.", ge=0)
    level: float = column("Level after correcting: the error rate over 1, 2, 6, ... look x (look - 1).")
    tasks: str = column("Ids of the tasks.", json=True)


class Promotion(Table):
    """One row is the decision on a day's candidate: promoted or refused, with the reason."""

    candidate: str = column("Candidate policy.", unique=True)
    serving: str = column("Policy that served the day.")
    promoted: bool = column("Whether the candidate serves from the next day on.")
    reason: str = column("The figures that decided.")
    delta_id: str = column("Content hash of the day's rows of `prove.delta`, on which it was decided.")


class Decisions(Table):
    """One row is a decision by hand on which policy serves; `day` is the first day it holds for."""

    decision_id: str = column("Content hash of the decision.", unique=True)
    position: int = column("0, 1, ... in the order in which they were taken; the last one holds.", ge=0)
    action: str = column("What was done.", isin=["promote", "rollback"])
    policy_version: str = column("Policy that serves from the day on.")
    replaces: str = column("Policy that served until then.")
    decided_by: str = column("Who decided.")
    forced: bool = column("Whether it serves although it did not pass its delta gate.")
    reason: str = column("Why, in the words of who decided.")

    class Config:
        """Decisions of a day have an order."""

        unique: ClassVar[list[str]] = ["position"]
