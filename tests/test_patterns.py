import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from while_pipeline import transcript
from while_pipeline.grade import conduct
from while_pipeline.patterns import Pattern

PATTERNS = {
    f"{module.__name__}.{name}": value
    for module in (transcript, conduct)
    for name, value in vars(module).items()
    if isinstance(value, Pattern)
}


@pytest.mark.parametrize("name", sorted(PATTERNS))
@given(data=st.data())
def test_whatever_a_pattern_matches_holds_one_of_its_signs(name: str, data: st.DataObject) -> None:
    pattern = PATTERNS[name]
    regex = re.compile(pattern.expression, re.IGNORECASE)
    text = data.draw(st.from_regex(regex, alphabet=st.characters(codec="ascii")))
    assert pattern.search(text)
    assert pattern.findall(text) == regex.findall(text)


def test_a_text_without_a_match_has_none() -> None:
    pattern = Pattern(r"\bbill\b", signs="bill")
    assert not pattern.search("billing")
    assert pattern.findall("billing") == []
    assert pattern.search("My BILL")
