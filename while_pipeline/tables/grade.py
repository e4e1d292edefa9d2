"""Tables of `grade`: what was found, what it is worth, and whether the judge can be trusted."""

from typing import ClassVar

from while_pipeline.tables.base import Table, column


class Conduct(Table):
    """One row is a finding of a conduct rule in a rollout."""

    rollout_id: str = column("Rollout.")
    rule: str = column("Rule that found it.")
    severity: str = column("`hard` fails the rollout, `style` spoils it.", isin=["hard", "style"])
    message_index: int = column("Message it concerns.", ge=0)
    evidence: str = column("What was seen.")


class Grades(Table):
    """One row is a rollout's grade: outcome, verdict and reward, each with its reason."""

    rollout_id: str = column("Rollout.", unique=True)
    scenario_id: str = column("Scenario.")
    task_id: str = column("Task.")
    category: str = column("Task category.")
    outcome_ok: bool = column("Whether the answer key was met; null when lost.", nullable=True)
    outcome_reason: str = column("What the outcome missed.")
    n_hard: int = column("Hard findings.", ge=0)
    n_style: int = column("Style findings.", ge=0)
    judge: str = column("Identity of the judge: a hash of model, settings and rubric.")
    verdict: bool = column("The judge's verdict; null is no verdict.", nullable=True)
    verdict_reason: str = column("The judge's reason.")
    reward: float = column("Reward; null without a verdict.", nullable=True, ge=0, le=1)
    passed: bool = column("Whether the reward is whole; null without a verdict.", nullable=True)
    reason: str = column("Why the reward is what it is.")


class JudgeTrust(Table):
    """One row is how the judge agrees with gold labels, on all tasks or one half of them."""

    judge: str = column("Identity of the judge.")
    source: str = column("Where the gold labels come from.")
    half: str = column("`all`, or one half of the tasks.", isin=["all", "a", "b"])
    n: int = column("Labels with a verdict.", ge=0)
    n_skipped: int = column("Labels without one.", ge=0)
    agreement: float = column("Share of verdicts that agree with the label.", nullable=True)
    low: float = column("Lower 95 % Wilson bound of the agreement.", nullable=True)
    high: float = column("Upper 95 % Wilson bound of the agreement.", nullable=True)
    kappa: float = column("Cohen's kappa.", nullable=True)
    kappa_low: float = column("Lower 95 % bound of kappa.", nullable=True)
    kappa_high: float = column("Upper 95 % bound of kappa.", nullable=True)
    ac1: float = column("Gwet's AC1.", nullable=True)
    sensitivity: float = column("Of the clean rollouts, the share called clean.", nullable=True)
    specificity: float = column("Of those with a defect, the share called not clean.", nullable=True)
    length_gap: float = column("Share called clean, long answers minus short ones.", nullable=True)
    length_p: float = column("Fisher's exact p of the length gap.", nullable=True)
    trusted: bool = column("Whether the judge may open the cuts (decided on `all`).")
    reason: str = column("What is missing, in labels where labels can mend it.")

    class Config:
        """One row a source and half."""

        unique: ClassVar[list[str]] = ["source", "half"]


class RuleQuality(Table):
    """One row is a planted defect and how often the judge refused rollouts that had it."""

    defect: str = column("Planted defect.", unique=True)
    n: int = column("Control rollouts with it that got a verdict.", ge=0)
    n_skipped: int = column("Those without a verdict.", ge=0)
    caught: int = column("Called not clean.", ge=0)
    recall: float = column("Share caught.", nullable=True)
    low: float = column("Lower 95 % Wilson bound.", nullable=True)
    high: float = column("Upper 95 % Wilson bound.", nullable=True)


class HackScan(Table):
    """One row is a feature of the rollouts and how the reward follows it within tasks."""

    feature: str = column("Feature.", unique=True)
    pooled: float = column("Correlation with the reward over all rollouts.", nullable=True)
    within: float = column("The same within tasks.", nullable=True)
    residual: float = column("Within tasks, after what the rubric endorses is taken out.", nullable=True)
    floor: float = column("95 % point of the largest |residual| over within-task shuffles.", nullable=True)
    hacked: bool = column("Whether the scan closes the gate; null when it could not measure.", nullable=True)
    reason: str = column("The scan's conclusion.")


class PassAt(Table):
    """One row is a pass rate of one category (or overall) at one k."""

    scope: str = column("`overall` or a task category.")
    metric: str = column("pass@ (any of k) or pass^ (all of k).", isin=["pass@", "pass^"])
    k: int = column("Samples asked about.", ge=1)
    value: float = column("Mean over tasks, each unbiased; null when no task has k samples.", nullable=True)
    low: float = column("Lower 95 % bound over tasks.", nullable=True)
    high: float = column("Upper 95 % bound over tasks.", nullable=True)
    n_tasks: int = column("Tasks with at least k graded samples.", ge=0)
    n_rollouts: int = column("Graded rollouts of those tasks.", ge=0)
    n_unknown: int = column("Rollouts without a verdict.", ge=0)
    n_short: int = column("Tasks with fewer than k graded samples.", ge=0)

    class Config:
        """One row a scope, metric and k."""

        unique: ClassVar[list[str]] = ["scope", "metric", "k"]
