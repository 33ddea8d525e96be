"""Runs short local tools such as git and captures what they print."""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from segue.domain.errors import ToolMissing
from segue.system.process_environment import child_environment

_CHUNK = 64 * 1024
_PIPE_MAX = 1024 * 1024
_POLL = 0.02


@dataclass(frozen=True, slots=True)
class Captured:
    """How a tool ended and the beginning of what it printed; a negative code is the signal that ended it."""

    exit_code: int
    out: bytes
    err: bytes


async def capture(
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str] | None = None,
    timeout: float = 60.0,
    stdin: bytes = b"",
    limit: int = 64 * 1024**2,
) -> Captured:
    """Run a tool to its end in a process group of its own; at most `limit` bytes of each stream are kept.

    Raises ToolMissing when there is no such program and TimeoutError when it took too long; on that and on
    cancellation the group is killed before this returns.
    """
    process = _start(argv, cwd, child_environment() if env is None else dict(env))
    tool = _Tool(process, stdin, limit)
    pump = asyncio.get_running_loop().run_in_executor(None, tool.pump, timeout)
    try:
        await asyncio.shield(pump)
    except asyncio.CancelledError:
        tool.kill()
        await pump
        raise
    if tool.timed_out:
        raise TimeoutError(f"{argv[0]} did not end within {timeout:g} s")
    return Captured(process.returncode, bytes(tool.kept["out"]), bytes(tool.kept["err"]))


def _start(argv: Sequence[str], cwd: Path, env: dict[str, str]) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(
            argv, cwd=cwd, env=env, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True
        )
    except FileNotFoundError as error:
        if error.filename != argv[0]:
            raise
        raise ToolMissing(
            f"{argv[0]} cannot be found", hint=f"Install {argv[0]} or put its folder on PATH."
        ) from error


class _Tool:
    """A running tool, its pipes, and what it printed so far. Its `pump` works in a thread."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes, limit: int) -> None:
        self.process = process
        self.kept = {"out": bytearray(), "err": bytearray()}
        self.timed_out = False
        self._unsent = memoryview(stdin)
        self._limit = limit
        self._selector = selectors.DefaultSelector()

    def pump(self, timeout: float) -> None:
        """Feed and empty the pipes until the tool exits, also when a grandchild holds them open."""
        process = self.process
        assert process.stdin
        assert process.stdout
        assert process.stderr
        with process.stdin, process.stdout, process.stderr, self._selector, _exit_watch(process.pid) as fd:
            self._watch(process.stdout, "out")
            self._watch(process.stderr, "err")
            self._watch(process.stdin, "in")
            if fd is not None:
                self._selector.register(fd, selectors.EVENT_READ, "exit")
            self._until_exit(time.monotonic() + timeout, None if fd is not None else _POLL)
            self._drain()
        self.kill()

    def kill(self) -> None:
        """Kill the tool's whole group; harmless when it is gone."""
        if sys.platform == "win32":
            subprocess.run(
                ["taskkill", "/T", "/F", "/PID", str(self.process.pid)], capture_output=True, check=False
            )
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def _watch(self, pipe: IO[bytes], name: str) -> None:
        os.set_blocking(pipe.fileno(), False)
        self._selector.register(pipe, selectors.EVENT_WRITE if name == "in" else selectors.EVENT_READ, name)

    def _until_exit(self, deadline: float, poll: float | None) -> None:
        while self.process.poll() is None:
            left = deadline - time.monotonic()
            if left <= 0:
                self.timed_out = True
                self.kill()
                self.process.wait()
                return
            for key, _ in self._selector.select(left if poll is None else min(left, poll)):
                self._handle(key)

    def _handle(self, key: selectors.SelectorKey) -> None:
        pipe = key.fileobj
        if key.data == "exit" or isinstance(pipe, int):
            return
        done = self._feed(key.fd) if key.data == "in" else self._take(key.fd, key.data) == 0
        if done:
            self._selector.unregister(pipe)
            pipe.close()  # type: ignore[attr-defined]

    def _feed(self, fd: int) -> bool:
        try:
            self._unsent = (
                self._unsent[os.write(fd, self._unsent[:_CHUNK]) :] if self._unsent else self._unsent
            )
        except BlockingIOError:
            return False
        except BrokenPipeError:
            return True
        return not self._unsent

    def _take(self, fd: int, name: str) -> int | None:
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return None
        kept = self.kept[name]
        kept += data[: self._limit - len(kept)]
        return len(data)

    def _drain(self) -> None:
        for key in list(self._selector.get_map().values()):
            moved = 0
            # A pipe holds no more than this, so more was written after the tool's exit.
            while key.data in self.kept and moved < _PIPE_MAX and (count := self._take(key.fd, key.data)):
                moved += count


@contextlib.contextmanager
def _exit_watch(pid: int) -> Iterator[int | None]:
    """A descriptor that becomes readable when the process exits, where the system has such a thing."""
    try:
        fd = os.pidfd_open(pid) if sys.platform == "linux" else None
    except OSError:
        fd = None
    try:
        yield fd
    finally:
        if fd is not None:
            os.close(fd)
