import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from while_pipeline.train.wording import plain, runs, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's BILL_1001, ok?", ["it", "s", "bill", "1001", "ok"]),
        ("Größe STRASSE straße", ["grösse", "strasse", "strasse"]),
        (unicodedata.normalize("NFD", "Gebühr für März"), ["gebühr", "für", "märz"]),
        ("ｆｕｌｌ １２ ﬁne Ⅳ", ["full", "12", "fine", "iv"]),
        ("ℌallo ǰ", ["hallo", unicodedata.normalize("NFKC", "ǰ")]),
        ("Где мой счёт?", ["где", "мой", "счёт"]),
        ("내 요금제", ["내", "요금제"]),
        ("请查BILL-1的账单。", ["请", "查", "bill", "1", "的", "账", "单"]),
        ("ﾃﾞｰﾀ を", ["デ", "ー", "タ", "を"]),
        ("ขอบิล", ["ข", "อ", "บ", "ิ", "ล"]),
        ("👍 ??? …", []),
    ],
)
def test_words_are_letters_and_digits_whatever_their_case_and_form(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@given(st.text())
def test_ascii_or_not_the_words_are_the_same(text: str) -> None:
    assert words(f"{text} ü")[:-1] == words(text)


def test_a_plain_text_has_its_punctuation_and_single_spaces() -> None:
    assert plain(" The line,\n\twas\u00a0PORTED… ") == "the line, was ported..."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "The line was ported on Monday.",
            ("the line was", "line was ported", "was ported on", "ported on monday"),
        ),
        ("REF-48213-XYZ", ("ref-48213-xyz",)),
        ("(see REF-48213-XYZ!)", ("see ref-48213-xyz", "ref-48213-xyz")),
        ("eleven char", ()),
        ("twelve chars", ("twelve chars",)),
        (
            "我的账单上个月比平时高了很多",
            ("我的账单上个月比平时高了", "的账单上个月比平时高了很", "账单上个月比平时高了很多"),
        ),
        ("????????????", ()),
    ],
)
def test_runs_are_the_shortest_of_whole_words_that_are_long_enough(
    text: str, expected: tuple[str, ...]
) -> None:
    assert runs(text, 12) == expected


@given(st.lists(st.text("abcdefgh", min_size=1, max_size=9), min_size=1, max_size=12), st.data())
def test_whoever_repeats_that_much_repeats_a_run(said: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(said) - 1))
    part = " ".join(said[start : data.draw(st.integers(start + 1, len(said)))])
    found = runs(" ".join(said), 12)
    assert any(run in part for run in found) or len(part) < 12
    assert all(f" {run} " in f" {' '.join(said)} " for run in found)
