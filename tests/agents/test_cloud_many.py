"""One process watches many runs at once, in bounded memory and with few connections."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents.cloud_place import open_place
from tests.parts.sim.cloud_desk import DEADLINE

MEMORY = 120 * 1024**2
"""What it takes without any run, and a little more."""
_WATCHER = """
import asyncio, json, sys
from pathlib import Path
from tests import loopback
from tests.agents.cloud_place import CloudPlace, Ended
from tests.parts.sim.cloud_desk import Desk

async def main(url, folder, many):
    desk = Desk(url, loopback.client(base_url=url, timeout=300), Path(folder))
    place = CloudPlace(desk, Path(folder))
    most = 0

    async def one(agent):
        return Ended([event async for event in agent.run(place.job(wall=500, idle=500))])

    async def count():
        nonlocal most
        while True:
            most = max(most, sum(1 for link in Path("/proc/self/fd").iterdir() if is_socket(link)))
            await asyncio.sleep(0.05)

    def is_socket(link):
        try:
            return str(link.readlink()).startswith("socket:")
        except OSError:
            return False

    async with place.agent(poll_interval=5, max_streams=10, max_connections=10) as agent:
        counting = asyncio.create_task(count())
        runs = [asyncio.create_task(one(agent)) for _ in range(many)]
        while (state := await asyncio.to_thread(desk.get, "/_sim/state"))["active"] < many:
            assert state["agents"] == state["active"], "no run ends before all are watched"
            await asyncio.sleep(0.2)
        await asyncio.to_thread(desk.post, "/_sim/release", {})
        ended = await asyncio.gather(*runs)
        counting.cancel()
    # Not ru_maxrss: after a vfork that also counts what the parent used.
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
    bad = sum(1 for end in ended if end.outcome.failure)
    sessions = len({end.outcome.session for end in ended})
    print(json.dumps({"bad": bad, "sessions": sessions, "bytes": peak, "sockets": most}))

url, folder, many = sys.argv[1:]
asyncio.run(main(url, folder, int(many)))
"""


@pytest.mark.thorough
@pytest.mark.parametrize("many", [20, pytest.param(1000, marks=pytest.mark.thorough)])
def test_many_runs_at_once(cloud_key: None, tmp_path: Path, many: int) -> None:
    with open_place(tmp_path, on=[{"hold": True, "faults": ["no_branch"]}]) as cloud:
        done = subprocess.run(
            [sys.executable, "-c", _WATCHER, cloud.desk.url, str(tmp_path), str(many)],
            capture_output=True,
            text=True,
            timeout=10 * DEADLINE,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        seen = json.loads(done.stdout)
        assert (seen["bad"], seen["sessions"]) == (0, many)
        assert seen["bytes"] < MEMORY + many * 180 * 1024
        assert seen["sockets"] < 10 + 10 + 15, "streams, requests, and what Python itself has"
        assert len(cloud.asked("POST /v1/agents")) == many
