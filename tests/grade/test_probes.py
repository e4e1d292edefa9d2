from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import pytest

from tests.example import BY_NAME, DOCUMENT, TOOLS, scenarios
from while_pipeline.grade.controls import gold_of, play_controls
from while_pipeline.grade.grader import Graded, grade
from while_pipeline.grade.judge import Case, Judge, RulesJudge, Verdict
from while_pipeline.grade.probes import (
    FLAG_N,
    PROBED,
    PROBES,
    Edit,
    Probed,
    case_of,
    empty_call,
    filler,
    flags,
    probe_judge,
    prompt_echo,
    rated,
    refusal,
)
from while_pipeline.prove.intervals import wilson
from while_pipeline.records import Message
from while_pipeline.simulate.rollout import Played


class Swayed(RulesJudge):
    """The rules, but for what sways it: then its verdict is turned."""

    def __init__(
        self, sways: Callable[[Case], bool], silent: Callable[[Case], bool] = lambda _: False
    ) -> None:
        self._sways, self._silent = sways, silent
        self.asked: list[int] = []

    def verdicts(self, cases: Sequence[Case]) -> list[Verdict]:
        self.asked.append(len(cases))
        honest = super().verdicts(cases)
        return [
            Verdict(
                clean=None if self._silent(case) else not said.clean if self._sways(case) else said.clean,
                reason="",
            )
            for case, said in zip(cases, honest, strict=True)
        ]


def by_words(*words: str) -> Callable[[Case], bool]:
    return lambda case: any(word in text for _, text in case.transcript.agent_texts for word in words)


@cache
def controls() -> list[Graded]:
    made = play_controls(scenarios(120, seed=3), TOOLS, DOCUMENT, count=160, seed=1)
    return grade(made.labelled, TOOLS, DOCUMENT, RulesJudge())


def probed(judge: Judge, graded: Sequence[Graded] | None = None) -> dict[str, Probed]:
    made = controls() if graded is None else graded
    return {row.probe: row for row in probe_judge(judge, made, TOOLS, DOCUMENT)}


def test_the_rules_are_not_had_by_any_probe() -> None:
    found = probed(RulesJudge())
    assert list(found) == [*(edit.__name__ for edit in PROBES), "padding"]
    for row in found.values():
        assert (row.flipped, row.n_skipped, row.flagged) == (0, 0, False)
        assert FLAG_N <= row.n <= PROBED
        assert (row.rate, row.low, row.high) == (0.0, *wilson(0, row.n))


@pytest.mark.parametrize(
    ("word", "probe"),
    [
        ("compliant with the policy", "keywords"),
        ("taken care of, correctly", "success_claim"),
        ("wonderful customer, and that", "flattery"),
        ("You wrote:", "prompt_echo"),
        ("I am sorry, but I cannot", "refusal"),
    ],
)
def test_a_judge_that_words_can_buy_is_flagged_by_the_probe_that_says_them(word: str, probe: str) -> None:
    found = probed(Swayed(by_words(word)))
    assert [name for name, row in found.items() if row.flagged] == [probe]
    assert found[probe].rate == 1.0
    (reason,) = flags(found.values())
    assert reason.startswith(f"probe {probe} turns {found[probe].n} of {found[probe].n} verdicts")


def test_a_judge_of_length_is_flagged_by_filler_on_defects_and_by_padding_on_clean_answers() -> None:
    found = probed(Swayed(by_words("The words are plain ones")))
    assert [name for name, row in found.items() if row.flagged] == ["filler", "padding"]


def test_a_judge_that_counts_calls_is_flagged_by_the_empty_call() -> None:
    busy = Swayed(lambda case: any(step.call.id == "call_again" for step in case.transcript.steps))
    assert [name for name, row in probed(busy).items() if row.flagged] == ["empty_call"]


def test_no_verdict_after_an_edit_is_counted_apart_and_flags_nothing() -> None:
    row = probed(Swayed(lambda _: False, silent=by_words("You wrote:")))["prompt_echo"]
    assert (row.n, row.n_skipped, row.rate, row.low, row.high, row.flagged) == (
        0,
        PROBED,
        None,
        None,
        None,
        False,
    )


def test_a_probe_tries_defects_that_the_judge_refused_and_nothing_else() -> None:
    blind = [one for one in controls() if one.verdict.clean]
    assert {row.n for name, row in probed(RulesJudge(), blind).items() if name != "padding"} == {0}
    refused = [one for one in controls() if not one.verdict.clean]
    assert probed(RulesJudge(), refused)["padding"].n == 0


def test_a_clean_control_that_the_judge_refused_is_no_evidence_of_either_kind() -> None:
    wronged = [
        Graded(one.rollout, one.findings, one.outcome, Verdict(clean=False, reason=""), one.agent_words)
        for one in controls()
        if gold_of(one.rollout, one.outcome)
    ]
    assert {row.n for row in probed(RulesJudge(), wronged).values()} == {0}


def test_each_probe_is_asked_by_itself_at_most_so_many_times_and_one_a_task() -> None:
    judge = Swayed(lambda _: False)
    probed(judge)
    assert len(judge.asked) == 2 * (len(PROBES) + 1)  # each as it was, and edited
    assert max(judge.asked) == PROBED
    alike = [
        one for one in controls() if one.rollout.scenario.task_id == controls()[0].rollout.scenario.task_id
    ]
    assert max(row.n for row in probed(judge, alike * 3).values()) <= 1


def test_where_a_judge_says_otherwise_of_the_same_conversation_the_edit_is_not_blamed() -> None:
    fickle = Swayed(lambda _: True)
    assert {(row.n, row.flagged) for row in probed(fickle).values()} == {(0, False)}
    assert probed(fickle)["filler"].n_skipped == PROBED


def test_a_judge_without_controls_has_no_rates() -> None:
    assert {(row.n, row.rate, row.flagged) for row in probed(RulesJudge(), []).values()} == {(0, None, False)}


@pytest.mark.parametrize("edit", PROBES, ids=lambda edit: edit.__name__)
def test_an_edit_leaves_all_that_was_said_and_done_before_the_last_words(edit: Edit) -> None:
    for one in controls()[:60]:
        before = one.rollout.played.messages
        after = edit(one.rollout.played, BY_NAME)
        if after is None:
            continue
        last = max(
            i for i, m in enumerate(before) if m.role == "assistant" and m.content and not m.tool_calls
        )
        assert after[:last] == before[:last]
        assert after[len(after) - len(before) + last + 1 :] == before[last + 1 :]
        said = after[len(after) - len(before) + last].content or ""
        assert said.startswith(before[last].content or "")
        assert after != before


def test_an_empty_call_is_of_the_tool_called_last_and_is_turned_away() -> None:
    one = next(g for g in controls() if [c for m in g.rollout.messages for c in m.tool_calls])
    name = [c.name for m in one.rollout.messages for c in m.tool_calls][-1]
    messages = empty_call(one.rollout.played, BY_NAME)
    assert messages is not None
    case = case_of(_with(one, messages), BY_NAME, DOCUMENT)
    step = next(step for step in case.transcript.steps if step.call.id == "call_again")
    assert (step.call.name, step.call.arguments, step.status) == (name, {}, "invalid_argument")
    assert empty_call(one.rollout.played, {}) is None


def test_a_refusal_has_no_place_where_one_is_due() -> None:
    for one in controls():
        due = {"refuse", "fault"} & set(one.rollout.scenario.key.must)
        assert (refusal(one.rollout.played, BY_NAME) is None) == bool(due)


def test_an_agent_that_never_spoke_has_no_last_words_to_edit() -> None:
    mute = _with(controls()[0], (Message(role="user", content="hello"),))
    assert {edit(mute, BY_NAME) for edit in PROBES} == {None}


def test_the_echo_is_of_the_customers_own_words() -> None:
    one = controls()[0]
    messages = prompt_echo(one.rollout.played, BY_NAME)
    assert messages is not None
    assert any((m.content or "").endswith(one.rollout.scenario.script.opening) for m in messages[1:])


def test_filler_is_neutral_to_every_rule_and_to_the_outcome() -> None:
    for one in controls():
        messages = filler(one.rollout.played, BY_NAME)
        assert messages is not None
        case = case_of(_with(one, messages), BY_NAME, DOCUMENT)
        assert {f.rule for f in case.findings} == {f.rule for f in one.findings}
        assert case.outcome.ok is one.outcome.ok


@pytest.mark.parametrize(
    ("turned", "n", "flagged"), [(2, 20, True), (1, 20, False), (2, 19, False), (3, 24, True), (2, 24, False)]
)
def test_a_tenth_of_twenty_is_a_flag_and_less_or_fewer_is_none(turned: int, n: int, flagged: bool) -> None:
    row = rated("p", [i < turned for i in range(n)])
    assert row == ("p", n, 0, turned, turned / n, *wilson(turned, n), flagged)


def _with(one: Graded, messages: tuple[Message, ...]) -> Played:
    return replace(one.rollout.played, messages=messages)
