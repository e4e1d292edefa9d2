"""What judge trust says of judges that people have measured: python benchmarks/llmbar.py FOLDER.

FOLDER holds the result files of LLMBar (princeton-nlp/LLMBar): pairs of answers of which people say which is
the better one, and what GPT-4 and ChatGPT said in both orders. Each order of a pair is a label, each pair a
task. `Swap` asks again, shown its own reasons of both orders, where the two disagree: its labels are of every
round, its swap consistency that of the first.
"""

import json
import sys
from pathlib import Path
from typing import NamedTuple

from while_pipeline.grade.judge import Choice
from while_pipeline.grade.probes import Probed
from while_pipeline.grade.swaps import Compared, order_labels, swapped
from while_pipeline.grade.trust import TrustRow, judge_trust

SETS = ("Natural", "Adversarial_Manual")
JUDGES = ("GPT-4_Vanilla", "GPT-4_Swap", "ChatGPT_Vanilla", "ChatGPT_Swap")
_CHOICES: dict[str | None, Choice] = {"1": "first", "2": "second"}
"""Their winners, which speak of the pair as it is, whatever was shown first; any other could not be read."""


class Measured(NamedTuple):
    """A judge on one set of pairs."""

    trust: TrustRow
    swap: Probed


def rounds_of(file: Path) -> list[list[Compared]]:
    """Every round of every pair of a result file."""
    return [
        [
            Compared(
                task_id=str(number),
                first_is_better=pair["label"] == 1,
                forward=_CHOICES.get(said["swap = False"]["winner"]),
                backward=_CHOICES.get(said["swap = True"]["winner"]),
                longer=len(pair["output_1"].split()) - len(pair["output_2"].split()),
            )
            for said in pair["results"]
        ]
        for number, pair in enumerate(json.loads(file.read_text("utf-8")))
    ]


def measured(file: Path) -> Measured:
    """What judge trust says of the judge of a result file."""
    rounds = rounds_of(file)
    labels = order_labels(one for pair in rounds for one in pair)
    return Measured(
        trust=judge_trust(labels, source="human")[0],
        swap=swapped((pair[0].forward, pair[0].backward) for pair in rounds),
    )


def _line(name: str, judge: str, found: Measured) -> str:
    row, swap = found
    cells = (
        name,
        judge.replace("_", " "),
        f"{row.n} of {row.n_tasks} pairs",
        str(row.n_skipped),
        f"{row.agreement:.3f} [{row.low:.3f}, {row.high:.3f}]",
        f"{row.kappa:.3f} [{row.kappa_low:.3f}, {row.kappa_high:.3f}]",
        f"{swap.n - swap.flipped} of {swap.n}",
        "yes" if row.trusted else "no",
    )
    return f"| {' | '.join(cells)} |"


def main(folder: Path) -> None:
    """Print the table."""
    header = ("set", "judge", "labels", "not read", "agreement", "kappa", "same in both orders", "trusted")
    print(f"| {' | '.join(header)} |")
    print("| --- | --- | --- | ---: | --- | --- | --- | --- |")
    for name in SETS:
        for judge in JUDGES:
            print(_line(name, judge, measured(folder / f"{name}.{judge}.result.json")))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
