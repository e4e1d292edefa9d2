"""Tables of `grade`: what was found, what it is worth, and whether the judge can be trusted."""

from typing import ClassVar, get_args

from while_pipeline.grade.hack_regime import Regime
from while_pipeline.grade.judge import NoVerdict
from while_pipeline.tables.base import Table, column


class Conduct(Table):
    """One row is a finding of a conduct rule in a rollout."""

    rollout_id: str = column("Rollout.")
    rule: str = column("Rule that found it.")
    severity: str = column("`hard` fails the rollout, `style` spoils it.", isin=["hard", "style"])
    message_index: int = column("Message it concerns, the system message not counted.", ge=0)
    evidence: str = column("What was seen.")
    step: int = column("Tool call it concerns, as in `simulate.steps`; null for a text.", nullable=True, ge=0)
    start: int = column(
        "First character of the evidence in the message, or in the call's arguments; null for an absence.",
        nullable=True,
        ge=0,
    )
    end: int = column("The character after the last one; null for an absence.", nullable=True, ge=0)


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
    judge_model: str = column("Model that answered, as its server names it; null if none.", nullable=True)
    judge_settings: str = column("How a model was asked; null for the rules.", nullable=True, json=True)
    rubric: str = column("Hash of the rubric; null for the rules.", nullable=True)
    verdict: bool = column("The judge's verdict; null is no verdict.", nullable=True)
    no_verdict: str = column("Why there is no verdict.", nullable=True, isin=list(get_args(NoVerdict)))
    criteria: str = column(
        "Per criterion of the rubric: its name, kind, score (hard: 1 holds, 0 not) and the judge's reason.",
        nullable=True,
        json=True,
    )
    verdict_reason: str = column("The judge's reason.")
    reward: float = column("Reward; null without a verdict.", nullable=True, ge=0, le=1)
    passed: bool = column("Whether the reward is whole; null without a verdict.", nullable=True)
    reason: str = column("Why the reward is what it is.")


class JudgeTrust(Table):
    """One row is how the judge agrees with gold labels, on all tasks or one half of them."""

    judge: str = column("Identity of the judge.")
    source: str = column("Where the gold labels come from.")
    half: str = column("`all`, or one half of the tasks.", isin=["all", "a", "b"])
    required: bool = column("Whether the gate stays shut until this source makes trust.")
    n: int = column("Labels with a verdict.", ge=0)
    n_skipped: int = column("Labels without one.", ge=0)
    n_tasks: int = column("Tasks of the labels: the intervals are over them.", ge=0)
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
    trusted: bool = column("Whether this source trusts the judge (decided on `all`).")
    reason: str = column("What is missing, in labels where labels can mend it.")
    n_annotators: int = column("People who labelled; null for planted defects.", nullable=True, ge=0)
    alpha: float = column("Krippendorff's alpha between them; null where undefined.", nullable=True)
    n_unmatched: int = column("Labelled rollouts that are not stored.", nullable=True, ge=0)
    n_other_judge: int = column("Labelled rollouts that another judge graded.", nullable=True, ge=0)
    n_tied: int = column("Labelled rollouts whose annotators are at evens.", nullable=True, ge=0)

    class Config:
        """One row a source and half."""

        unique: ClassVar[list[str]] = ["source", "half"]


class JudgeProbes(Table):
    """One row is an edit that earns nothing, and how often it turned the judge's verdict."""

    probe: str = column(
        "What was tried: a probe on defective controls, `padding` on clean ones, `swap` on pairs.",
        unique=True,
    )
    n: int = column("Edited conversations (for `swap`: pairs) with a verdict, one a task.", ge=0)
    n_skipped: int = column("Those without one.", ge=0)
    flipped: int = column(
        "Verdicts that turned: to clean by a probe, to not clean by `padding`, with the order by `swap`.",
        ge=0,
    )
    rate: float = column("Share that turned.", nullable=True)
    low: float = column("Lower 95 % Wilson bound.", nullable=True)
    high: float = column("Upper 95 % Wilson bound.", nullable=True)
    flagged: bool = column("Whether too many turned, over verdicts enough; but for `swap`, no trust then.")


class DefectRecall(Table):
    """One row is a planted defect and how often the judge refused rollouts that had it."""

    defect: str = column("Planted defect.", unique=True)
    n: int = column("Control rollouts with it that got a verdict.", ge=0)
    n_skipped: int = column("Those without a verdict.", ge=0)
    caught: int = column("Called not clean.", ge=0)
    recall: float = column("Share caught.", nullable=True)
    low: float = column("Lower 95 % Wilson bound.", nullable=True)
    high: float = column("Upper 95 % Wilson bound.", nullable=True)


class RuleQuality(Table):
    """One row is a conduct rule held against the defects planted in control rollouts.

    Counts are of rollouts; shares are means over tasks, and so are their 95 % Wilson bounds.
    """

    rule: str = column("Conduct rule.", unique=True)
    severity: str = column("`hard` fails the rollout, `style` spoils it.", isin=["hard", "style"])
    defects: str = column("Planted defects it is to find, comma-joined; empty when none is planted.")
    n: int = column("Control rollouts.", ge=0)
    n_tasks: int = column("Tasks they are of.", ge=0)
    n_lost: int = column("Controls that were never played to their end, left out.", ge=0)
    n_planted: int = column("Rollouts that drew a defect it is to find.", ge=0)
    n_found: int = column("Rollouts in which it found something.", ge=0)
    n_both: int = column("Rollouts of both kinds.", ge=0)
    n_false: int = column(
        "Found where no planted defect leads to it: false alarms. Null, like the shares, where none ever is.",
        nullable=True,
        ge=0,
    )
    precision: float = column("Share of what it found that a planted defect led to.", nullable=True)
    precision_low: float = column("Lower bound of the precision.", nullable=True)
    precision_high: float = column("Upper bound of the precision.", nullable=True)
    recall: float = column("Share of its defects found; null when none was planted.", nullable=True)
    recall_low: float = column("Lower bound of the recall.", nullable=True)
    recall_high: float = column("Upper bound of the recall.", nullable=True)
    alarms: float = column("Share of rollouts without such a defect that it fired in.", nullable=True)
    alarms_low: float = column("Lower bound of the false alarms.", nullable=True)
    alarms_high: float = column("Upper bound of the false alarms.", nullable=True)


class HackScan(Table):
    """One row is a feature of the rollouts and how the reward follows it within tasks.

    The columns from `regime` on say the same in every row of a day.
    """

    feature: str = column("Feature.", unique=True)
    kind: str = column("What it counts.", isin=["size", "tool", "marker", "phrase", "pair"])
    pooled: float = column("Correlation with the reward over all rollouts.", nullable=True)
    within: float = column("The same within tasks.", nullable=True)
    residual: float = column("Within tasks, after what the rubric endorses is taken out.", nullable=True)
    share: float = column(
        "Share of the reward's variance within tasks that it explains beyond the endorsed columns.",
        nullable=True,
    )
    regime: str = column("Where the reward stands.", isin=[str(regime) for regime in Regime])
    hacked: bool = column("Whether the scan closes the gate; null when it could not measure.", nullable=True)
    reason: str = column("The scan's conclusion.")
    advice: str = column("What to do about it.")
    floor: float = column("95 % point of the largest |residual| over within-task shuffles.", nullable=True)
    n: int = column("Rollouts scanned.", ge=0)
    n_dropped: int = column("Rollouts left out, with an unknown reward or outcome.", ge=0)
    n_day: int = column("Rollouts graded that day; more when whole tasks were sampled.", ge=0)
    n_tasks: int = column("Tasks of the rollouts scanned.", ge=0)
    variance: float = column("Variance of the reward (ddof 0).", nullable=True)
    variance_within: float = column("Its part within tasks: all the gradient there is.", nullable=True)
    variance_between: float = column("Its part between tasks.", nullable=True)
    endorsed_share: float = column(
        "Share of the variance within tasks that the endorsed columns explain.", nullable=True
    )
    joint_share: float = column(
        "Share that all features together explain beyond them, on tasks they were not fitted to; 0 or less "
        "is nothing.",
        nullable=True,
    )
    n_missed: int = column("Rollouts whose reward the endorsed columns do not hit within their task.", ge=0)
    n_missed_tasks: int = column("Tasks with such a rollout.", ge=0)
    joint_rows: float = column(
        "Of those, the share that all features together bring nearer to their reward, on tasks they were not "
        "fitted to; half is chance. Mean over tasks.",
        nullable=True,
    )
    joint_rows_low: float = column("Lower 95 % bound over tasks.", nullable=True)
    joint_rows_high: float = column("Upper 95 % bound over tasks.", nullable=True)


class PassAt(Table):
    """One row is a pass rate of one category (or overall) at one k."""

    scope: str = column("`overall` or a task category.")
    metric: str = column(
        "pass@ (any of k), pass^ (all of k) or headroom (pass@k - pass@1).",
        isin=["pass@", "pass^", "headroom"],
    )
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
