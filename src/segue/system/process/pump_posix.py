"""Feed a short tool and collect its output, with one selector for all pipes."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import IO

from segue.system.process.group import Tree

assert sys.platform != "win32"

_CHUNK = 64 * 1024
_PIPE_MAX = 1024 * 1024
_POLL = 0.02


class SelectorPump:
    """A running tool, its pipes and its output so far."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes, limit: int) -> None:
        self.process = process
        self._tree = Tree(process)
        self.kept = {"out": bytearray(), "err": bytearray()}
        self.timed_out = False
        self._unsent = memoryview(stdin)
        self._limit = limit
        self._selector = selectors.DefaultSelector()

    def run(self, timeout: float) -> None:
        """Feed and empty the pipes until the tool exits, even if a grandchild keeps them open."""
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
        self._tree.kill()

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
            # A pipe cannot contain more than this, so more was written after the tool's exit.
            while key.data in self.kept and moved < _PIPE_MAX and (count := self._take(key.fd, key.data)):
                moved += count


@contextlib.contextmanager
def _exit_watch(pid: int) -> Iterator[int | None]:
    """Yield a descriptor that becomes readable when the process exits; None if the system has none."""
    fd = None
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            fd = os.pidfd_open(pid)
    try:
        yield fd
    finally:
        if fd is not None:
            os.close(fd)
