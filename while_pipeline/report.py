"""The report of a day: what was weak, what was played and trained on, and what it proved.

What belongs here: reading the published snapshot for one day, and saying it to a terminal and as Markdown.
No figure is computed here that a table does not already hold, apart from counting rows.
"""

import datetime as dt
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from while_pipeline.project import DATABASE
from while_pipeline.prove.delta_report import VERDICTS, Compared, answer, scope_name
from while_pipeline.snapshot import SnapshotError, read_snapshot, snapshot_path
from while_pipeline.tables.views import KIND_ORDER

TOP = 5
"""Weak spots shown: what one person can look at before lunch. The rest is in `watch.weak_spots`."""

_UNKNOWN = "unknown"
_BY_HAND = {"promote": "promoted", "rollback": "rolled back to"}


@dataclass(frozen=True)
class Report:
    """What the snapshot holds about one day. A frame is empty when its tables have no row, or are absent."""

    day: str
    database: Path
    snapshot: Path
    path: Path
    """Where the Markdown of this report belongs."""
    traffic: pl.DataFrame
    """One row: `conversations`, `rejects`, `graded`, `failed`, `spots`."""
    weak_spots: pl.DataFrame
    """The `TOP` rows of `watch.weak_spots` by priority."""
    rollouts: pl.DataFrame
    """One row: `played`, `lost`, `scenarios`, `tasks`."""
    pass_at: pl.DataFrame
    """One row per scope: pass@1 with bounds, and pass@k and pass^k at the largest k."""
    gates: pl.DataFrame
    """`cut`, `gate`, `n` rollouts; `kept` is a gate too."""
    publication: pl.DataFrame
    """`train.publication` of the day."""
    judge_trust: pl.DataFrame
    """One row per source of gold labels, over all tasks."""
    hack_scan: pl.DataFrame
    """The three features the reward follows most, by their residual."""
    delta: pl.DataFrame
    """`prove.delta` of the day: overall, the categories, the guards."""
    promotions: pl.DataFrame
    """`prove.promotion` of this day and all before it."""
    decisions: pl.DataFrame
    """`prove.decisions` that were taken after this day or one before it; `day` is that day."""


@dataclass(frozen=True)
class Section:
    """A part of the report: a title, sentences, and a table when it has rows."""

    title: str
    sentences: Sequence[str]
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()


def summary(data: Path, day: str | None = None) -> Report:
    """Read one day's report from the snapshot in the data folder.

    Args:
        data: Folder with `while.duckdb` and its snapshot.
        day: ISO date; None means the last day the snapshot holds.

    Raises:
        SnapshotError: there is no snapshot, or it holds no day at all.
        ValueError: `day` is not an ISO date.
    """
    database = data / DATABASE
    snapshot = snapshot_path(database)
    last = _last_days(snapshot)
    day = dt.date.fromisoformat(day).isoformat() if day else max(filter(None, last.values()), default=None)
    if day is None:
        raise SnapshotError(f"{snapshot} holds no day yet: no run has finished a step.")

    def ask(field: str) -> pl.DataFrame:
        tables, sql = _QUESTIONS[field]
        return read_snapshot(snapshot, sql.format(day=day)) if last.keys() >= tables else pl.DataFrame()

    return Report(
        day=day,
        database=database,
        snapshot=snapshot,
        path=data / "reports" / f"{day}.md",
        traffic=ask("traffic"),
        weak_spots=ask("weak_spots"),
        rollouts=ask("rollouts"),
        pass_at=ask("pass_at"),
        gates=ask("gates"),
        publication=ask("publication"),
        judge_trust=ask("judge_trust"),
        hack_scan=ask("hack_scan"),
        delta=ask("delta"),
        promotions=ask("promotions"),
        decisions=ask("decisions"),
    )


def sections(report: Report) -> list[Section]:
    """Say a report, part by part."""
    parts = (_weak_spots, _pass_rates, _cuts, _judge, _hacks, _proof, _promotions, _places)
    return [part(report) for part in parts]


def render(report: Report, out: Console) -> None:
    """Print a report. Without a terminal there are no colours; narrow ones fold long cells."""
    out.print(Text(f"Report of {report.day}", style="bold"))
    for section in sections(report):
        out.print(Text(f"\n{section.title}", style="bold"))
        for sentence in section.sentences:
            out.print(Text(sentence))
        if section.rows:
            out.print(grid(section.header, section.rows))


def console() -> Console:
    """Standard output: as wide as the terminal; without one 120 columns, and no colours."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 120)


def grid(header: Sequence[str], rows: Iterable[Sequence[str]]) -> RichTable:
    """Lay out cells for a terminal; text in brackets stays text."""
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in header:
        table.add_column(Text(name), overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def to_markdown(report: Report) -> str:
    """Write a report as Markdown. The same tables give the same bytes."""
    blocks = [f"# Report of {report.day}"]
    for section in sections(report):
        blocks.append(f"## {section.title}")
        blocks += section.sentences
        if section.rows:
            lines = [section.header, ["---"] * len(section.header), *section.rows]
            blocks.append("\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines))
    return "\n\n".join(blocks) + "\n"


_QUESTIONS: dict[str, tuple[set[str], str]] = {
    "traffic": (
        {"watch.conversations", "watch.rejects", "watch.situations", "watch.weak_spots"},
        """
        SELECT
            (SELECT count(*) FROM watch.conversations WHERE day = '{day}') AS conversations,
            (SELECT count(*) FROM watch.rejects WHERE day = '{day}') AS rejects,
            (SELECT count(failed) FROM watch.situations WHERE day = '{day}') AS graded,
            (SELECT count(*) FROM watch.situations WHERE day = '{day}' AND failed) AS failed,
            (SELECT count(*) FROM watch.weak_spots WHERE day = '{day}') AS spots
        """,
    ),
    "weak_spots": (
        {"watch.weak_spots"},
        f"FROM watch.weak_spots WHERE day = '{{day}}' ORDER BY priority DESC, spot_id LIMIT {TOP}",
    ),
    "rollouts": (
        {"simulate.rollouts"},
        """
        SELECT count(*) AS played, count(lost) AS lost,
            count(DISTINCT scenario_id) AS scenarios, count(DISTINCT task_id) AS tasks
        FROM simulate.rollouts WHERE day = '{day}'
        """,
    ),
    "pass_at": (
        {"grade.pass_at"},
        """
        SELECT scope, max(k) AS most,
            any_value(COLUMNS(['n_tasks', 'n_unknown', 'value', 'low', 'high'])) FILTER (k = 1),
            arg_max(value, k) FILTER (metric = 'pass@') AS any_of_k,
            arg_max(value, k) FILTER (metric = 'pass^') AS all_of_k
        FROM grade.pass_at WHERE day = '{day}' AND (value IS NOT NULL OR k = 1)
        GROUP BY scope ORDER BY scope <> 'overall', scope
        """,
    ),
    "gates": (
        {"train.why_dropped"},
        """
        SELECT cut, gate, count(*) AS n FROM train.why_dropped WHERE day = '{day}'
        GROUP BY cut, gate ORDER BY cut, n DESC, gate
        """,
    ),
    "publication": (
        {"train.publication"},
        """FROM train.publication WHERE day = '{day}' ORDER BY cut, "check" """,
    ),
    "judge_trust": (
        {"grade.judge_trust"},
        "FROM grade.judge_trust WHERE day = '{day}' AND half = 'all' ORDER BY source",
    ),
    "hack_scan": (
        {"grade.hack_scan"},
        """
        FROM grade.hack_scan WHERE day = '{day}'
        ORDER BY abs(residual) DESC NULLS LAST, abs(within) DESC NULLS LAST, feature LIMIT 3
        """,
    ),
    "delta": ({"prove.delta"}, f"FROM prove.delta WHERE day = '{{day}}' ORDER BY {KIND_ORDER}, scope"),
    "promotions": (
        {"prove.promotion"},
        """
        SELECT day::VARCHAR AS day, candidate, serving, promoted, reason
        FROM prove.promotion WHERE day <= '{day}' ORDER BY ALL
        """,
    ),
    "decisions": (
        {"prove.decisions"},
        """
        SELECT (day - 1)::VARCHAR AS day, policy_version, replaces, action, decided_by, forced, reason
        FROM prove.decisions WHERE day - 1 <= '{day}' ORDER BY prove.decisions.day, position
        """,
    ),
}
"""Field of the report: the tables it needs, and its question about a day."""


def _last_days(snapshot: Path) -> dict[str, str | None]:
    """Each stored table, by qualified name, with its last day; None for a table without rows."""
    tables = "SELECT schema_name || '.' || table_name FROM duckdb_tables() WHERE NOT internal ORDER BY 1"
    names = read_snapshot(snapshot, tables).to_series().to_list()
    if not names:
        return {}
    query = " UNION ALL ".join(f"SELECT '{name}', max(day)::VARCHAR FROM {name}" for name in names)
    return dict(read_snapshot(snapshot, query).rows())


def _weak_spots(report: Report) -> Section:
    title = "Weak spots"
    if report.traffic.is_empty() or not (counted := report.traffic.row(0, named=True))["conversations"]:
        return Section(title, ["No traffic: the map is empty."])
    sentences = [
        f"{counted['conversations']} conversations, {counted['graded']} graded, {counted['failed']} failed; "
        f"{counted['rejects']} records could not be read."
    ]
    if report.weak_spots.is_empty():
        return Section(title, [*sentences, "No graded conversation is in the window: the map is empty."])
    sentences.append(f"The {report.weak_spots.height} first of {counted['spots']} places by priority:")
    rows = [
        [
            spot["category"],
            spot["tool"],
            spot["tool_condition"],
            spot["stance"],
            f"{spot['failures']}/{spot['n']}",
            f"{_rate(spot['rate'])} {_bounds(spot['low'], spot['high'])}",
            spot["state"],
        ]
        for spot in report.weak_spots.iter_rows(named=True)
    ]
    header = ("category", "tool", "tool condition", "stance", "failed", "rate [95 %]", "state")
    return Section(title, sentences, header, rows)


def _pass_rates(report: Report) -> Section:
    title = "Rollouts"
    if report.rollouts.is_empty() or not (counted := report.rollouts.row(0, named=True))["played"]:
        return Section(title, ["Nothing was played."])
    sentences = [
        f"{counted['played']:,} rollouts of {counted['scenarios']:,} scenarios on {counted['tasks']} tasks; "
        f"{counted['lost']} lost to infrastructure, which says nothing about the agent."
    ]
    rows = [
        [
            row["scope"],
            str(row["n_tasks"]),
            f"{_rate(row['value'])} {_bounds(row['low'], row['high'])}",
            str(row["most"]),
            _rate(row["any_of_k"]),
            _rate(row["all_of_k"]),
            str(row["n_unknown"]),
        ]
        for row in report.pass_at.iter_rows(named=True)
    ]
    header = ("scope", "tasks", "pass@1 [95 %]", "k", "pass@k", "pass^k", "no verdict")
    return Section(title, sentences, header, rows)


def _cuts(report: Report) -> Section:
    title = "Training cuts"
    if report.gates.is_empty():
        return Section(title, ["No cut was made."])
    rows = []
    for (cut,), gates in report.gates.group_by("cut", maintain_order=True):
        counts = dict(gates.select("gate", "n").iter_rows())
        kept = counts.pop("kept", 0)
        dropped = ", ".join(f"{gate} {n}" for gate, n in counts.items()) or "nothing"
        rows.append([str(cut), str(kept), str(sum(counts.values())), dropped])
    checks = report.publication
    refused = checks if checks.is_empty() else checks.filter(~pl.col("passed"))
    if checks.is_empty():
        published = ["The publication gate was not reached: nothing may train on these cuts."]
    elif refused.is_empty():
        published = [f"Publication gate: all {checks.height} checks passed."]
    else:
        published = [f"Publication gate: {refused.height} of {checks.height} checks refused."]
    published += [
        f"{row['cut']}, {row['check']}: {row['n_refused']} rows refused. {row['detail']}"
        for row in refused.iter_rows(named=True)
    ]
    return Section(title, published, ("cut", "rollouts kept", "dropped", "by the first gate that did"), rows)


def _judge(report: Report) -> Section:
    title = "Judge trust"
    if report.judge_trust.is_empty():
        return Section(title, ["The judge was not measured."])
    rows = [
        [
            row["source"],
            str(row["n"]),
            str(row["n_skipped"]),
            f"{_rate(row['agreement'])} {_bounds(row['low'], row['high'])}",
            f"{_rate(row['kappa'])} {_bounds(row['kappa_low'], row['kappa_high'])}",
            _rate(row["ac1"]),
            "yes" if row["trusted"] else "no",
        ]
        for row in report.judge_trust.iter_rows(named=True)
    ]
    reasons = [f"{row['source']}: {row['reason']}" for row in report.judge_trust.iter_rows(named=True)]
    header = ("gold labels", "n", "no verdict", "agreement [95 %]", "kappa [95 %]", "AC1", "trusted")
    return Section(title, reasons, header, rows)


def _hacks(report: Report) -> Section:
    title = "Hack scan"
    if report.hack_scan.is_empty():
        return Section(title, ["The reward was not scanned."])
    rows = [
        [
            row["feature"],
            *(_signed(row[name]) for name in ("pooled", "within", "residual")),
            _rate(row["floor"]),
        ]
        for row in report.hack_scan.iter_rows(named=True)
    ]
    header = ("feature", "pooled", "within tasks", "residual", "floor")
    first = report.hack_scan.row(0, named=True)
    return Section(title, [f"{first['reason']}.", first["advice"]], header, rows)


def _proof(report: Report) -> Section:
    title = "Before and after"
    if report.delta.is_empty():
        return Section(title, ["No candidate was held against the serving policy."])
    about = Compared(before="the serving policy", after="the candidate")
    rows = [
        [
            scope_name(row),
            _rate(row["before"]),
            _rate(row["after"]),
            _signed(row["difference"]),
            _bounds(row["low"], row["high"], _signed),
            str(row["n_tasks"]),
            VERDICTS[row["verdict"]],
        ]
        for row in report.delta.iter_rows(named=True)
    ]
    sentence = answer(report.delta, about)
    header = ("scope", "before", "after", "difference", "interval", "tasks", "verdict")
    return Section(title, [sentence], header, rows)


def _promotions(report: Report) -> Section:
    title = "Promotions"
    rows = [
        [day, candidate, serving, "promoted" if promoted else "refused", "gate", reason]
        for day, candidate, serving, promoted, reason in report.promotions.iter_rows()
    ]
    rows += [
        [day, version, replaces, f"{_BY_HAND[action]}{', forced' if forced else ''}", by, reason]
        for day, version, replaces, action, by, forced, reason in report.decisions.iter_rows()
    ]
    if not rows:
        return Section(title, ["No decision was taken."])
    # Stable: of a day the gate decides first, and people in their order.
    rows.sort(key=lambda row: row[0])
    return Section(title, [], ("day", "policy", "against", "decision", "by", "reason"), rows)


def _places(report: Report) -> Section:
    rows = [
        ["snapshot, to be read by SQL", str(report.snapshot)],
        ["database, for runs only", str(report.database)],
        ["this report", str(report.path)],
    ]
    if not report.delta.is_empty():
        rows.append(["the proof, with its picture", str(report.path.with_suffix(".delta.md"))])
    return Section("Where things are", [], ("what", "path"), rows)


def _rate(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.3f}"


def _signed(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:+.3f}"


def _bounds(low: float | None, high: float | None, say: Callable[[float | None], str] = _rate) -> str:
    return "" if low is None or high is None else f"[{say(low)}, {say(high)}]"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
