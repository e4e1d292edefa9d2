import hashlib
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.example import BASE, DOCUMENT, ROOT, TOOLS, played, rollouts, scenarios
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.policy import defect_of
from while_pipeline.agents.protocol import AgentError, Reply
from while_pipeline.constants import MAX_AGENT_TURNS
from while_pipeline.messages import messages_json
from while_pipeline.records import Message, ToolCall, Usage
from while_pipeline.simulate.customer import CustomerTurn
from while_pipeline.simulate.drive import HOPELESS, AgentDown, play
from while_pipeline.simulate.rollout import Episode, Rollout, Sample, system_message
from while_pipeline.simulate.scenario import Scenario
from while_pipeline.simulate.world import World
from while_pipeline.tools import Tool

SCENARIOS = scenarios(40)
PLAYED = list(played(40, samples=2))


def _play(agent: object, of: Sequence[Scenario] = SCENARIOS, samples: range = range(2)) -> list[Rollout]:
    return rollouts(agent, of, samples)  # type: ignore[arg-type]


class AsyncEmbedded:
    """The embedded agent behind a wait."""

    def __init__(self) -> None:
        self.inner = EmbeddedAgent(BASE)
        self.closed = 0

    async def respond(self, messages: Sequence[Message], tools: Sequence[Tool], seed: int) -> Reply:
        return self.inner.respond(messages, tools, seed)

    async def close(self) -> None:
        self.closed += 1


class Says:
    """An agent that always replies the same."""

    def __init__(self, content: str | None, *calls: ToolCall, logprob: float | None = None) -> None:
        message = Message(role="assistant", content=content, tool_calls=calls)
        usage = Usage(input_tokens=10, output_tokens=2)
        self.reply = Reply(message=message, logprob=logprob, finish_reason="stop", usage=usage)

    def respond(self, messages: Sequence[Message], tools: Sequence[Tool], seed: int) -> Reply:
        return self.reply


class FailsOn:
    """The embedded agent, failing on chosen calls."""

    def __init__(self, *calls: int) -> None:
        self.inner, self.calls, self.made = EmbeddedAgent(BASE), calls, 0

    def respond(self, messages: Sequence[Message], tools: Sequence[Tool], seed: int) -> Reply:
        self.made += 1
        if self.made in self.calls:
            raise AgentError(f"no answer to call {self.made}")
        return self.inner.respond(messages, tools, seed)


class AlwaysFails:
    def __init__(self) -> None:
        self.made = 0

    def respond(self, messages: Sequence[Message], tools: Sequence[Tool], seed: int) -> Reply:
        self.made += 1
        raise AgentError(f"401, attempt {self.made}")


class AsyncAlwaysFails(AsyncEmbedded):
    async def respond(self, messages: Sequence[Message], tools: Sequence[Tool], seed: int) -> Reply:
        raise AgentError("401")


# -- one episode, without any driver ----------------------------------------------------------------------


def _episode() -> Episode:
    return Episode(SCENARIOS[0], lambda start: World(TOOLS, start), system_message(DOCUMENT))


def test_an_episode_awaits_the_agent_first_with_the_policy_document_and_the_opening() -> None:
    episode = _episode()
    assert episode.awaits == "agent"
    assert episode.messages == [
        system_message(DOCUMENT),
        Message(role="user", content=SCENARIOS[0].script.opening),
    ]


def test_an_episode_awaits_the_customer_after_words_and_the_agent_after_tools() -> None:
    episode = _episode()
    call = ToolCall(id="a", name="get_bill", arguments={"bill_id": "BILL-0"})
    episode.take_reply(
        Reply(message=Message(role="assistant", tool_calls=(call, call.model_copy(update={"id": "b"}))))
    )
    assert episode.awaits == "agent"
    assert [(m.role, m.tool_call_id) for m in episode.messages[-2:]] == [("tool", "a"), ("tool", "b")]
    episode.take_reply(Says("Done.").reply)
    assert episode.awaits == "customer"
    episode.take_customer(CustomerTurn(None, "gone"))
    assert (episode.awaits, episode.ended) == ("nobody", "gone")


def test_a_fork_goes_its_own_way() -> None:
    episode = _episode()
    twin = episode.fork()
    twin.take_reply(Says("Done.").reply)
    twin.take_customer(CustomerTurn("And now?"))
    assert len(episode.messages) == 2
    assert (episode.awaits, episode.turn) == ("agent", 0)
    assert (twin.awaits, twin.turn, len(twin.messages)) == ("agent", 1, 4)


def test_the_turns_of_an_episode_have_different_seeds_and_the_samples_too() -> None:
    samples = [Sample(SCENARIOS[0], n, 1, "p") for n in range(8)]
    assert len({sample.turn_seed(turn) for sample in samples for turn in range(12)}) == 96


# -- what a rollout records -------------------------------------------------------------------------------


def test_a_rollout_records_what_was_said_and_what_became_of_the_world() -> None:
    for rollout in PLAYED:
        world = World(TOOLS, rollout.scenario.world)
        results: dict[str, str] = {}
        for message in rollout.messages:
            results |= {call.id: world.call(call.name, call.arguments) for call in message.tool_calls}
            if message.role == "tool":
                assert message.content == results[str(message.tool_call_id)]
        assert world.diff() == rollout.played.diff
        assert rollout.messages[0].content == rollout.scenario.script.opening
        assert rollout.logprob == pytest.approx(sum(d.logprob for d in rollout.decisions))
        assert set(rollout.seeded) == {name for d in rollout.decisions if (name := defect_of(d))}


def test_usage_is_summed_and_an_unknown_logprob_stays_unknown() -> None:
    call = ToolCall(id="a", name="get_bill", arguments={})
    (rollout,) = _play(Says(None, call), SCENARIOS[:1], range(1))
    assert (rollout.played.ended, rollout.logprob) == ("max_turns", None)
    assert rollout.usage == Usage(input_tokens=10 * MAX_AGENT_TURNS, output_tokens=2 * MAX_AGENT_TURNS)
    (rollout,) = _play(Says(None, call, logprob=-0.5), SCENARIOS[:1], range(1))
    assert rollout.logprob == -0.5 * MAX_AGENT_TURNS


def test_ids_tell_scenario_sample_and_policy_apart_and_rollouts_come_in_order() -> None:
    rollouts = _play(Says("That is done."))
    assert [(r.scenario.scenario_id, r.sample) for r in rollouts] == [
        (s.scenario_id, sample) for s in SCENARIOS for sample in range(2)
    ]
    other = play(SCENARIOS[:1], Says("x"), TOOLS, DOCUMENT, samples=range(1), seed=1, policy_version="q")
    assert len({r.rollout_id for r in [*rollouts, *other]}) == len(rollouts) + 1


def test_samples_of_a_scenario_differ() -> None:
    rollouts = _play(EmbeddedAgent(BASE), SCENARIOS[:10], range(4))
    assert len({messages_json(r.messages) for r in rollouts}) > 20


def test_playing_more_samples_later_gives_what_playing_them_at_once_gives() -> None:
    agent = EmbeddedAgent(BASE)
    at_once = _play(agent, SCENARIOS[:5], range(4))
    later = {r.rollout_id: r for part in (range(1), range(1, 4)) for r in _play(agent, SCENARIOS[:5], part)}
    assert {r.rollout_id: r for r in at_once} == later


def test_samples_that_went_the_same_way_share_the_conversation() -> None:
    rollouts = _play(EmbeddedAgent(BASE), SCENARIOS[:20], range(8))
    shared = {id(r.played) for r in rollouts}
    # Other choices can lead to the same words, and then no two samples share anything.
    assert len(shared) >= len({(r.scenario.scenario_id, messages_json(r.messages)) for r in rollouts})
    assert len(shared) < 0.9 * len(rollouts)


# -- the drivers ------------------------------------------------------------------------------------------


def test_a_group_played_together_is_its_samples_played_one_by_one() -> None:
    agent = EmbeddedAgent(BASE)
    together = _play(agent, SCENARIOS, range(6))
    assert together == [r for s in SCENARIOS for n in range(6) for r in _play(agent, [s], range(n, n + 1))]


def test_both_drivers_give_the_same_rollouts_and_an_agent_that_can_close_is_closed() -> None:
    agent = AsyncEmbedded()
    assert _play(agent) == PLAYED
    assert agent.closed == 1


def test_a_reader_that_stops_early_still_closes_the_agent() -> None:
    agent = AsyncEmbedded()
    played = play(SCENARIOS, agent, TOOLS, DOCUMENT, samples=range(1), seed=1, policy_version="p")
    next(played)
    played.close()  # type: ignore[attr-defined]
    assert agent.closed == 1


def test_an_answer_that_never_came_loses_its_rollout_with_the_reason_and_no_other() -> None:
    whole, broken = PLAYED, _play(FailsOn(1))
    assert (broken[0].played.ended, broken[0].lost) == ("lost", "AgentError: no answer to call 1")
    assert (broken[0].logprob, broken[0].decisions) == (None, ())
    assert broken[1:] == whole[1:]
    assert broken[0].rollout_id == whole[0].rollout_id


def test_a_lost_rollout_keeps_what_was_played_before() -> None:
    (whole,), (broken,) = (_play(a, SCENARIOS[:1], range(1)) for a in (EmbeddedAgent(BASE), FailsOn(2)))
    assert broken.lost == "AgentError: no answer to call 2"
    assert broken.messages == whole.messages[: len(broken.messages)]
    assert broken.logprob is None


@pytest.mark.parametrize("agent", [AlwaysFails(), AsyncAlwaysFails()])
def test_an_agent_that_always_fails_stops_the_run_with_its_first_error(agent: object) -> None:
    first = rf"the first {HOPELESS} rollouts were all lost: AgentError: 401(, attempt 1)?$"
    with pytest.raises(AgentDown, match=first):
        _play(agent)


def test_an_agent_that_answered_once_may_lose_any_number_after() -> None:
    rollouts = _play(FailsOn(*range(30, 5000)))
    assert sum(r.lost is not None for r in rollouts) > HOPELESS
    assert len(rollouts) == 2 * len(SCENARIOS)


def test_a_bug_in_the_agent_is_not_taken_for_a_lost_rollout() -> None:
    class Buggy:
        def respond(self, messages: Sequence[Message], tools: Sequence[Tool], seed: int) -> Reply:
            raise KeyError("bug")

    with pytest.raises(KeyError):
        _play(Buggy())


DIGEST = """
import hashlib
from tests.example import played
print(hashlib.sha256("".join(map(repr, played(40, samples=2))).encode()).hexdigest())
"""


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_another_process_with_another_hash_seed_plays_the_same_rollouts(hash_seed: str) -> None:
    told = subprocess.run(
        [sys.executable, "-c", DIGEST],
        cwd=ROOT,
        env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    here = "".join(map(repr, PLAYED))
    assert told == hashlib.sha256(here.encode()).hexdigest()
