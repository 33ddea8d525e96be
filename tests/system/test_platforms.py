"""The parts for other systems that can be run here: psutil, batch files, loops without signals."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.system.identity import (
    JOB_MARKER,
    boot,
    find_survivors,
    is_dead,
    is_here,
    portable_start_time,
    start_time,
)
from segue.system.process.group import check_batch, on_interrupt
from tests.isolation.means import needs
from tests.system.process_driver import PATIENCE, wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="compares with what Linux tells")


@pytest.fixture
def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "1000"], env={**os.environ, JOB_MARKER: "here it is"})


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
        assert find_survivors("here it is", None) == {sleeper.pid}
        assert find_survivors("elsewhere", None) == set()
        wait_for(lambda: len(find_survivors("elsewhere", shell.pid)) == 2, "the shell and its child")
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        sleeper.kill()
        sleeper.wait()
        shell.wait()


@given(st.text(min_size=1).filter(lambda text: set(text) & set('"%&|<>^!\r\n')))
def test_a_batch_file_never_gets_what_its_shell_would_read(argument: str) -> None:
    with pytest.raises(ValueError, match="is a batch file"):
        check_batch(["C:/agent.CMD", "ok", argument])
    assert check_batch(["C:/agent.exe", argument])[1] == argument


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


@needs("bwrap")
def test_a_process_of_another_container_is_never_taken_for_dead() -> None:
    """It has the same host and boot; its pid means another process there."""
    code = "from segue.system.identity import me; print(me())"
    around = ["bwrap", "--dev-bind", "/", "/", "--unshare-pid", "--proc", "/proc"]
    done = subprocess.run([*around, sys.executable, "-c", code], capture_output=True, text=True, check=True)
    name = done.stdout.strip()
    assert name.split("/")[1] == boot()
    assert not is_here(name)
    assert not is_dead(name)
