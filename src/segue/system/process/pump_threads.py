"""Feed a short tool and collect its output, with a thread for each pipe.

Windows needs it, because it cannot wait for several pipes at once; it works on every system.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from typing import IO

from segue.system.process.group import Tree

_CHUNK = 64 * 1024
_LAST_WORDS = 2.0
"""Seconds that the end of a pipe may take after the tool's exit."""


class ThreadPump:
    """A running tool and its output so far."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes, limit: int) -> None:
        self.process = process
        self._tree = Tree(process)
        self.kept = {"out": bytearray(), "err": bytearray()}
        self.timed_out = False
        self._stdin = stdin
        self._limit = limit

    def run(self, timeout: float) -> None:
        """Feed and empty the pipes until the tool exits, even if a grandchild keeps them open."""
        pipes = {"in": self.process.stdin, "out": self.process.stdout, "err": self.process.stderr}
        threads = [
            threading.Thread(
                target=self._feed if name == "in" else self._take, args=(name, pipe), daemon=True
            )
            for name, pipe in pipes.items()
        ]
        for thread in threads:
            thread.start()
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.timed_out = True
        self.kill()
        self.process.wait()
        deadline = time.monotonic() + _LAST_WORDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def kill(self) -> None:
        """Kill the tool with all its children; harmless when it is gone."""
        self._tree.kill()

    def _feed(self, _name: str, pipe: IO[bytes]) -> None:
        unsent = memoryview(self._stdin)
        with contextlib.suppress(OSError), pipe:
            while unsent:
                unsent = unsent[os.write(pipe.fileno(), unsent[:_CHUNK]) :]

    def _take(self, name: str, pipe: IO[bytes]) -> None:
        kept = self.kept[name]
        with contextlib.suppress(OSError), pipe:
            while data := pipe.read(_CHUNK):
                kept += data[: self._limit - len(kept)]
