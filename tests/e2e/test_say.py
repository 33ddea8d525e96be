"""What a person says reaches Claude Code in its session, and Codex at its next turn: once, the real ones."""

from __future__ import annotations

import json

import pytest

from tests.cli.place import DEADLINE, until
from tests.e2e.conftest import Real
from tests.e2e.test_plan import small_plan

WORDS = "Write it in lower case."


@pytest.mark.parametrize("real", ["claude", "codex"], indirect=True)
@pytest.mark.parametrize("killed", [False, True], ids=["alive", "killed"])
def test_words_reach_the_agent_once(real: Real, killed: bool) -> None:
    place, gate = real.place, real.place.repo / "gate"
    waits = (
        f"touch {place.repo}/begun; until test -e {gate}; do sleep 0.1; done; rm {gate} {place.repo}/begun"
    )
    real.model.plays(
        {"times": 1, "tool_calls": [real.shell(waits)]},
        real.write("", "one.txt", "one"),
        {"reply": "Did one."},
    )
    process = place.start("run", small_plan(real, "Write one."))
    until((place.repo / "begun").exists, "the agent works")
    way = "session" if real.name == "claude" else "turn"
    assert place.json("say", "1", WORDS)["how"] == way
    if killed:
        process.kill()
        process.wait(DEADLINE)
        process = place.start("resume")
    gate.touch()
    assert process.wait(DEADLINE) == 0
    assert [event["how"] for event in real.events("words.delivered")] == [way]
    assert len(real.events("agent.ended")) == (1 if way == "session" else 2)
    last = json.dumps(real.model.asked()[-1])
    assert last.count(WORDS) == 1
    assert "Write one." in last, "it is the same conversation"
