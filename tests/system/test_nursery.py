"""Supervisors that are forked and not programs: what is killed is found all the same."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from segue.system.process.processes import Processes
from segue.system.process.watch import Link
from tests.system.process_driver import FORKED, follow, shell, supervisor_pids
from tests.system.test_process_adoption import (  # noqa: F401 - the same must be true here
    Stage,
    stage,
    test_a_supervisor_killed_under_a_living_segue_is_replaced,
    test_a_supervisor_killed_while_it_starts_an_agent_leaves_nothing,
    test_the_lock_is_held_as_long_as_the_agent_works_and_not_by_the_agent,
)

if sys.platform != "linux":
    pytest.skip("supervisors cannot be forked here", allow_module_level=True)
from segue.system.supervisor.nursery import open_nursery


@pytest.fixture(autouse=True)
def forked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fork supervisors, here and in what tests start."""
    monkeypatch.setenv(FORKED, "1")
    Link.nursery = open_nursery()
    if Link.nursery is None:
        pytest.skip("supervisors cannot be forked here")
    try:
        yield
    finally:
        Link.nursery.close()
        Link.nursery = None


def test_a_forked_supervisor_has_nothing_of_its_original(stage: Stage) -> None:  # noqa: F811
    """Whoever waits for the end of a pipe that we have would wait for it as well."""
    assert Link.nursery is not None
    Link.nursery.close()
    ours, theirs = os.pipe()
    Link.nursery = open_nursery()

    async def main() -> None:
        async with Processes(stage.folder) as processes:
            agent = asyncio.create_task(follow(processes, "t1", shell(stage.script, stage.work)))
            while not stage.started():
                await asyncio.sleep(0.01)
            (pid,) = supervisor_pids(stage.folder)
            pipes = [entry.readlink() for entry in Path(f"/proc/{pid}/fd").iterdir()]
            assert Path(f"/proc/self/fd/{ours}").readlink() not in pipes
            assert os.getsid(pid) == pid, "Ctrl-C in our terminal is not for it"
            stage.gate.touch()
            assert (await agent).exit.code == 7

    asyncio.run(main())
    for end in (ours, theirs):
        os.close(end)
    claim = json.loads((stage.folder / "jobs" / "t1" / "claim.json").read_text())
    assert claim["marker"] == ""
    assert claim["brand"], "so its half-started agents are found by this"


def test_without_its_nursery_supervisors_are_programs_again(stage: Stage) -> None:  # noqa: F811
    assert Link.nursery is not None
    os.kill(Link.nursery.pid, signal.SIGKILL)
    os.waitid(os.P_PID, Link.nursery.pid, os.WEXITED | os.WNOWAIT)

    async def main() -> None:
        async with Processes(stage.folder) as processes:
            assert (await follow(processes, "t1", shell("echo new", stage.work))).out == b"new\n"

    asyncio.run(main())
