"""Start, interrupt, terminate and kill a process together with its children.

POSIX has process groups; Windows has console groups for interrupts, job objects and `taskkill` for kills.
"""

# The supervisor imports this, and asyncio and pathlib would cost it start-up time.
# ruff: noqa: PTH113, PTH118, PTH120
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

PORTABLE = "SEGUE_PORTABLE"
"""Setting this variable to 1 makes POSIX systems use the threads that Windows needs; for tests."""

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
_BATCH = (".cmd", ".bat")
_SPECIAL = frozenset('"%&|<>^!\r\n')
"""Characters that the interpreter of batch files treats specially, whatever the quoting."""


def portable() -> bool:
    """Return whether pipes are read by threads: Windows cannot wait for several at once."""
    return sys.platform == "win32" or os.environ.get(PORTABLE) == "1"


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


class Tree:
    """A process in a group of its own, with everything it has started."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._pid = process.pid
        if sys.platform == "win32":
            self._job = JobObject(process)

    def kill(self) -> None:
        """Kill all of it, also after the process itself has ended."""
        if sys.platform != "win32":
            _send(os.killpg, self._pid, signal.SIGKILL)
        elif self._job.holds:
            self._job.kill()
        else:
            kill(self._pid)


def kill(pid: int) -> None:
    """Kill a process; on Windows, which has no groups, with all its children."""
    if sys.platform == "win32":
        # By its path: Windows looks for programs in the current folder first, which may be the work tree.
        program = os.path.join(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "taskkill.exe")
        argv = [program, "/T", "/F", "/PID", str(pid)]
        subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    else:
        _send(os.kill, pid, signal.SIGKILL)


def terminate(pid: int) -> None:
    """Terminate a process that handles the signal; does nothing on Windows."""
    if sys.platform != "win32":
        _send(os.kill, pid, signal.SIGTERM)


def _send(send: Callable[[int, int], None], pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        send(pid, number)


def startable(argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """Return a command that the system can start: on Windows a bare name may mean a batch file."""
    if sys.platform == "win32":
        return windows_argv(argv, env.get("PATH", ""), env.get("PATHEXT", ".COM;.EXE;.BAT;.CMD"))
    return list(argv)


def windows_argv(argv: Sequence[str], path: str, extensions: str) -> list[str]:
    """Return the command with its program's full path; raises for arguments a batch file would misread."""
    folders = [""] if os.path.dirname(argv[0]) else path.split(os.pathsep)
    program = _find(argv[0], folders, extensions.lower().split(";")) or argv[0]
    if program.lower().endswith(_BATCH):
        for argument in argv[1:]:
            if _SPECIAL.intersection(argument):
                raise ValueError(
                    f"{program} is a batch file, which cannot be given the argument {argument!r}"
                )
    return [program, *argv[1:]]


def _find(name: str, folders: list[str], extensions: list[str]) -> str | None:
    # Package managers put `agent` for POSIX shells beside `agent.cmd`; only the latter can be started.
    endings = [""] if name.lower().endswith(tuple(extensions)) else extensions
    for folder in folders:
        for ending in endings:
            path = os.path.join(folder, name + ending)
            if os.path.isfile(path):
                return path
    return None


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


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _EXTENDED_LIMITS, _KILL_ON_CLOSE = 9, 0x2000

    class _Basic(ctypes.Structure):
        _fields_ = [
            ("PerProcessUserTimeLimit", ctypes.c_int64),
            ("PerJobUserTimeLimit", ctypes.c_int64),
            ("LimitFlags", wintypes.DWORD),
            ("MinimumWorkingSetSize", ctypes.c_size_t),
            ("MaximumWorkingSetSize", ctypes.c_size_t),
            ("ActiveProcessLimit", wintypes.DWORD),
            ("Affinity", ctypes.c_size_t),
            ("PriorityClass", wintypes.DWORD),
            ("SchedulingClass", wintypes.DWORD),
        ]

    class _Extended(ctypes.Structure):
        _fields_ = [
            ("Basic", _Basic),
            ("IoCounters", ctypes.c_uint64 * 6),
            ("ProcessMemoryLimit", ctypes.c_size_t),
            ("JobMemoryLimit", ctypes.c_size_t),
            ("PeakProcessMemoryUsed", ctypes.c_size_t),
            ("PeakJobMemoryUsed", ctypes.c_size_t),
        ]

    _kernel = ctypes.WinDLL("kernel32")
    _kernel.CloseHandle.argtypes = [wintypes.HANDLE]
    _kernel.CreateJobObjectW.restype = wintypes.HANDLE
    _kernel.CreateJobObjectW.argtypes = [wintypes.LPVOID, wintypes.LPCWSTR]
    _kernel.SetInformationJobObject.argtypes = [
        *(wintypes.HANDLE, ctypes.c_int, wintypes.LPVOID, wintypes.DWORD)
    ]
    _kernel.AssignProcessToJobObject.argtypes = [wintypes.HANDLE, wintypes.HANDLE]
    _kernel.TerminateJobObject.argtypes = [wintypes.HANDLE, wintypes.UINT]

    class JobObject:
        """Contains a process and everything it starts; closing it, also by a crash, ends them all."""

        def __init__(self, process: subprocess.Popen[bytes]) -> None:
            self._handle: int | None = _kernel.CreateJobObjectW(None, None)
            limits = _Extended()
            limits.Basic.LimitFlags = _KILL_ON_CLOSE
            self.holds = bool(
                self._handle
                and _kernel.SetInformationJobObject(
                    self._handle, _EXTENDED_LIMITS, ctypes.byref(limits), ctypes.sizeof(limits)
                )
                and _kernel.AssignProcessToJobObject(self._handle, int(process._handle))  # type: ignore[attr-defined]
            )

        def kill(self) -> None:
            """Kill everything inside, also processes that outlived their parent."""
            _kernel.TerminateJobObject(self._handle, 1)

        def __del__(self) -> None:
            if self._handle:
                _kernel.CloseHandle(self._handle)
