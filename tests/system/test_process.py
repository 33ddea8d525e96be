"""An agent gets its prompt, its output and exit code come back, limits hold, and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from segue.domain.job import Limits
from segue.system.process.processes import Command, Exit, Processes
from tests.patience import unhurried
from tests.system.process_driver import (
    GRACE,
    alive,
    finish_driver,
    follow,
    left_behind,
    program,
    run_once,
    shell,
    start_driver,
    supervisor_pids,
    wait_for,
)


def test_prompt_goes_in_and_both_streams_and_the_code_come_out(tmp_path: Path) -> None:
    ran = run_once(tmp_path / "run", shell("cat; echo oops >&2; exit 3", tmp_path, b"do it"))
    assert (ran.out, ran.err) == (b"do it", b"oops\n")
    assert (ran.exit.code, ran.exit.signal, ran.exit.reason, ran.exit.adopted) == (3, None, None, False)


def test_arguments_never_meet_a_shell(tmp_path: Path) -> None:
    ran = run_once(tmp_path / "run", program(("printf", "%s|", "$HOME; `id`", "a b", "é\n"), tmp_path))
    assert ran.out == "$HOME; `id`|a b|é\n|".encode()


def test_a_signal_that_ends_the_agent_is_told(tmp_path: Path) -> None:
    ran = run_once(tmp_path / "run", shell("kill -SEGV $$", tmp_path))
    assert (ran.exit.code, ran.exit.signal, ran.exit.reason) == (None, 11, None)


def test_the_agent_gets_exactly_the_environment_it_is_given(tmp_path: Path) -> None:
    command = Command(("/usr/bin/env",), tmp_path, {"ONLY": "this"}, b"", Limits())
    names = {line.partition(b"=")[0] for line in run_once(tmp_path / "run", command).out.splitlines()}
    assert names == {b"ONLY", b"SEGUE_JOB", b"SEGUE_JOB_FOLDER"}


def test_no_signal_of_the_ladder_is_ignored_by_inheritance(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # what a shell does to a Segue started with `&`
    try:
        ran = run_once(tmp_path / "run", shell("grep SigIgn /proc/self/status", tmp_path))
    finally:
        signal.signal(signal.SIGINT, before)
    ignored = int(ran.out.split()[1], 16)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        assert not ignored >> (number - 1) & 1


_GONE = "bwrap: Can't bind mount /oldroot/tmp/x on /newroot/tmp/x: No such file or directory"
_GIVES_UP = f'printf "bwrap: " >&2; sleep 0.05; echo "{_GONE.removeprefix("bwrap: ")}" >&2;'


def test_a_sandbox_that_gave_up_before_the_agent_began_is_started_again(tmp_path: Path) -> None:
    """Somebody else's folder of /tmp vanished between bubblewrap's looking at it and its mounting it."""
    gives_up = f"echo x >> starts; test $(wc -l < starts) -gt 3 || {{ {_GIVES_UP} exit 1; }}; cat"
    ran = run_once(tmp_path / "run", replace(shell(gives_up, tmp_path, b"do it"), layers=1))
    assert (ran.out, ran.err, ran.exit.code) == (b"do it", b"", 0)
    assert (tmp_path / "starts").read_text().count("x") == 4


@pytest.mark.parametrize(
    ("layers", "before", "starts"),
    [(1, "", 5), (0, "", 1), (1, "echo working; sleep 0.1;", 1), (1, "echo warning >&2;", 1)],
    ids=["never", "not in a sandbox", "worked", "said something else"],
)
def test_who_has_begun_is_never_started_again(tmp_path: Path, layers: int, before: str, starts: int) -> None:
    says = f'echo x >> starts; {before} echo "{_GONE}" >&2; exit 1'
    ran = run_once(tmp_path / "run", replace(shell(says, tmp_path), layers=layers))
    assert (ran.err.decode().splitlines()[-1], ran.exit.code) == (_GONE, 1)
    assert (tmp_path / "starts").read_text().count("x") == starts


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("no-such-agent",), "No such file"),
        (("/etc/passwd",), "Permission denied"),
        (("/bin/echo", "x" * 3_000_000), "Argument list too long"),
        (("/bin/echo", "a\0b"), "null byte"),
    ],
)
def test_an_agent_that_cannot_be_started_says_why(tmp_path: Path, argv: tuple[str, ...], says: str) -> None:
    for adopted in (False, True):
        ran = run_once(tmp_path / "run", program(argv, tmp_path))
        assert (ran.exit.reason, ran.exit.code, ran.exit.adopted) == ("not_started", None, adopted)
        assert says in ran.exit.message


def test_a_token_cannot_leave_the_folder(tmp_path: Path) -> None:
    for token in ("../x", "", ".", "a/b", "a\n"):
        with pytest.raises(ValueError, match="not a token"):
            run_once(tmp_path / "run", shell("true", tmp_path), token)


def test_the_wall_limit_ends_an_agent_that_ignores_every_request(tmp_path: Path) -> None:
    script = "trap 'echo int' INT; trap 'echo term' TERM; echo up; while :; do sleep 0.02; done"

    def check(factor: float) -> None:
        folder = tmp_path / f"run-{factor}"
        ran = run_once(folder, shell(script, tmp_path, wall=0.5 * factor, grace=GRACE * factor))
        assert left_behind(folder) == []
        assert (ran.exit.reason, ran.exit.signal) == ("wall", 9)
        assert ran.out == b"up\nint\nterm\n"

    unhurried(check)


def test_the_idle_limit_counts_from_the_last_output_of_either_stream(tmp_path: Path) -> None:
    def check(factor: float) -> None:
        script = f"for i in 1 2 3 4 5 6 7 8; do echo $i >&2; sleep {0.2 * factor}; done; sleep 100"
        ran = run_once(tmp_path / f"run-{factor}", shell(script, tmp_path, idle=1.0 * factor))
        assert ran.exit.reason == "idle"
        assert ran.err.split()[-1] == b"8"
        assert ran.exit.duration > 1.5 * factor

    unhurried(check)


def test_the_output_limit_keeps_what_fits_and_ends_the_agent(tmp_path: Path) -> None:
    ran = run_once(tmp_path / "run", shell("exec yes", tmp_path, output_bytes=100_001))
    assert ran.exit.reason == "output"
    assert len(ran.out) == 100_001


def test_a_full_disk_ends_the_agent_and_says_so(tmp_path: Path) -> None:
    driver = start_driver(tmp_path / "run", "exec yes", file_size=1_000_000)
    seen = finish_driver(driver)
    assert seen["exit"]["reason"] == "disk"
    assert "too large" in seen["exit"]["message"]
    assert seen["sizes"]["out"] == 1_000_000


DAEMONS = {
    "session": "setsid nohup sleep 1000 >/dev/null 2>&1 & echo $!",
    "tree": "setsid sh -c 'sleep 1000 & setsid sleep 1000 & wait' & echo $!",
    "bare": "env -i setsid nohup sleep 1000 >/dev/null 2>&1 & echo $!",
}


@pytest.mark.parametrize("kind", DAEMONS)
@pytest.mark.parametrize("first", [True, False])
def test_children_that_leave_the_group_are_gone_afterwards(tmp_path: Path, kind: str, first: bool) -> None:
    async def main() -> Exit:
        async with Processes(tmp_path / "run") as processes:
            if not first:  # from the second job on the supervisor inherits orphans
                await follow(processes, "t0", shell("true", tmp_path))
            ran = await follow(processes, "t1", shell(f"{DAEMONS[kind]}; sleep 0.1", tmp_path))
            assert not alive(int(ran.out))
            assert left_behind(tmp_path / "run") == []
            return ran.exit

    assert asyncio.run(main()).code == 0


def test_leaving_the_context_ends_all_agents_and_the_supervisor(tmp_path: Path) -> None:
    folder = tmp_path / "run"

    async def main() -> None:
        async with Processes(folder) as processes:
            runs = [
                processes.run(f"t{i}", shell("setsid sleep 1000 & sleep 1000", tmp_path)) for i in range(2)
            ]
            waiting = [asyncio.ensure_future(anext(run)) for run in runs]
            while len(left_behind(folder)) < 6:
                await asyncio.sleep(0.01)
        for item in await asyncio.gather(*waiting):
            assert isinstance(item, Exit)
            assert item.reason == "ended"

    asyncio.run(main())
    assert left_behind(folder) == []
    assert supervisor_pids(folder) == []


def test_cancelling_ends_the_agent_before_it_returns(tmp_path: Path) -> None:
    async def main() -> None:
        async with Processes(tmp_path / "run") as processes:
            task = asyncio.create_task(follow(processes, "t1", shell("sleep 1000", tmp_path)))
            while not left_behind(tmp_path / "run"):
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert left_behind(tmp_path / "run") == []

    asyncio.run(main())


def test_the_end_of_one_job_leaves_another_with_its_children_alone(tmp_path: Path) -> None:
    async def main() -> None:
        async with Processes(tmp_path / "run") as processes:
            gate = tmp_path / "gate"
            script = f"setsid sleep 1000 & echo $!; while [ ! -e {gate} ]; do sleep 0.02; done; kill -0 $!"
            long = asyncio.create_task(follow(processes, "long", shell(script, tmp_path)))
            while not left_behind(tmp_path / "run"):
                await asyncio.sleep(0.01)
            short = await follow(processes, "short", shell("setsid sleep 1000 & echo $!", tmp_path))
            assert not alive(int(short.out))
            gate.touch()
            assert (await long).exit.code == 0

    asyncio.run(main())


def test_forgetting_removes_what_was_kept(tmp_path: Path) -> None:
    jobs = tmp_path / "run" / "jobs"

    async def main() -> None:
        async with Processes(tmp_path / "run") as processes:
            await follow(processes, "t1", shell("echo x", tmp_path))
            assert (jobs / "t1").stat().st_mode & 0o777 == 0o700
            processes.forget("t1")
            processes.forget("t1")
            again = await follow(processes, "t1", shell("echo y", tmp_path))
            assert (again.out, again.exit.adopted) == (b"y\n", False)
            processes.forget("t1")
            await follow(processes, "t2", shell(f"until [ ! -e {jobs}/t1 ]; do sleep 0.01; done", tmp_path))
            processes.forget("t2")

    asyncio.run(main())
    assert list(jobs.iterdir()) == []


def test_a_supervisor_that_nobody_needs_ends_by_itself(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    driver = start_driver(folder, "exec sleep 1000")
    wait_for(lambda: bool(left_behind(folder)), "the agent")
    (agent,) = left_behind(folder)
    driver.kill()
    driver.communicate()
    os.kill(agent, 9)
    wait_for(lambda: supervisor_pids(folder) == [], "the supervisor to end")
