"""What the embedded agent makes up where it should have asked: wrong, and yet of the right shape."""

import re
from collections import Counter

import pytest

from tests.example import ordinary, rollouts
from tests.toolsets import toolset
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.policy import BIAS, HEADS, Weights
from while_pipeline.simulate.scenario import ScenarioWriter

SURE = 40.0
INVENTS = Weights(
    weights={
        head: {o: {BIAS: SURE * (o == ("invent" if head == "argument" else options[0]))} for o in options}
        for head, options in HEADS.items()
    }
)


@pytest.mark.parametrize("name", ["example", "airline", "telecom"])
def test_a_value_made_up_is_one_the_tool_takes_and_what_its_name_says(name: str) -> None:
    tools, document = toolset(name)
    writer, by_name = ScenarioWriter(tools, document), {tool.name: tool for tool in tools}
    made = [
        writer.write(ordinary(tool.name, stance="ambiguous"), seed)
        for tool in writer.tools
        for seed in range(3)
        if tool.required
    ]
    played = rollouts(EmbeddedAgent(INVENTS), made, writer=writer)
    counts = Counter(seeded for rollout in played for seeded in rollout.seeded)
    assert counts["ungrounded_argument"] >= 3
    for rollout in played:
        for message in rollout.messages:
            for call in message.tool_calls:
                arguments = call.arguments or {}
                assert by_name[call.name].validator.is_valid(arguments), (call.name, arguments)
                assert [] not in arguments.values()
                for place in ("origin", "destination"):
                    assert re.fullmatch("[A-Z]{3}", arguments.get(place, "LIS"))
