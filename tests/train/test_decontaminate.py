import random
import time
import unicodedata

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


CHINESE = (
    "请帮我查询一下我的手机账单，我上个月的费用比平时高很多，请告诉我原因，并且取消所有的附加服务，谢谢你。"
)
GERMAN = (
    "Könnten Sie bitte die Gebühr für März prüfen? Sie war höher als üblich, und ich möchte das Geld zurück."
)
THAI = "ช่วยตรวจสอบบิลของฉันเดือนที่แล้วหน่อยเพราะค่าใช้จ่ายสูงกว่าปกติมาก"


@pytest.mark.parametrize(
    ("sealed", "copy"),
    [
        (CHINESE, CHINESE.replace("谢谢你", "谢谢您")),
        (CHINESE, CHINESE.replace("，", " ")),
        (THAI, f"{THAI[:-1]}ๆ"),
        (GERMAN, unicodedata.normalize("NFD", GERMAN)),
        (GERMAN, GERMAN.upper()),
        ("Straße 12", "STRASSE １２"),
    ],
)
def test_neither_a_script_without_spaces_nor_a_unicode_form_hides_a_copy(sealed: str, copy: str) -> None:
    assert SealedPrompts({"same": sealed}).copied(copy) == "same"


def test_other_words_of_a_script_without_spaces_are_no_copy() -> None:
    other = "请帮我查询一下明天的天气，我想知道会不会下雨，并且告诉我需要带什么样的衣服去上海，谢谢你。"
    assert SealedPrompts({"sealed": CHINESE}).copied(other) is None


def test_a_prompt_without_words_copies_only_the_same_text() -> None:
    index = SealedPrompts({"asked": "???", "empty": ""})
    assert index.copied(" ??? ") == "asked"
    assert index.copied(" ") == "empty"
    assert index.copied("👍") is None
    assert SealedPrompts({"a": "👍"}).copied("👍") == "a"


def test_nothing_sealed_nothing_copied() -> None:
    assert SealedPrompts({}).copied(SEALED) is None


PARTS = [" ".join(f"{letter}{i}" for i in range(12)) for letter in "abc"]
"""What many prompts have in common."""
COMPOSED = st.lists(st.sampled_from([*PARTS, *(f"{part} {part[:9]}" for part in PARTS)]), max_size=3)
OWN = st.lists(st.sampled_from("uvwxyz"), max_size=9)


@given(st.lists(st.tuples(COMPOSED, OWN), max_size=8), st.tuples(COMPOSED, OWN))
def test_what_sealed_prompts_have_in_common_is_compared_once_and_nothing_is_missed(
    sealed: list[tuple[list[str], list[str]]], prompt: tuple[list[str], list[str]]
) -> None:
    def text(parts: tuple[list[str], list[str]]) -> str:
        return " ".join(parts[0] + parts[1])

    def grams(of: str) -> set[tuple[str, ...]]:
        words = of.split()
        return {tuple(words[i : i + GRAM]) for i in range(len(words) - GRAM + 1)}

    texts = [text(one) for one in sealed]
    own = grams(text(prompt))
    exact = [n for n, other in enumerate(texts) if other == text(prompt)]
    near = [n for n, other in enumerate(texts) if own and 5 * len(own & grams(other)) >= 4 * len(own)]
    expected = next((str(n) for n in (*exact, *near)), None)
    assert SealedPrompts({str(n): one for n, one in enumerate(texts)}).copied(text(prompt)) == expected


def test_a_look_up_among_prompts_that_begin_alike_does_not_compare_with_each() -> None:
    rng = random.Random(1)
    sizes = {"s": 60, "a": 14, "b": 14, "c": 14}
    shared, *parts = (" ".join(f"{letter}{n}" for n in range(size)) for letter, size in sizes.items())

    def sealed() -> str:
        return " ".join([shared, rng.choice(parts), *(f"x{rng.randrange(10**9)}" for _ in range(20))])

    def seconds(count: int) -> float:
        index = SealedPrompts({str(n): sealed() for n in range(count)})
        start = time.process_time()
        for _ in range(50):
            assert index.copied(" ".join([shared, *parts])) is None
        return time.process_time() - start

    assert seconds(3_000) < 20 * max(seconds(20), 0.001)


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
