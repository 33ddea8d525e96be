"""The parts for other systems that can be run here: psutil, batch files, notes, loops without signals."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.system.identity import find_survivors, portable_start_time, start_time
from segue.system.process.folder import end_orphans
from segue.system.process.group import PORTABLE, on_interrupt, windows_argv
from tests.system.process_driver import PATIENCE, kill_driver, left_behind, start_driver, wait_for

EXTENSIONS = ".COM;.EXE;.BAT;.CMD"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="compares with what Linux tells")


@pytest.fixture
def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "1000"], env={**os.environ, "MARK": "here it is"})


def test_psutil_knows_a_process_by_its_start_and_sees_its_death(sleeper: subprocess.Popen[bytes]) -> None:
    began = portable_start_time(sleeper.pid)
    assert began
    assert "/" not in began
    assert portable_start_time(sleeper.pid) == began
    code = "import sys; from segue.system.identity import *; print(portable_start_time(int(sys.argv[1])))"
    other = subprocess.run([sys.executable, "-c", code, str(sleeper.pid)], capture_output=True, check=True)
    assert other.stdout.decode().strip() == began, "every process gives it the same name"
    sleeper.kill()
    wait_for(lambda: start_time(sleeper.pid) is None, "a zombie")
    assert portable_start_time(sleeper.pid) is None, "a zombie is dead"
    sleeper.wait()
    assert portable_start_time(sleeper.pid) is None


def test_survivors_are_found_by_marker_group_and_parent(sleeper: subprocess.Popen[bytes]) -> None:
    shell = subprocess.Popen(
        ["sh", "-c", "env -i sleep 1000 & exec env -i sleep 1000"], env={}, start_new_session=True
    )
    try:
        assert find_survivors({"MARK": "here it is"}, None) == {sleeper.pid}
        assert find_survivors({"MARK": "elsewhere"}, None) == set()
        wait_for(lambda: len(find_survivors({}, shell.pid)) == 2, "the shell and its child")
        assert find_survivors({}, None, [shell.pid]) == find_survivors({}, shell.pid)
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        sleeper.kill()
        sleeper.wait()
        shell.wait()


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("agent", "b/agent.cmd"),
        ("AGENT.cmd", None),
        ("agent.cmd", "b/agent.cmd"),
        ("tool", "a/tool.exe"),
        ("nothing", None),
    ],
)
def test_a_bare_name_becomes_the_file_that_windows_can_start(
    tmp_path: Path, name: str, found: str | None
) -> None:
    for file in ("a/agent", "a/tool.exe", "b/agent", "b/agent.cmd", "b/tool.exe"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    path = os.pathsep.join([str(tmp_path / "a"), str(tmp_path / "b")])
    assert windows_argv([name, "-p"], path, EXTENSIONS) == [str(tmp_path / found) if found else name, "-p"]


@given(st.text(min_size=1).filter(lambda text: set(text) & set('"%&|<>^!\r\n')))
def test_a_batch_file_never_gets_what_its_shell_would_read(argument: str) -> None:
    with pytest.raises(ValueError, match="is a batch file"):
        windows_argv(["C:/agent.CMD", "ok", argument], "", EXTENSIONS)
    assert windows_argv(["C:/agent.exe", argument], "", EXTENSIONS)[1] == argument


def test_a_supervisor_that_hears_no_signal_is_asked_by_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PORTABLE, "1")
    folder = tmp_path / "run"
    driver = start_driver(folder, "trap 'echo bye; exit 0' INT; echo up; while :; do sleep 0.02; done")
    wait_for(lambda: bool(left_behind(folder)) and out(folder) == b"up\n", "the agent")
    kill_driver(driver)
    (note,) = (folder / "supervisors").iterdir()
    asyncio.run(end_orphans(folder))
    assert out(folder) == b"up\nbye\n", "the agent was asked and not just killed"
    assert left_behind(folder) == []
    assert list((folder / "supervisors").iterdir()) == [], f"neither {note.name} nor the request stays"


def out(folder: Path) -> bytes:
    spool = folder / "jobs" / "t1" / "out"
    return spool.read_bytes() if spool.exists() else b""


class DeafLoop(asyncio.SelectorEventLoop):
    """A loop that knows no signals, as Windows has it."""

    def add_signal_handler(self, sig: int, callback: Callable[..., object], *args: object) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("loop", [asyncio.SelectorEventLoop, DeafLoop])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_every_loop_hears_an_interrupt_and_is_as_before_afterwards(
    loop: Callable[[], asyncio.AbstractEventLoop], number: signal.Signals
) -> None:
    async def main() -> None:
        heard = asyncio.Event()
        before = signal.getsignal(number)
        with on_interrupt(heard.set):
            os.kill(os.getpid(), number)
            await asyncio.wait_for(heard.wait(), PATIENCE)
        assert signal.getsignal(number) in (before, signal.SIG_DFL, signal.default_int_handler)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())
