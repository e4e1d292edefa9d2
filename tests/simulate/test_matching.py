import random
import re
import subprocess
import sys

import pytest

from while_pipeline.simulate.matching import matching_text

PATTERNS = [
    r"[A-Z]{3}",
    r"\+?\d{10,15}",
    r"(foo|bar)-(\d)\2",
    r"[^a-z]+",
    r"[^\W\d]{2}\s\S\D\W",
    r"(?P<year>20\d\d)(?:-\d\d){2}",
    r"[\w.]+@[a-z]+\.(com|org)",
    r"a*?b++(?>c|d)[.-]?",
    r"",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_text_matches_from_end_to_end_and_stays_short(pattern: str) -> None:
    texts = [matching_text(pattern, random.Random(seed)) for seed in range(50)]
    assert all(text is not None and re.fullmatch(pattern, text) for text in texts)
    assert max(len(text or "") for text in texts) <= 40


def test_anchors_draw_nothing() -> None:
    assert matching_text("^ab$", random.Random(1)) == "ab"


def test_a_pattern_of_another_dialect_gives_nothing() -> None:
    assert matching_text(r"^\p{L}+$", random.Random(1)) is None


def test_another_process_draws_the_same() -> None:
    code = (
        "import random; from while_pipeline.simulate.matching import matching_text;"
        "print(matching_text('[^a-f]{12}', random.Random(7)))"
    )
    drawn = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout.rstrip("\n")
        for seed in ("1", "2")
    }
    assert drawn == {matching_text("[^a-f]{12}", random.Random(7))}
