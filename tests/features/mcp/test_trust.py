"""The MCP server in a clone that somebody prepared: looking starts nothing, and starting is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.cli.place import Place
from tests.features.mcp.caller import over_stdio
from tests.trust.hostile import CLONES, trapped


def test_what_acts_is_refused(tmp_path: Path) -> None:
    place = Place.make(tmp_path)
    with trapped(place) as trap:
        place.segue("run", "plan.md", "--agent", "scripted", "--pause-after-task", code=3)
        CLONES["settings"](trap)

        async def talk() -> None:
            async with over_stdio(place) as caller:
                run = (await caller.call("list_runs"))["runs"][0]["run"]
                for tool, values in (
                    ("start_run", {"source": "plan.md"}),
                    ("decide", {"run": run, "decision": "resume"}),
                    ("decide", {"run": run, "decision": "skip", "task": "2", "reason": "Old."}),
                ):
                    assert "segue trust --repo" in await caller.refused(tool, **values)

        asyncio.run(talk())
        assert not trap.ran.exists()
