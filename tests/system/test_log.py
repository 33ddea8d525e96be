"""What a person who watches a long-running process sees in its log; nothing secret is in it."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from segue.domain.errors import WorkspaceError
from segue.domain.job import Limits
from segue.system.git.repository import Repository
from segue.system.process.capture import capture
from segue.system.process.processes import Command, Processes

SECRET = "hunter2-in-an-argument"


def test_a_program_is_named_with_its_pid_and_its_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "segue")
    asyncio.run(capture([sys.executable, "-c", f"raise SystemExit(3)  # {SECRET}"], tmp_path))
    started, ended = (one.getMessage() for one in caplog.records if "pid" in one.getMessage())
    assert started.startswith(f"{Path(sys.executable).name} started, pid ")
    assert "exit code 3" in ended
    assert SECRET not in caplog.text


def test_an_agent_is_seen_to_start_and_to_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "segue")

    async def work() -> None:
        argv = (sys.executable, "-c", f"import sys; sys.stdin.read(); raise SystemExit(4)  # {SECRET}")
        limits = Limits(wall=60, idle=60, grace=1)
        async with Processes(tmp_path / "run") as processes:
            async for _ in processes.run("one", Command(argv, tmp_path, {}, SECRET.encode(), limits)):
                pass

    asyncio.run(work())
    said = [one.getMessage() for one in caplog.records]
    assert any(line.startswith("supervisor started, pid ") for line in said)
    assert any(line.startswith("job one: starting ") for line in said)
    assert any(line.startswith("job one: pid ") and "exit code 4, by itself" in line for line in said)
    assert SECRET not in caplog.text


def test_a_git_that_fails_is_named_by_its_command(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    caplog.set_level(logging.INFO, "segue")

    async def work() -> None:
        await (await Repository.open(tmp_path)).git("rev-parse", "--verify", SECRET)

    with pytest.raises(WorkspaceError):
        asyncio.run(work())
    assert "git rev-parse failed in" in caplog.text
    assert SECRET not in caplog.text


def test_without_a_handler_nothing_is_printed(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys, pathlib; from segue.system.process.capture import capture, TookTooLong\n"
        "argv = [sys.executable, '-c', 'import time; time.sleep(60)']\n"
        "try: asyncio.run(capture(argv, pathlib.Path(), timeout=0.01))\n"
        "except TookTooLong: pass\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=tmp_path, check=True)
    assert done.stderr == b""


@pytest.mark.parametrize("before", ["", "logging.getLogger('segue').addHandler(logging.NullHandler()); "])
def test_what_a_person_has_to_know_is_shown_once(before: str) -> None:
    code = f"import logging; {before}from segue.domain.log import Log; Log('store').tell('It was migrated.')"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr
    assert said == "It was migrated.\n"
