import pytest
from hypothesis import given
from hypothesis import strategies as st

from while_pipeline.train.decontaminate import GRAM, SealedPrompts

SEALED = "Please look at my bill from March, and pay it today if you can: BILL-1001."
LONG = " ".join(f"w{i}" for i in range(60))
INDEX = SealedPrompts({"bill": SEALED, "long": LONG, "short": "Hi, it's me"})


@pytest.mark.parametrize(
    "prompt",
    [
        SEALED,
        SEALED.upper(),
        f"  {SEALED}\n",
        SEALED.replace(",", " ").replace(":", "!!"),
        "bill_1001".join([SEALED.removesuffix("BILL-1001."), ""]),
    ],
)
def test_case_space_and_punctuation_do_not_hide_a_copy(prompt: str) -> None:
    assert INDEX.copied(prompt) == "bill"


def test_a_short_prompt_can_only_be_an_exact_copy() -> None:
    assert INDEX.copied("hi it's me") == "short"
    assert INDEX.copied("hi it's me again") is None
    assert INDEX.copied("please look at my bill from march") is None


def _with_new_words(grams: int, new: int) -> str:
    """A prompt of `grams` 8-grams, of which all but `new` stand in the long sealed prompt."""
    words = LONG.split()[: grams - new + GRAM - 1]
    return " ".join([*words, *(f"n{i}" for i in range(new))])


@pytest.mark.parametrize(
    ("grams", "new", "copied"), [(5, 1, True), (10, 2, True), (10, 3, False), (20, 4, True), (20, 5, False)]
)
def test_a_near_copy_shares_four_fifths_of_its_8_grams_inclusive(grams: int, new: int, copied: bool) -> None:
    assert INDEX.copied(_with_new_words(grams, new)) == ("long" if copied else None)


def test_a_prompt_made_of_two_sealed_ones_copies_neither() -> None:
    halves = " ".join([*LONG.split()[:20], *SEALED.split()])
    assert INDEX.copied(halves) is None


def test_of_several_tasks_that_are_copied_the_first_by_id_is_named() -> None:
    shared = " ".join(f"w{i}" for i in range(30))
    index = SealedPrompts({"b": f"{shared} x1 x2 x3", "a": f"{shared} y1 y2 y3", "c": shared})
    assert index.copied(f"{shared} z1") == "a"
    assert index.copied(f"{shared} x1") == "a"
    assert index.copied(shared) == "c", "an exact copy is named before any near one"


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=24), max_size=6), st.data())
def test_looking_up_the_rarest_8_grams_finds_what_comparing_with_every_prompt_finds(
    sealed: list[list[str]], data: st.DataObject
) -> None:
    parts = st.sampled_from(sealed) if sealed else st.just([])
    words = [*data.draw(parts), *data.draw(st.lists(st.sampled_from("abcx"), max_size=3)), *data.draw(parts)]

    def grams(of: list[str]) -> set[tuple[str, ...]]:
        return {tuple(of[i : i + GRAM]) for i in range(len(of) - GRAM + 1)}

    own = grams(words)
    exact = [n for n, other in enumerate(sealed) if other == words]
    near = [n for n, other in enumerate(sealed) if own and 5 * len(own & grams(other)) >= 4 * len(own)]
    expected = next((str(n) for n in (*exact, *near)), None)
    assert (
        SealedPrompts({str(n): " ".join(of) for n, of in enumerate(sealed)}).copied(" ".join(words))
        == expected
    )


@pytest.mark.parametrize("other", ["Где мой счёт за март", "请问我的账单在哪里", "أين فاتورتي"])
def test_scripts_other_than_latin_are_words_too(other: str) -> None:
    index = SealedPrompts({"russian": "Покажите мой тариф", "same": other})
    assert index.copied(f"{other}!") == "same"
    assert SealedPrompts({"russian": "Покажите мой тариф"}).copied(other) is None


def test_nothing_sealed_nothing_copied() -> None:
    assert SealedPrompts({}).copied(SEALED) is None


@given(st.lists(st.sampled_from("abcdefgh"), min_size=GRAM, max_size=30), st.data())
def test_cover_is_what_counting_shared_8_grams_gives(words: list[str], data: st.DataObject) -> None:
    prompt = data.draw(st.lists(st.sampled_from("abcdefgh"), min_size=GRAM, max_size=30))
    start = data.draw(st.integers(0, len(words) - 1))
    prompt = (prompt + words[start:])[-data.draw(st.integers(GRAM, 40)) :]

    def grams(of: list[str]) -> set[tuple[str, ...]]:
        return {tuple(of[i : i + GRAM]) for i in range(len(of) - GRAM + 1)}

    own = grams(prompt)
    expected = words == prompt or (bool(own) and 5 * len(own & grams(words)) >= 4 * len(own))
    assert (SealedPrompts({"t": " ".join(words)}).copied(" ".join(prompt)) == "t") is expected
