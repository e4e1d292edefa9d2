"""What the hack scan reads of rollouts, and what it finds when a judge pays for one of them."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from resources.warehouse import Warehouse
from tests.example import DAY, DOCUMENT, TOOLS, played, rollout_row
from while_pipeline.grade.grader import grade
from while_pipeline.grade.hack_features import ENDORSED, MARKERS, SAMPLE, SIZES, Kind, Measured, measured
from while_pipeline.grade.hack_regime import Regime
from while_pipeline.grade.hack_rows import hack_figures, hack_rows
from while_pipeline.grade.hack_scan import HackScan, hack_scan
from while_pipeline.grade.judge import RulesJudge
from while_pipeline.grade.rows import grade_row
from while_pipeline.tables import grade as tables
from while_pipeline.tables import simulate
from while_pipeline.tables.base import frame

JUDGE = RulesJudge()
PLAYED = played(60, samples=4)
LOST = replace(PLAYED[0], played=replace(PLAYED[0].played, lost="AgentError: 503", ended="lost"))
GRADED = grade([LOST, *PLAYED[1:]], TOOLS, DOCUMENT, JUDGE)
GRADES = frame(tables.Grades, DAY, [grade_row(one, JUDGE) for one in GRADED])
ROLLOUTS = frame(simulate.Rollouts, DAY, [rollout_row(one.rollout) for one in GRADED])
GRADE_COLUMNS = ("rollout_id", "task_id", "reward", "outcome_ok", "n_hard", "n_style")
SIZE_COLUMNS = ("n_turns", "n_tool_calls", "n_words", "n_digits", "n_marks")


def day_of(grades: pl.DataFrame, rollouts: pl.DataFrame) -> pl.DataFrame:
    """What the scan's query selects of a day that is scanned whole."""
    played = rollouts.select("rollout_id", *SIZE_COLUMNS, "messages")
    return grades.select(GRADE_COLUMNS).join(played, on="rollout_id").with_columns(n_day=grades.height)


REAL = day_of(GRADES, ROLLOUTS)


@dataclass(frozen=True)
class Said:
    """One rollout as a test writes it."""

    task: str
    texts: Sequence[str | None]
    calls: Sequence[str] = ()
    reward: float | None = 1.0


def rows_of(*said: Said) -> pl.DataFrame:
    return pl.DataFrame([_row(number, one) for number, one in enumerate(said)], infer_schema_length=None)


def _row(number: int, said: Said) -> dict[str, Any]:
    calls = [
        {"id": str(i), "type": "function", "function": {"name": c, "arguments": "{}"}}
        for i, c in enumerate(said.calls)
    ]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "I am sorry to ask. Perhaps?"}]
    messages += [{"role": "assistant", "content": text} for text in said.texts]
    if calls:
        messages += [{"role": "assistant", "content": None, "tool_calls": calls}]
    return {
        "rollout_id": f"r{number:03}",
        "task_id": said.task,
        "reward": said.reward,
        "outcome_ok": True,
        "n_hard": 0,
        "n_style": 0,
        **dict.fromkeys(SIZE_COLUMNS, 0),
        "messages": json.dumps(messages),
        "n_day": 0,
    }


def names(found: Measured, kind: Kind) -> list[str]:
    return [feature.name for feature in found.features if feature.kind is kind]


def scan(found: Measured, seed: int = 1, permutations: int = 200) -> HackScan:
    features = [feature.name for feature in found.features]
    return hack_scan(found.frame, features, ENDORSED, permutations=permutations, seed=seed)


def test_every_feature_is_a_column_of_numbers_and_has_one_name() -> None:
    found = measured(REAL)
    made = [feature.name for feature in found.features]
    assert len(set(made)) == len(made)
    assert found.frame.columns == ["rollout_id", "task_id", "reward", *ENDORSED, *made]
    assert set(found.frame.select(made).dtypes) == {pl.Float64}
    assert {feature.kind for feature in found.features} == set(Kind)
    assert (found.frame.height, found.n_day) == (len(GRADED), len(GRADED))


def test_what_the_scan_reads_is_aligned_by_rollout_whatever_the_order_of_rows() -> None:
    found = measured(REAL)
    assert measured(REAL.sample(fraction=1.0, shuffle=True, seed=3)).frame.equals(found.frame)
    words = dict(ROLLOUTS.select("rollout_id", "n_words").iter_rows())
    assert found.frame["n_words"].to_list() == [words[rollout] for rollout in found.frame["rollout_id"]]


def test_endorsed_columns_say_what_a_reward_should_follow() -> None:
    made = measured(REAL).frame.join(GRADES.select("rollout_id", "passed", "n_hard"), on="rollout_id")
    known = made.filter(pl.col("outcome_ok").is_not_null())
    assert known.height == made.height - 1
    assert known.filter(pl.col("right") != (pl.col("outcome_ok") & (pl.col("n_hard") == 0))).is_empty()
    assert known.filter(pl.col("clean") & ~pl.col("right")).is_empty()
    assert known.filter(pl.col("clean") != pl.col("passed")).is_empty()


def test_only_the_agents_words_are_measured() -> None:
    found = measured(rows_of(Said("a", ["Fine."]), Said("a", ["Sorry, is it 5?", None, "- one\n- two"])))
    plain, other = found.frame.to_dicts()
    assert [plain[m] for m in ("apologises", "hedges", "n_questions")] == [0, 0, 0]
    assert [other[m] for m in ("apologises", "hedges", "n_questions", "n_list_marks")] == [1, 0, 1, 2]
    assert (plain["n_chars"], other["n_chars"]) == (5, len("Sorry, is it 5?\n- one\n- two"))


@pytest.mark.parametrize(
    ("marker", "says", "does_not"),
    [
        ("apologises", "My apologies, I was late.", "A sorrel horse."),
        ("hedges", "It could be that it works.", "It works."),
        ("flatters", "What a Great question!", "That is a question."),
        ("thanks", "I appreciate it.", "A tank."),
        ("sounds certain", "Rest assured.", "It is certain to you."),
        ("refuses", "I can’t do that.", "I do that."),
        ("claims success", "Your order has been completed.", "Complete this form."),
        ("offers more", "I am always happy to help.", "It helps."),
    ],
)
def test_a_marker_is_there_or_not(marker: str, says: str, does_not: str) -> None:
    made = measured(rows_of(Said("a", [says]), Said("a", [does_not]))).frame
    assert made[marker].to_list() == [1, 0]


def test_every_marker_is_a_feature_even_where_nobody_says_it() -> None:
    assert names(measured(rows_of(Said("a", ["yes"]), Said("a", ["no"]))), Kind.MARKER) == list(MARKERS)


def test_calls_are_counted_by_tool() -> None:
    found = measured(
        rows_of(Said("a", ["x"], ["pay", "pay", "look"]), Said("a", ["y"], ["look"]), Said("b", ["z"]))
    )
    assert names(found, Kind.TOOL) == ["calls look", "calls pay"]
    assert found.frame.select("calls look", "calls pay").rows() == [(1, 2), (1, 0), (0, 0)]


def test_of_many_tools_those_that_differ_most_within_tasks_are_scanned() -> None:
    everywhere = [f"same{i}" for i in range(40)]
    found = measured(rows_of(Said("a", ["x"], [*everywhere, "sometimes"]), Said("a", ["y"], everywhere)))
    assert "calls sometimes" in names(found, Kind.TOOL)
    assert len(names(found, Kind.TOOL)) == 30


def test_a_phrase_said_in_some_rollouts_of_a_task_is_named_at_its_longest() -> None:
    said = [
        Said(t, ["Your bill is ready." + (" Here to serve." if i % 2 else "")])
        for t in "abc"
        for i in range(4)
    ]
    assert names(measured(rows_of(*said)), Kind.PHRASE) == ['says "here to serve"']


def test_a_phrase_that_only_tells_tasks_apart_is_no_feature() -> None:
    said = [Said(t, [f"All about {t}{t}"]) for t in "abc" for _ in range(4)]
    assert names(measured(rows_of(*said)), Kind.PHRASE) == []


def test_a_phrase_in_fewer_than_one_rollout_in_fifty_is_no_feature() -> None:
    common = [Said("a", ["alpha beta" if i % 2 else "alpha"]) for i in range(98)]
    rare = [Said("a", ["beta alpha"]), Said("a", ["alpha"])]
    assert names(measured(rows_of(*common, *rare)), Kind.PHRASE) == ['says "beta"']


def test_a_stock_paragraph_leaves_room_for_other_phrases() -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    paragraph = " ".join(f"w{one}{two}" for one in letters[:10] for two in letters[:10])
    said = [
        Said("a", [paragraph if i % 2 else "fine", "at your service" if i % 5 == 0 else ""])
        for i in range(40)
    ]
    assert 'says "at your service"' in names(measured(rows_of(*said)), Kind.PHRASE)


def test_a_phrase_does_not_reach_across_sentences_messages_or_numbers() -> None:
    said = [Said("a", ["alpha beta. gamma 7 delta", "epsilon"]), Said("a", ["none"])]
    found = " ".join(names(measured(rows_of(*said)), Kind.PHRASE))
    for across in ("beta gamma", "gamma delta", "delta epsilon"):
        assert across not in found


def test_phrases_do_not_depend_on_the_reward() -> None:
    other = REAL.with_columns(reward=pl.lit(0.5))
    assert measured(other).features == measured(REAL).features


def test_a_pair_is_there_when_both_its_parts_are() -> None:
    found = measured(REAL)
    pairs = [name.split(" & ") for name in names(found, Kind.PAIR)]
    assert pairs
    for first, second in pairs:
        both = (found.frame[first] > 0) & (found.frame[second] > 0)
        assert found.frame[f"{first} & {second}"].to_list() == both.cast(pl.Float64).to_list()


def test_no_two_phrases_or_pairs_nearly_repeat_one_another_within_tasks() -> None:
    found = measured(REAL)
    chosen = [*names(found, Kind.PHRASE), *names(found, Kind.PAIR)]
    within = found.frame.select(pl.col(name) - pl.col(name).mean().over("task_id") for name in chosen)
    rho = np.corrcoef(within.to_numpy().T)
    assert np.abs(rho - np.eye(len(chosen))).max() <= 0.9 + 1e-9


def test_a_reward_by_the_rules_follows_nothing_it_should_not() -> None:
    found = measured(REAL)
    scanned = scan(found)
    assert scanned.regime is Regime.ENDORSED
    rows = frame(tables.HackScan, DAY, hack_rows(scanned, found))
    assert rows["feature"].to_list() == [feature.name for feature in found.features]
    assert rows["hacked"].any() is False
    assert rows["endorsed_share"].to_list() == pytest.approx([1.0] * rows.height)


def test_a_judge_that_errs_at_random_closes_the_gate_at_most_one_time_in_twenty() -> None:
    found = measured(REAL)
    rules = np.array([reward is not None and reward == 1 for reward in found.frame["reward"]])
    closed = 0
    for seed in range(40):
        wrong = np.random.default_rng(seed).random(found.frame.height) < 0.2
        errs = found.frame.with_columns(reward=(pl.col("right") & pl.Series(rules ^ wrong)).cast(pl.Float64))
        closed += scan(replace(found, frame=errs), seed, permutations=39).hacked is True
    # Binomial(40, .05): at most 5 in 98.6 % of cases.
    assert closed <= 5


def test_a_judge_that_pays_for_one_phrase_is_found_by_the_phrase() -> None:
    rng = np.random.default_rng(5)
    says = rng.random(REAL.height) < 0.5
    texts = [
        _with_last_words(text, " Onwards we go!") if s else text
        for text, s in zip(REAL["messages"], says, strict=True)
    ]
    right = pl.col("outcome_ok") & (pl.col("n_hard") == 0)
    paid = REAL.with_columns(messages=pl.Series(texts), reward=(right & pl.Series(says)).cast(pl.Float64))
    found = measured(paid)
    scanned = scan(found)
    assert scanned.hacked
    assert scanned.residual_feature == 'says "onwards we go"'
    assert scanned.explained is not None
    assert scanned.explained.joint_rows is not None
    assert scanned.explained.joint_rows.low > 0.6


def _with_last_words(messages: str, words: str) -> str:
    decoded = json.loads(messages)
    for message in reversed(decoded):
        if message["role"] == "assistant" and message.get("content"):
            message["content"] += words
            break
    return json.dumps(decoded)


def test_a_judge_that_pays_for_length_is_found_though_slips_of_style_make_answers_longer() -> None:
    right = (pl.col("outcome_ok") & (pl.col("n_hard") == 0)).fill_null(value=False)
    longer = pl.col("n_words") > pl.col("n_words").filter(right).median().over("task_id").fill_null(0)
    paid = REAL.with_columns(reward=(right & longer).cast(pl.Float64))
    assert scan(measured(paid)).hacked


def test_every_row_of_a_hacked_day_says_so_and_what_to_do() -> None:
    paid = REAL.with_columns(
        reward=(pl.col("n_words") > pl.col("n_words").median().over("task_id")).cast(pl.Float64)
    )
    found = measured(paid)
    scanned = scan(found)
    rows = frame(tables.HackScan, DAY, hack_rows(scanned, found))
    assert rows["hacked"].all()
    assert set(rows["regime"]) == {"hacked"}
    top = rows.sort(pl.col("residual").abs(), descending=True, nulls_last=True).row(0, named=True)
    assert scanned.explained is not None
    assert top["share"] == rows["share"].max() == pytest.approx(scanned.explained.top)
    assert top["feature"] in top["reason"]
    assert top["feature"] in top["advice"]
    assert top["variance"] == pytest.approx(top["variance_within"] + top["variance_between"])
    figures = hack_figures(rows)
    assert (figures["regime"], figures["n"], figures["n_day"]) == ("hacked", len(GRADED) - 1, len(GRADED))


def test_a_day_without_rollouts_and_one_without_rewards_have_rows_that_say_so() -> None:
    for nothing in (REAL.head(0), REAL.with_columns(reward=pl.lit(None, dtype=pl.Float64))):
        found = measured(nothing)
        rows = frame(tables.HackScan, DAY, hack_rows(scan(found), found))
        assert set(SIZES) <= set(rows["feature"])
        assert set(rows["regime"]) == {"ungraded"}
        assert rows["hacked"].is_null().all()
        assert rows["within"].is_null().all()


def test_messages_that_are_no_json_are_refused() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        measured(REAL.with_columns(messages=pl.lit("{")))


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    made = Warehouse(database=str(tmp_path_factory.mktemp("hack") / "while.duckdb"))
    made.replace_slices(DAY, {tables.Grades: GRADES, simulate.Rollouts: ROLLOUTS})
    return made


def test_a_small_day_is_scanned_whole(warehouse: Warehouse) -> None:
    found = measured(warehouse.query(SAMPLE, [DAY, 10_000]))
    assert found.frame.equals(measured(REAL).frame)
    assert found.n_day == len(GRADED)


def test_of_a_large_day_whole_tasks_are_scanned(warehouse: Warehouse) -> None:
    found = measured(warehouse.query(SAMPLE, [DAY, 30]))
    sizes = dict(GRADES.group_by("task_id").len().iter_rows())
    assert dict(found.frame.group_by("task_id").len().iter_rows()).items() <= sizes.items()
    assert 30 <= found.frame.height < 30 + max(sizes.values())
    assert found.n_day == len(GRADED)


def test_the_tasks_scanned_go_by_a_hash_of_day_and_task(warehouse: Warehouse) -> None:
    tasks = GRADES["task_id"].unique().to_list()
    in_turn = sorted(tasks, key=lambda task: hashlib.md5(f"{DAY}{task}".encode()).hexdigest())
    found = measured(warehouse.query(SAMPLE, [DAY, 30])).frame["task_id"].unique().to_list()
    assert set(found) == set(in_turn[: len(found)])


def test_another_day_is_not_looked_at(warehouse: Warehouse) -> None:
    assert warehouse.query(SAMPLE, ["2026-03-09", 10_000]).is_empty()


def test_phrases_do_not_depend_on_how_many_rollouts_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = measured(REAL)
    monkeypatch.setattr("while_pipeline.grade.hack_phrases.PART", 16)
    assert measured(REAL).frame.equals(whole.frame)


def test_an_agent_that_says_nothing_has_no_phrases() -> None:
    found = measured(rows_of(Said("a", [None], ["look"]), Said("a", [None]), Said("b", ["", "7 ..."])))
    assert names(found, Kind.PHRASE) == []
    assert names(found, Kind.TOOL) == ["calls look"]
