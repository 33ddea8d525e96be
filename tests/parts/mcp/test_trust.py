"""The MCP server in a clone that somebody prepared: looking starts nothing, and starting is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.cli.place import Place
from tests.parts.mcp.caller import over_http
from tests.trust.hostile import CLONES, SECRET, trapped

LOOKS: dict[str, dict[str, Any]] = {
    "list_sources": {},
    "list_tasks": {"source": "plan.md"},
    "list_runs": {},
    "run_status": {},
    "wait_for_run": {"seconds": 0},
    "read_proof": {},
    "read_log": {},
    "query_dataset": {"sql": "SELECT count(*) AS n FROM orchestrator_runs"},
}


@pytest.mark.quick("settings")
@pytest.mark.parametrize("clone", [name for name in CLONES if name != "linked_settings"])
def test_tools_that_look_start_nothing_and_stay_inside(tmp_path: Path, clone: str) -> None:
    place = Place.make(tmp_path)
    with trapped(place) as trap:
        place.segue("run", "plan.md", "--agent", "scripted", "--task", "1")
        CLONES[clone](trap)

        async def talk() -> None:
            async with over_http(place) as caller:
                for tool, values in LOOKS.items():
                    _, answer = await caller.attempt(tool, values)
                    assert not trap.ran.exists(), f"{tool} ran {trap.ran.read_text()}"
                    assert not trap.was_called(), f"{tool} connected"
                    assert SECRET not in str(answer), tool

        asyncio.run(talk())


def test_what_acts_is_refused(tmp_path: Path) -> None:
    place = Place.make(tmp_path)
    with trapped(place) as trap:
        place.segue("run", "plan.md", "--agent", "scripted", "--pause-after-task", code=3)
        CLONES["settings"](trap)

        async def talk() -> None:
            async with over_http(place) as caller:
                run = (await caller.call("list_runs"))["runs"][0]["run"]
                for tool, values in (
                    ("start_run", {"source": "plan.md"}),
                    ("decide", {"run": run, "decision": "resume"}),
                    ("decide", {"run": run, "decision": "skip", "task": "2", "reason": "Old."}),
                ):
                    assert "segue trust --repo" in await caller.refused(tool, **values)

        asyncio.run(talk())
        assert not trap.ran.exists()
