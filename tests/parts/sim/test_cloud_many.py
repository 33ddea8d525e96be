"""The cloud simulator holds many agents at once."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import httpx2
import pytest

from tests import loopback
from tests.parts.sim.cloud_desk import DEADLINE, REPO, Desk, events, open_desk, wait_for

PUSHING = 100
WATCHED = 50


@pytest.mark.thorough
@pytest.mark.parametrize("many", [100, pytest.param(1000, marks=pytest.mark.thorough)])
def test_many_agents_at_once(tmp_path: Path, many: int) -> None:
    before = threading.active_count()
    with open_desk(tmp_path, on=[{"hold": True}], heartbeat=600) as desk:
        streams = asyncio.run(asyncio.wait_for(crowd(desk, many), 10 * DEADLINE))
        assert len(streams) == WATCHED
        assert {events(raw)[-1].name for raw in streams} == {"done"}
        assert threading.active_count() - before < 40, "agents are tasks, not threads"
        wait_for(lambda: desk.get("/_sim/state")["active"], lambda active: active == 0)
        branches = desk.git("for-each-ref", "--format=%(refname)", "refs/heads/cursor").splitlines()
        assert len(branches) == PUSHING, "as many as pushed, although they were asked the same"


async def crowd(desk: Desk, many: int) -> list[bytes]:
    """Launch all, watch some, let them go; gives what the watchers saw."""
    limits = httpx2.Limits(max_connections=WATCHED + 20)
    headers = dict(desk.http.headers)
    async with loopback.async_client(
        base_url=desk.url, headers=headers, limits=limits, timeout=10 * DEADLINE
    ) as client:

        async def launch(number: int) -> tuple[str, str]:
            repos = [{"url": REPO}] if number < PUSHING else []
            body = {"prompt": {"text": "The same words"}, "repos": repos}
            made = (await client.post("/v1/agents", json=body)).json()
            return made["agent"]["id"], made["run"]["id"]

        made = await asyncio.gather(*(launch(number) for number in range(many)))
        assert (await client.get("/_sim/state")).json() == {"agents": many, "active": many}
        watchers = [
            asyncio.create_task(client.get(f"/v1/agents/{agent}/runs/{run}/stream"))
            for agent, run in made[:WATCHED]
        ]
        await client.post("/_sim/release", json={})
        return [(await watcher).content for watcher in watchers]
