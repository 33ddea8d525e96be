"""Start, interrupt, terminate and kill a process together with its children.

POSIX has process groups. On Windows a console group is interrupted, and psutil finds the children to kill.
"""

# The supervisor imports this, and asyncio and pathlib would cost it start-up time.
from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
_BATCH = (".cmd", ".bat")
_SPECIAL = frozenset('"%&|<>^!\r\n')
"""Characters that the interpreter of batch files treats specially, whatever the quoting."""


def own_group(hidden: bool = False) -> dict[str, Any]:
    """Return Popen options for a process group of its own; `hidden`: also with an invisible console."""
    if sys.platform == "win32":
        flags = subprocess.CREATE_NEW_PROCESS_GROUP | (subprocess.CREATE_NO_WINDOW if hidden else 0)
        return {"creationflags": flags}
    return {"start_new_session": True}


def interrupt(pid: int) -> None:
    """Interrupt a process, as Ctrl-C does."""
    if sys.platform == "win32":
        with contextlib.suppress(OSError):
            os.kill(pid, signal.CTRL_BREAK_EVENT)
    else:
        _send(os.kill, pid, signal.SIGINT)


def terminate_group(pid: int) -> None:
    """Terminate a whole group; Windows cannot ask, so there the tree is killed."""
    if sys.platform == "win32":
        kill(pid)
    else:
        _send(os.killpg, pid, signal.SIGTERM)


def kill_group(pid: int) -> None:
    """Kill everything in the group of a process, also after the process itself has ended."""
    if sys.platform == "win32":
        kill(pid)
    else:
        _send(os.killpg, pid, signal.SIGKILL)


def kill(pid: int) -> None:
    """Kill a process; on Windows, which has no groups, with all its children."""
    if sys.platform == "win32":
        import psutil

        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            for each in (*process.children(recursive=True), process):
                with contextlib.suppress(psutil.Error):
                    each.kill()
    else:
        _send(os.kill, pid, signal.SIGKILL)


def _send(send: Callable[[int, int], None], pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        send(pid, number)


def startable(argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """Return a command that the system can start: on Windows a bare name may mean a batch file.

    Raises ValueError for arguments that a batch file would misread.
    """
    if sys.platform == "win32":
        from segue.system.programs import find_inside

        return check_batch([find_inside(argv[0], env.get("PATH")) or argv[0], *argv[1:]])
    return list(argv)


def check_batch(argv: list[str]) -> list[str]:
    """Return the command unless it is a batch file that would misread an argument."""
    if argv[0].lower().endswith(_BATCH):
        for argument in argv[1:]:
            if _SPECIAL.intersection(argument):
                raise ValueError(
                    f"{argv[0]} is a batch file, which cannot be given the argument {argument!r}"
                )
    return argv


@contextlib.contextmanager
def on_interrupt(call: Callable[[], object]) -> Iterator[None]:
    """Have the loop make a call when this process is interrupted or terminated."""
    import asyncio

    loop = asyncio.get_running_loop()
    numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
    try:
        for number in numbers:
            loop.add_signal_handler(number, call)
    except NotImplementedError:
        with _plain_handlers(numbers, lambda: loop.call_soon_threadsafe(call)):
            yield
        return
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def _plain_handlers(numbers: list[int], call: Callable[[], object]) -> Iterator[None]:
    """Do the same for loops without signals, as on Windows, with a handler that wakes the loop."""
    before = {number: signal.signal(number, lambda *_: call()) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
