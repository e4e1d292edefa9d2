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
    SEED,
    SHARED,
    TOOLS,
    WRITER,
    played,
    rollouts,
    scenarios,
    transcript,
)
from tests.policies import always
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.policy import BIAS, HEADS, Weights, defect_of, is_final
from while_pipeline.messages import messages_from_json, messages_json
from while_pipeline.policy_document import RuleKind, read_policy_document
from while_pipeline.records import Decision
from while_pipeline.simulate.axes import SEVERAL, grid_of, row_of
from while_pipeline.simulate.rollout import Rollout, system_message
from while_pipeline.simulate.scenario import ScenarioWriter
from while_pipeline.tools import ToolKind, load_tools, parse_tools
from while_pipeline.uniforms import derived_seed

PUBLIC = {
    "airline": ("tau-bench/airline.tools.openai.json", "tau-bench/airline.wiki.md"),
    "telecom": ("tau2-telecom/tools.openai.json", "tau2-telecom/main_policy.md"),
}
ALPHA = 1e-4
"""Per comparison; the seed is fixed, so this bounds how lucky the seed may be."""


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


def _play(weights: Weights, name: str, count: int) -> list[Rollout]:
    writer = _writer(name)
    return rollouts(EmbeddedAgent(weights), scenarios(count, seed=23, writer=writer), writer=writer)


@pytest.fixture(scope="module")
def base_rollouts() -> list[Rollout]:
    return list(played(300, samples=2, seed=23))


@cache
def _sound(name: str) -> list[Rollout]:
    return _play(always(), name, 250)


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
    ended_well = [r for r in rollouts if r.played.ended in ("satisfied", "transferred")]
    right = [r for r in ended_well if r.played.diff == r.scenario.key.effects]
    assert len(right) >= 0.98 * len(rollouts)
    told = [" ".join(m.content or "" for m in r.messages if m.role == "assistant") for r in rollouts]
    complete = [
        r for r, text in zip(rollouts, told, strict=True) if all(f in text for f in r.scenario.key.facts)
    ]
    assert len(complete) >= 0.98 * len(rollouts)


@pytest.mark.parametrize("name", ["example", "airline"])
def test_a_late_case_for_a_human_is_handed_over_after_the_request_and_an_early_one_at_once(name: str) -> None:
    writer = _writer(name)
    rules = {r.rule_id for r in writer.document.of_kind(RuleKind.HANDOFF) if r.spoken_of}
    drawn = scenarios(1500, seed=31, writer=writer)
    made = [s for s in drawn if s.situation.policy_rule in rules][:100]
    played = rollouts(EmbeddedAgent(always()), made, writer=writer)
    assert len(played) >= 50
    right = [r for r in played if r.played.diff == r.scenario.key.effects and r.played.ended == "transferred"]
    assert len(right) >= 0.98 * len(played)
    for rollout in right:
        called = [call.name for m in rollout.messages for call in m.tool_calls]
        assert set(rollout.scenario.goals) <= set(called[:-1])
        assert writer.by_name[called[-1]].kind is ToolKind.TRANSFER


@pytest.mark.parametrize("name", ["example", "telecom"])
def test_several_requests_are_done_with_the_corrected_value_once_the_first_was_wrong(name: str) -> None:
    writer = _writer(name)
    drawn = [scenario.situation for scenario in scenarios(120, 3, writer)]
    cells = [cell.model_copy(update={"tool": SEVERAL, "stance": "mistaken"}) for cell in drawn]
    grid = grid_of(writer.tools, writer.document, SEED)
    made = [writer.write(c, i) for i, c in enumerate(cells) if grid.allowed(row_of(c))]
    played = rollouts(EmbeddedAgent(always()), made, writer=writer)
    assert len(played) > 20
    assert sum(r.played.diff == r.scenario.key.effects for r in played) >= 0.98 * len(played)


def test_a_rollout_that_drew_no_defect_did_what_the_answer_key_asks(base_rollouts: list[Rollout]) -> None:
    clean = [r for r in base_rollouts if not r.seeded]
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
        ("fault", "hide", "hidden_fault"),
        ("fault", "claim", "false_success"),
        ("fault", "report", "gives_up"),
        ("final", "hide", "hidden_fault"),
        ("final", "claim", "false_success"),
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
    spoilt = rollouts(EmbeddedAgent(always(**{head: option})), [r.scenario for r in sound])
    named = [r.seeded for r in spoilt]
    assert set(named) <= {(), (defect,)}
    assert named.count((defect,)) >= 3
    for before, after in zip(sound, spoilt, strict=True):
        if after.seeded:
            assert after.messages != before.messages


def test_a_call_repeated_after_a_final_answer_is_named_by_that_answer(sound_rollouts: list[Rollout]) -> None:
    sound = [r for r in sound_rollouts if any(d.head == "final" for d in r.decisions)]
    spoilt = rollouts(EmbeddedAgent(always(final="repeat")), [r.scenario for r in sound])
    assert len(spoilt) >= 10
    for rollout in spoilt:
        faults = {step.status for step in transcript(rollout).faults if is_final(step.status)}
        named = {"proceeds_after_done" if status == "already_done" else "repeats_error" for status in faults}
        assert set(rollout.seeded) == named
    assert len({rollout.seeded for rollout in spoilt}) > 1


def test_the_seeded_defects_are_those_of_the_decisions(base_rollouts: list[Rollout]) -> None:
    for rollout in base_rollouts:
        drawn = {defect for decision in rollout.decisions if (defect := defect_of(decision))}
        assert rollout.seeded == tuple(sorted(drawn))
