"""Kill Segue, its supervisor, or both, at any moment: no agent runs twice, none is lost without a word."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
from pathlib import Path

import pytest

from segue.system.process.processes import Chunk, Processes, end_orphans
from tests.system.process_driver import (
    alive,
    follow,
    kill_driver,
    left_behind,
    run_once,
    shell,
    start_driver,
    supervisor_pids,
    wait_for,
)


class Stage:
    """A run folder, an agent that counts its starts and waits for a gate, and what is known about both."""

    def __init__(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "run"
        self.work = tmp_path
        self.starts = tmp_path / "starts"
        self.gate = tmp_path / "gate"
        self.script = (
            f"echo x >> {self.starts}; cat; echo one; "
            f"while [ ! -e {self.gate} ]; do sleep 0.02; done; echo two; exit 7"
        )

    def started(self) -> int:
        return len(self.starts.read_text().split()) if self.starts.exists() else 0

    def begin(self) -> None:
        """Have a Segue start the agent, and kill that Segue."""
        driver = start_driver(self.folder, self.script)
        wait_for(self.printed_one, "the agent's first output")
        kill_driver(driver)

    def printed_one(self) -> bool:
        out = self.folder / "jobs" / "t1" / "out"
        return out.exists() and b"one" in out.read_bytes()

    def nothing_left(self) -> bool:
        return left_behind(self.folder) == [] and supervisor_pids(self.folder) == []


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_an_agent_at_work_is_adopted_with_all_its_output(stage: Stage) -> None:
    stage.begin()

    async def main() -> None:
        async with Processes(stage.folder) as processes:
            adopted = asyncio.create_task(follow(processes, "t1", shell(stage.script, stage.work)))
            await asyncio.sleep(0.2)
            assert not adopted.done()
            stage.gate.touch()
            ran = await adopted
            assert ran.out == b"promptone\ntwo\n"
            assert (ran.exit.code, ran.exit.reason, ran.exit.adopted) == (7, None, True)

    asyncio.run(main())
    assert stage.started() == 1
    assert stage.nothing_left()


def test_an_agent_that_ended_meanwhile_is_replayed_as_often_as_asked(stage: Stage) -> None:
    stage.begin()
    stage.gate.touch()
    wait_for(lambda: supervisor_pids(stage.folder) == [], "the supervisor to end by itself")
    for _ in range(2):
        ran = run_once(stage.folder, shell(stage.script, stage.work))
        assert (ran.out, ran.exit.code, ran.exit.adopted) == (b"promptone\ntwo\n", 7, True)
    assert stage.started() == 1


def test_the_deadline_holds_without_segue(stage: Stage) -> None:
    async def begin() -> None:
        processes = Processes(stage.folder)
        run = processes.run("t1", shell(stage.script, stage.work, wall=0.4))
        await anext(run)
        os._exit(0)  # no goodbye: the supervisor only sees its pipe close

    child = os.fork()
    if child == 0:
        asyncio.run(begin())
    os.waitpid(child, 0)
    wait_for(stage.nothing_left, "the supervisor to end the agent and itself")
    ran = run_once(stage.folder, shell(stage.script, stage.work))
    assert (ran.exit.reason, ran.exit.adopted) == ("wall", True)
    assert stage.started() == 1


def test_closing_an_adopted_agent_ends_it(stage: Stage) -> None:
    stage.begin()

    async def main() -> None:
        async with Processes(stage.folder) as processes:
            run = processes.run("t1", shell(stage.script, stage.work))
            async with contextlib.aclosing(run):  # type: ignore[type-var]
                assert await anext(run) == Chunk("out", b"promptone\n")
            assert stage.nothing_left()
            assert (await follow(processes, "t1", shell(stage.script, stage.work))).exit.reason == "ended"

    asyncio.run(main())
    assert stage.started() == 1


def test_a_context_that_adopts_nothing_leaves_nothing(stage: Stage) -> None:
    stage.begin()

    async def main() -> None:
        async with Processes(stage.folder):
            pass

    asyncio.run(main())
    assert stage.nothing_left()


def test_orphans_are_ended_once(stage: Stage) -> None:
    stage.begin()
    assert asyncio.run(end_orphans(stage.folder)) == 1
    assert stage.nothing_left()
    assert asyncio.run(end_orphans(stage.folder)) == 0
    assert run_once(stage.folder, shell(stage.script, stage.work)).exit.reason == "ended"


def test_orphans_of_a_killed_supervisor_are_ended(stage: Stage) -> None:
    stage.begin()
    for pid in supervisor_pids(stage.folder):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: supervisor_pids(stage.folder) == [])
    assert left_behind(stage.folder) != []
    assert asyncio.run(end_orphans(stage.folder)) == 1
    assert stage.nothing_left()
    assert asyncio.run(end_orphans(stage.folder)) == 0


def test_when_both_were_killed_the_agent_is_ended_and_lost(stage: Stage) -> None:
    stage.begin()
    (pid,) = supervisor_pids(stage.folder)
    os.kill(pid, signal.SIGKILL)
    for _ in range(2):
        ran = run_once(stage.folder, shell(stage.script, stage.work))
        assert (ran.exit.reason, ran.exit.adopted, ran.out) == ("lost", True, b"promptone\n")
    assert stage.started() == 1
    assert stage.nothing_left()


def test_an_agent_that_was_killed_with_its_segue_is_lost_and_did_not_fail(stage: Stage) -> None:
    stage.begin()
    job = json.loads((stage.folder / "jobs" / "t1" / "job.json").read_text())
    os.kill(int(job["child"].split("/")[2]), signal.SIGKILL)
    ran = run_once(stage.folder, shell(stage.script, stage.work))
    assert (ran.exit.reason, ran.exit.signal, ran.exit.adopted) == ("lost", signal.SIGKILL, True)
    assert "killed together with Segue" in ran.exit.message


def test_a_supervisor_killed_under_a_living_segue_is_replaced(stage: Stage) -> None:
    async def main() -> None:
        async with Processes(stage.folder) as processes:
            script = f"setsid sleep 1000 & {stage.script}"
            run = processes.run("t1", shell(script, stage.work))
            assert isinstance(await anext(run), Chunk)
            (pid,) = supervisor_pids(stage.folder)
            os.kill(pid, signal.SIGKILL)
            rest = [item async for item in run]
            assert getattr(rest[-1], "reason", None) == "lost"
            assert left_behind(stage.folder) == []
            assert (await follow(processes, "t2", shell("echo new", stage.work))).out == b"new\n"

    asyncio.run(main())
    assert stage.started() == 1
    assert stage.nothing_left()


def test_a_job_whose_supervisor_died_before_the_spawn_is_never_started_again(stage: Stage) -> None:
    job = stage.folder / "jobs" / "t1"
    job.mkdir(parents=True)
    (job / "claim.json").touch()
    assert run_once(stage.folder, shell(stage.script, stage.work)).exit.reason == "lost"
    assert stage.started() == 0


def test_the_lock_is_held_as_long_as_the_agent_works_and_not_by_the_agent(
    stage: Stage, tmp_path: Path
) -> None:
    lock = tmp_path / "lock"
    lock.touch()
    driver = start_driver(stage.folder, f"ls -l /proc/self/fd; {stage.script}", lock=str(lock))
    wait_for(stage.printed_one)
    kill_driver(driver)
    with lock.open() as file:
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        stage.gate.touch()
        ran = run_once(stage.folder, shell("", tmp_path))
        assert str(lock).encode() not in ran.out
        assert b"prompt" in ran.out
        wait_for(lambda: supervisor_pids(stage.folder) == [])
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Daemon:
    """A process that has left its session, its parent and its environment."""

    def __init__(self, work: Path) -> None:
        self.note = work / "daemon"
        inner = f"echo $$ > {self.note}.new; mv {self.note}.new {self.note}; exec sleep 1000"
        self.start = f"(setsid env -i /bin/sh -c '{inner}' </dev/null >/dev/null 2>&1 &); "
        self.start += f"while [ ! -e {self.note} ]; do sleep 0.01; done; "

    def is_alive(self) -> bool:
        return alive(int(self.note.read_text()))


def kill_supervisor(folder: Path) -> None:
    (pid,) = supervisor_pids(folder)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: supervisor_pids(folder) == [])


def cgroups_left(folder: Path) -> list[str]:
    claims = [json.loads(claim.read_text()) for claim in folder.glob("jobs/*/claim.json")]
    assert claims
    return [claim["cgroup"] for claim in claims if claim["cgroup"] and Path(claim["cgroup"]).exists()]


@pytest.mark.parametrize("after", ["stop", "resume"])
def test_no_daemon_survives_even_if_segue_and_its_supervisor_were_killed(stage: Stage, after: str) -> None:
    daemon = Daemon(stage.work)
    stage.script = daemon.start + stage.script
    stage.begin()
    kill_supervisor(stage.folder)
    assert daemon.is_alive()
    if after == "stop":
        assert asyncio.run(end_orphans(stage.folder)) == 1
    else:
        assert run_once(stage.folder, shell(stage.script, stage.work)).exit.reason == "lost"
    assert not daemon.is_alive()
    assert cgroups_left(stage.folder) == []


def test_a_daemon_does_not_outlive_its_agent_while_others_work(stage: Stage) -> None:
    daemon = Daemon(stage.work)

    async def main() -> None:
        async with Processes(stage.folder) as processes:
            other = asyncio.create_task(follow(processes, "t1", shell(stage.script, stage.work)))
            while not stage.started():
                await asyncio.sleep(0.01)
            ran = await follow(processes, "t2", shell(daemon.start + "exit 3", stage.work))
            assert (ran.exit.code, ran.exit.reason) == (3, None)
            assert not daemon.is_alive()
            assert not other.done()
            stage.gate.touch()
            assert (await other).exit.code == 7

    asyncio.run(main())
    assert cgroups_left(stage.folder) == []


def test_a_daemon_is_ended_when_the_supervisor_is_killed_in_a_run(stage: Stage) -> None:
    daemon = Daemon(stage.work)

    async def main() -> None:
        async with Processes(stage.folder) as processes:
            run = processes.run("t1", shell(daemon.start + stage.script, stage.work))
            assert isinstance(await anext(run), Chunk)
            kill_supervisor(stage.folder)
            assert getattr([item async for item in run][-1], "reason", None) == "lost"
            assert not daemon.is_alive()

    asyncio.run(main())
