"""Forks supervisors, because a new Python would take longer than a short run.

Only on Linux, and where processes can be branded (`process/cgroup.py`). A fork shows the environment of
the program that it is a copy of, so a supervisor made here has no marker in it; an agent that it was
starting when it was killed is found by its brand. Not in a one-file build: the folder that it is unpacked
into is deleted when Segue ends, and a supervisor may outlive Segue.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING

from segue.system.identity import SUPERVISOR_MARKER
from segue.system.process.cgroup import may_brand
from segue.system.process.group import portable
from segue.system.process.segue import frozen

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence
    from typing import NoReturn

assert sys.platform == "linux"

_MOST_FDS = 16
_LONGEST_PATH = 64 * 1024


class ForkedSupervisor:
    """A supervisor that is no child of this process; used like one of asyncio's."""

    def __init__(self, pid: int, stdin: asyncio.StreamWriter, stdout: asyncio.StreamReader) -> None:
        self.pid, self.stdin, self.stdout = pid, stdin, stdout
        self._handle = os.pidfd_open(pid)  # it lives: it waits for our first request

    def kill(self) -> None:
        """Kill it."""
        signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    async def wait(self) -> None:
        """Wait until it has ended; called once."""
        import asyncio

        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._handle, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._handle)
            os.close(self._handle)


class Nursery:
    """A child of this process that forks supervisors. It ends with this process; they do not."""

    def __init__(self, line: socket.socket, pid: int) -> None:
        self._line, self.pid = line, pid

    def close(self) -> None:
        """End it."""
        self._line.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    async def start(self, folder: str, hold_fds: Sequence[int], limit: int) -> ForkedSupervisor | None:
        """Start a supervisor for a folder; None if the nursery was killed."""
        asked, ask = os.pipe()
        hear, said = os.pipe()
        try:
            socket.send_fds(self._line, [os.fsencode(folder)], [asked, said, *hold_fds])
            pid = self._line.recv(32)
        except OSError:
            pid = b""
        finally:
            os.close(asked)
            os.close(said)
        if not pid:
            os.close(ask)
            os.close(hear)
            return None
        return await _connect(int(pid), ask, hear, limit)


async def _connect(pid: int, ask: int, hear: int, limit: int) -> ForkedSupervisor:
    import asyncio  # the nursery is forked before, and does without it

    loop = asyncio.get_running_loop()
    replies, unused = asyncio.StreamReader(limit), asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(replies), os.fdopen(hear, "rb", 0))
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(unused), os.fdopen(ask, "wb", 0)
    )
    return ForkedSupervisor(pid, asyncio.StreamWriter(transport, protocol, None, loop), replies)


def open_nursery() -> Nursery | None:
    """Fork the nursery, if this process has one thread; None where supervisors have to be programs."""
    if portable() or frozen() or not may_brand() or not _can_watch() or threading.active_count() > 1:
        return None
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        _end_after(_serve, theirs)
    theirs.close()
    return Nursery(ours, pid)


def _can_watch() -> bool:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:  # an old kernel, or a sandbox
        return False
    return True


def _end_after(work: Callable[..., None], *arguments: object) -> NoReturn:
    """Do what this process was forked for, and nothing that its original would do at its end."""
    code = 1
    try:
        work(*arguments)
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def _serve(line: socket.socket) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody has to wait for supervisors
    for fd in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 - this may run before pathlib is imported
        # Others wait for the end of what this process inherited.
        if fd > 2 and fd != line.fileno():
            with contextlib.suppress(OSError):
                os.close(fd)
    # So that no supervisor has to, while Segue does something else.
    import ctypes  # noqa: F401

    import segue.system.supervisor.main
    import segue.system.supervisor.posix  # noqa: F401

    while True:
        folder, fds, _, _ = socket.recv_fds(line, _LONGEST_PATH, _MOST_FDS)
        if not folder:
            return
        pid = os.fork()
        if pid == 0:
            line.close()
            _end_after(_supervise, os.fsdecode(folder), *fds[:2])
        for fd in fds:
            os.close(fd)
        line.send(str(pid).encode())


def _supervise(folder: str, asked: int, said: int) -> None:
    from segue.system.supervisor.main import main

    os.setsid()
    os.chdir(folder)
    log = os.open("supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for fd, place in ((asked, 0), (said, 1), (log, 2)):
        os.dup2(fd, place)
        os.close(fd)
    os.environ.pop(SUPERVISOR_MARKER, None)
    main([folder])
