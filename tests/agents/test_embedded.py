import json
import math
import subprocess
import sys
from collections import Counter
from functools import cache

import pytest
from scipy.stats import binomtest

from tests.example import (
    BASE,
    DOCUMENT,
    ROOT,
    SHARED,
    TOOLS,
    WRITER,
    gave_up_early,
    played,
    rollouts,
    scenarios,
)
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.policy import BIAS, HEADS, Weights, defect_of
from while_pipeline.messages import messages_from_json, messages_json
from while_pipeline.policy_document import read_policy_document
from while_pipeline.records import Decision, Message, ToolCall
from while_pipeline.simulate.rollout import Rollout, system_message
from while_pipeline.simulate.scenario import ScenarioWriter
from while_pipeline.tools import load_tools, parse_tools
from while_pipeline.uniforms import derived_seed

PUBLIC = {
    "airline": ("tau-bench/airline.tools.openai.json", "tau-bench/airline.wiki.md"),
    "telecom": ("tau2-telecom/tools.openai.json", "tau2-telecom/main_policy.md"),
}
ALPHA = 1e-4
"""Per comparison; the seed is fixed, so this bounds how lucky the seed may be."""
SURE = 40.0
"""exp(-40) is below 1e-17: such a weight decides."""


@cache
def _writer(name: str) -> ScenarioWriter:
    """Writes scenarios for the example or for one of the public agents."""
    if name == "example":
        return WRITER
    tools, policy = PUBLIC[name]
    if not (SHARED / tools).exists():
        pytest.skip(f"the public data set {tools} is not beside this checkout")
    document = read_policy_document((SHARED / policy).read_text(encoding="utf-8"))
    return ScenarioWriter(load_tools(tools, SHARED), document)


def _always(**choices: str) -> Weights:
    """A policy that makes the sound choice everywhere but on the heads named, where it makes that one."""
    weights = {
        head: {option: {BIAS: SURE if option == choices.get(head, options[0]) else 0.0} for option in options}
        for head, options in HEADS.items()
    }
    if "fault" not in choices:  # retry what may clear, three times at most, then say so
        weights["fault"] = {
            "retry": {"retryable": 2 * SURE, "spent": -4 * SURE},
            "report": {BIAS: SURE},
            "hide": {},
        }
    return Weights(weights=weights)


def _play(weights: Weights, name: str, count: int) -> list[Rollout]:
    writer = _writer(name)
    return rollouts(EmbeddedAgent(weights), scenarios(count, seed=23, writer=writer), writer=writer)


@pytest.fixture(scope="module")
def base_rollouts() -> list[Rollout]:
    return list(played(300, samples=2, seed=23))


@cache
def _sound(name: str) -> list[Rollout]:
    return _play(_always(), name, 250)


@pytest.fixture(scope="module")
def sound_rollouts() -> list[Rollout]:
    return _sound("example")[:120]


# -- what it is a function of -----------------------------------------------------------------------------


def test_replaying_the_visible_messages_gives_the_same_replies_decisions_and_log_probabilities(
    base_rollouts: list[Rollout],
) -> None:
    copies = parse_tools([tool.openai() for tool in TOOLS], "copy")
    for rollout in base_rollouts[:60]:
        decisions, logprob, turn = list[Decision](), 0.0, 0
        for i, message in enumerate(rollout.messages):
            if message.role == "assistant":
                visible = messages_from_json(messages_json([system_message(DOCUMENT), *rollout.messages[:i]]))
                reply = EmbeddedAgent(BASE).respond(visible, copies, derived_seed(rollout.seed, turn))
                assert reply.message == message
                decisions += reply.decisions
                logprob += math.fsum(
                    BASE.log_probabilities(d.head, d.features)[d.choice] for d in reply.decisions
                )
                turn += 1
        assert tuple(decisions) == rollout.decisions
        assert rollout.logprob == pytest.approx(logprob, abs=1e-12)


def test_many_seeds_at_once_get_what_each_gets_alone_and_equal_choices_are_one_reply(
    base_rollouts: list[Rollout],
) -> None:
    agent, seeds = EmbeddedAgent(BASE), range(40)
    for rollout in base_rollouts[:40]:
        for i, message in enumerate(rollout.messages):
            if message.role == "assistant":
                visible = [system_message(DOCUMENT), *rollout.messages[:i]]
                replies = agent.respond_each(visible, TOOLS, seeds)
                assert replies == [agent.respond(visible, TOOLS, seed) for seed in seeds]
                assert len({id(reply) for reply in replies}) == len({repr(r) for r in replies})


PROCESS = """
import sys
from tests.example import BASE, TOOLS
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.messages import messages_from_json
for line in sys.stdin:
    print(repr(EmbeddedAgent(BASE).respond(messages_from_json(line), TOOLS, 5)))
"""


def test_another_process_gives_the_same_replies(base_rollouts: list[Rollout]) -> None:
    seen = [
        [system_message(DOCUMENT), *rollout.messages[:i]]
        for rollout in base_rollouts[:20]
        for i, message in enumerate(rollout.messages)
        if message.role == "assistant"
    ]
    told = subprocess.run(
        [sys.executable, "-c", PROCESS],
        cwd=ROOT,
        env={"PYTHONHASHSEED": "3", "PYTHONPATH": str(ROOT)},
        input="\n".join(messages_json(messages) for messages in seen),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    agent = EmbeddedAgent(BASE)
    assert told == [repr(agent.respond(messages, TOOLS, 5)) for messages in seen]


# -- without defects --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["example", "airline", "telecom"])
def test_a_policy_without_defects_does_what_the_answer_key_asks(name: str) -> None:
    rollouts = _sound(name)
    assert {r.seeded for r in rollouts} == {()}
    assert {r.lost for r in rollouts} == {None}
    right = [
        r for r in rollouts if r.played.diff == r.scenario.key.effects and r.played.ended in ("satisfied", "transferred")
    ]
    assert len(right) >= 0.98 * len(rollouts)
    told = [" ".join(m.content or "" for m in r.messages if m.role == "assistant") for r in rollouts]
    complete = [
        r for r, text in zip(rollouts, told, strict=True) if all(f in text for f in r.scenario.key.facts)
    ]
    assert len(complete) >= 0.98 * len(rollouts)


def test_a_rollout_that_drew_no_defect_did_what_the_answer_key_asks(base_rollouts: list[Rollout]) -> None:
    clean = [r for r in base_rollouts if not r.seeded and not gave_up_early(r)]
    assert len(clean) > 100
    assert sum(r.played.diff == r.scenario.key.effects for r in clean) >= 0.98 * len(clean)


# -- planted defects --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "option"), [(head, option) for head, options in HEADS.items() for option in options]
)
def test_a_choice_is_made_at_its_planted_rate_per_opportunity(
    head: str, option: str, base_rollouts: list[Rollout]
) -> None:
    made = Counter(d.choice for r in base_rollouts for d in r.decisions if d.head == head)
    rate = math.exp(BASE.log_probabilities(head, (BIAS,))[option])
    assert made.total() >= 20
    assert binomtest(made[option], made.total(), rate).pvalue > ALPHA


@pytest.mark.parametrize(
    ("head", "option", "defect"),
    [
        ("tool", "neighbour", "wrong_tool"),
        ("argument", "invent", "ungrounded_argument"),
        ("verify", "skip", "skipped_verification"),
        ("confirm", "act", "unconfirmed_write"),
        ("fault", "hide", "ignored_fault"),
        ("fault", "report", "gives_up"),
        ("stale", "use", "used_stale_answer"),
        ("refuse", "comply", "broken_rule"),
        ("handoff", "continue", "missed_handoff"),
        ("style", "hedge", "hedging"),
        ("style", "flatter", "sycophancy"),
        ("style", "apologise", "apology"),
        ("style", "boilerplate", "boilerplate"),
        ("style", "leak", "leak"),
    ],
)
def test_one_planted_defect_is_the_only_one_named_and_it_shows_in_the_conversation(
    head: str, option: str, defect: str, sound_rollouts: list[Rollout]
) -> None:
    # Where a head decides nothing, its weights change nothing: the rollout is the sound one.
    sound = [r for r in sound_rollouts if any(d.head == head for d in r.decisions)]
    spoilt = rollouts(EmbeddedAgent(_always(**{head: option})), [r.scenario for r in sound])
    named = [r.seeded for r in spoilt]
    assert set(named) <= {(), (defect,)}
    assert named.count((defect,)) >= 3
    for before, after in zip(sound, spoilt, strict=True):
        if after.seeded:
            assert after.messages != before.messages


def test_the_seeded_defects_are_those_of_the_decisions(base_rollouts: list[Rollout]) -> None:
    for rollout in base_rollouts:
        drawn = {defect for decision in rollout.decisions if (defect := defect_of(decision))}
        assert rollout.seeded == tuple(sorted(drawn))


# -- one turn at a time -----------------------------------------------------------------------------------


def _talk(*turns: Message | str) -> list[Message]:
    """Texts alternate between customer and agent, the customer first."""
    messages, user = [system_message(DOCUMENT)], True
    for turn in turns:
        messages.append(
            turn if isinstance(turn, Message) else Message(role="user" if user else "assistant", content=turn)
        )
        user = not isinstance(turn, str) or not user
    return messages


def _called(name: str, result: object, **arguments: object) -> tuple[Message, Message]:
    call = ToolCall(id="c", name=name, arguments=arguments)
    text = result if isinstance(result, str) else json.dumps(result)
    return (
        Message(role="assistant", tool_calls=(call,)),
        Message(role="tool", content=text, tool_call_id="c"),
    )


def _reply(*turns: Message | str, **choices: str) -> Message:
    return EmbeddedAgent(_always(**choices)).respond(_talk(*turns), TOOLS, 1).message


ASK = "Please get bill. My bill id is BILL-1."
WHO = "To verify your identity first: what is your full name and your date of birth?"
ME = "I am Ada Fox, born 1980-02-03."
BILL = {"status": "ok", "bill": {"bill_id": "BILL-1", "status": "overdue"}}


def test_it_verifies_then_reads_then_tells() -> None:
    assert _reply(ASK).content == WHO
    assert [(c.name, c.arguments) for c in _reply(ASK, WHO, ME).tool_calls] == [
        ("get_bill", {"bill_id": "BILL-1"})
    ]
    told = _reply(ASK, WHO, ME, *_called("get_bill", BILL, bill_id="BILL-1")).content
    assert told == "The bill status is overdue."


def test_it_asks_for_what_is_missing_and_asks_before_it_writes() -> None:
    asked = _reply("Please change plan. My line id is LINE-1.", WHO, ME).content
    assert asked == "Could you tell me your plan?"
    question = _reply(
        "Please change plan. My line id is LINE-1.", WHO, ME, asked, "My plan is travel."
    ).content
    assert question == "I am about to change plan (line id is LINE-1, plan is travel). Shall I go ahead?"
    talk = ("Please change plan. My line id is LINE-1.", WHO, ME, asked, "My plan is travel.", question)
    (call,) = _reply(*talk, "Yes, go ahead.").tool_calls
    assert call.arguments == {"line_id": "LINE-1", "plan": "travel"}
    assert _reply(*talk, "No, stop.").tool_calls == ()


def test_a_date_of_birth_that_was_asked_for_is_not_the_date_of_a_visit() -> None:
    opening = "Please book appointment. My customer id is CUST-1, slot is morning."
    assert _reply(opening, WHO, ME).content == "Could you tell me your date?"


def test_the_result_of_the_first_request_is_told_before_the_question_on_the_second() -> None:
    opening = f"{ASK} Also cancel order, please. My order id is ORD-1."
    told = _reply(opening, WHO, ME, *_called("get_bill", BILL, bill_id="BILL-1")).content or ""
    assert (
        told
        == "The bill status is overdue. I am about to cancel order (order id is ORD-1). Shall I go ahead?"
    )
    talk: tuple[Message | str, ...] = (opening, WHO, ME, *_called("get_bill", BILL, bill_id="BILL-1"))
    (call,) = _reply(
        *talk, Message(role="assistant", content=told), Message(role="user", content="Yes.")
    ).tool_calls
    assert (call.name, call.arguments) == ("cancel_order", {"order_id": "ORD-1"})


def test_a_request_is_not_settled_by_a_similar_one_that_was_asked_for_too() -> None:
    opening = f"{ASK} Also pay bill, please. My method is card."
    told = _reply(opening, WHO, ME, *_called("get_bill", BILL, bill_id="BILL-1")).content or ""
    assert told.endswith("I am about to pay bill (bill id is BILL-1, method is card). Shall I go ahead?")


def test_it_retries_what_may_clear_and_reports_what_does_not() -> None:
    talk: tuple[Message | str, ...] = (ASK, WHO, ME)
    timeout = _called("get_bill", {"error": "timeout", "message": "Timed out."}, bill_id="BILL-1")
    assert _reply(*talk, *timeout).tool_calls
    assert _reply(*talk, *timeout, *timeout).tool_calls
    assert "has not been done" in (_reply(*talk, *timeout, *timeout, *timeout).content or "")
    lost = _called("get_bill", {"error": "not_found", "message": "No bill."}, bill_id="BILL-1")
    assert "could not find" in (_reply(*talk, *lost).content or "")
    assert (_reply(*talk, *lost, fault="hide").content or "").startswith("All done")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Hello.", "How can I help you?"),
        ("What can you help me with?", "I can help you to"),
        ("What is your rule about unused data expires end month?", "Our rule on this: Unused data expires"),
        ("Please delete the call records of an account.", "I cannot do that: our rules do not allow me to"),
    ],
)
def test_it_answers_what_needs_no_tool(said: str, told: str) -> None:
    assert (_reply(said).content or "").startswith(told)


def test_it_hands_over_when_a_rule_says_so() -> None:
    (call,) = _reply("To be clear, I report a stolen phone or SIM card.").tool_calls
    assert call.name == "transfer_to_human"


def test_a_tool_it_was_never_given_in_the_history_does_not_stop_it() -> None:
    talk: tuple[Message | str, ...] = (ASK, WHO, ME, *_called("look_at_the_stars", BILL))
    assert _reply(*talk).role == "assistant"
