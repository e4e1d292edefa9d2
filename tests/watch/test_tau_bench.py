import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.example import SHARED
from while_pipeline.messages import messages_from_json, messages_json, steps
from while_pipeline.records import Conversation
from while_pipeline.watch.read import read_file

FILE = SHARED / "tau-bench" / "gpt-4o-airline.json"


@pytest.fixture(scope="module")
def conversations() -> tuple[Conversation, ...]:
    if not FILE.exists():
        pytest.skip("the public tau-bench trajectories are not beside this checkout")
    traffic = read_file(FILE, "2025-01-01")
    assert not traffic.rejects
    return traffic.conversations


def test_every_trajectory_is_a_conversation_with_its_task_trial_and_reward(
    conversations: tuple[Conversation, ...],
) -> None:
    assert len({c.conversation_id for c in conversations}) == 200
    assert {c.trial for c in conversations} == {0, 1, 2, 3}
    passes: dict[str | None, float] = defaultdict(float)
    for c in conversations:
        passes[c.task] += c.reward or 0.0
    assert Counter(passes.values()) == {0: 14, 1: 12, 2: 10, 3: 4, 4: 10}
    assert {(c.day, c.started_at_ns, c.incomplete, c.dialect) for c in conversations} == {
        ("2025-01-01", None, None, "tau_bench")
    }


def test_every_call_is_paired_with_its_own_result_although_ids_are_reused(
    conversations: tuple[Conversation, ...],
) -> None:
    raw = json.loads(FILE.read_text(encoding="utf-8"))
    reused = 0
    for record, conversation in zip(raw, conversations, strict=True):
        # Each call of this agent is alone in its turn, so its result is simply the next message.
        expected = [
            (message["tool_calls"][0]["id"], message["tool_calls"][0]["function"]["name"], after["content"])
            for message, after in zip(record["traj"], record["traj"][1:], strict=False)
            if message.get("tool_calls")
        ]
        found = [(s.call.id, s.call.name, s.result) for s in steps(conversation.messages)]
        assert found == expected
        reused += sum(count - 1 for count in Counter(call_id for call_id, _, _ in found).values())
    assert reused == 73


def test_errors_and_turns_with_text_and_a_call_survive(conversations: tuple[Conversation, ...]) -> None:
    found = [step for c in conversations for step in steps(c.messages)]
    assert len(found) == 1164
    assert Counter(step.status for step in found) == {"ok": 1164 - 73, "error": 73}
    both = [m for c in conversations for m in c.messages if m.content and m.tool_calls]
    assert len(both) == 90
    assert sum(c.messages[-1].role == "tool" for c in conversations) == 51


def test_stored_messages_come_back_equal(conversations: tuple[Conversation, ...]) -> None:
    for c in conversations[:20]:
        assert tuple(messages_from_json(messages_json(c.messages))) == c.messages


def test_a_trajectory_without_a_folder_day_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    trajectory = {
        "task_id": 3,
        "reward": 1.0,
        "info": {},
        "trial": 0,
        "traj": [{"role": "user", "content": "Hi"}],
    }
    path.write_text(json.dumps([trajectory]))
    assert read_file(path, "2025-01-01").conversations[0].task == "3"
    (reject,) = read_file(path, None).rejects
    assert "no day" in reject.reason
