"""Attempts as trajectories: what an agent printed is always valid in the eyes of the format's own library."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from segue.domain.events import AgentText, AgentThought, AgentTool, Event, PromptSent, Recorded
from segue.store import connect
from segue.store.atif import Trajectory, export_atif, to_atif
from tests.later import Later
from tests.store.test_tables import fill

atif: Any = Later("atif")

FACTS = dict.fromkeys(("task", "phase", "build_phase", "attempt", "agent", "model", "result", "failure"))
FACTS |= dict.fromkeys(
    ("input_tokens", "output_tokens", "cost_usd", "proof_level", "base", "head", "diff", "cut")
)
IDS = st.sampled_from(["", "a", "b"])
TEXTS = st.text(max_size=8)
GIVEN = st.none() | TEXTS | st.dictionaries(TEXTS, st.integers() | TEXTS, max_size=2)
STATES = st.sampled_from(["", "started", "completed"])
EVENTS = st.one_of(
    st.builds(PromptSent, st.just("d"), st.just(1)),
    st.builds(AgentText, TEXTS),
    st.builds(AgentThought, TEXTS),
    st.builds(AgentTool, TEXTS, GIVEN, IDS, STATES, TEXTS, GIVEN | st.integers()),
)


@given(st.lists(EVENTS, max_size=12))
def test_whatever_an_agent_prints_is_a_valid_trajectory(seen: list[Event]) -> None:
    found = Trajectory("run", "task/1/execute/1", 1, {**FACTS})
    for number, event in enumerate(seen, 1):
        found.see(Recorded("run", number, number, "task/1/execute/1", event), "Do it.")
    document = json.loads(json.dumps(to_atif(found)))
    read = atif.Trajectory.model_validate(document)
    assert [step.step_id for step in read.steps] == list(range(1, len(read.steps) + 1))
    for step in document["steps"]:
        ids = [call["tool_call_id"] for call in step.get("tool_calls", ())]
        assert len(ids) == len(set(ids))


def test_an_export_has_the_prompt_the_thoughts_the_calls_and_the_patch(database: str) -> None:
    file = io.BytesIO()
    with connect(database) as store:
        asyncio.run(fill(store))
        count = export_atif(store, file)
    documents = [json.loads(line) for line in file.getvalue().splitlines()]
    assert len(documents) == count
    first = documents[0]
    assert [step["source"] for step in first["steps"]] == ["user", "agent"]
    assert first["steps"][0]["message"] == "Do it"
    assert first["steps"][1]["reasoning_content"] == "Hm."
    assert first["final_metrics"] == {
        "total_prompt_tokens": 100,
        "total_completion_tokens": 7,
        "total_steps": 2,
    }
    assert first["extra"]["segue"]["patch"]["diff"] == "diff --git a/x b/x"
    atif.Trajectory.model_validate(first)
