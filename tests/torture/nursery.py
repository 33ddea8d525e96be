"""Starts workers, watches them and kills them."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from segue.system import identity

ROOT = Path(__file__).parents[2]


class Nursery:
    """The workers of one test on one database."""

    def __init__(self, address: str, complaints: Path) -> None:
        self._complaints = complaints
        self._file = complaints.open("w")
        self._program = subprocess.Popen(
            [sys.executable, "-m", "tests.torture.worker", address],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._file,
            text=True,
        )
        self.alive: list[int] = []
        self.kills = 0

    def spawn(self, *words: object) -> int:
        """Start a worker."""
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.write(" ".join(map(str, words)) + "\n")
        self._program.stdin.flush()
        pid = int(self._program.stdout.readline())
        self.alive.append(pid)
        return pid

    def kill(self, pid: int) -> None:
        """Kill a worker as nothing else can: it does not learn of it."""
        if identity.start_time(pid) is not None:
            os.kill(pid, signal.SIGKILL)
            self.kills += 1
        self.alive.remove(pid)

    def cull(self, rng: random.Random, seconds: float = 0.05) -> None:
        """Let them work for about so many seconds, then kill one of them."""
        time.sleep(rng.expovariate(1 / seconds))
        self.kill(rng.choice(self.alive))

    def wait(self, seconds: float) -> None:
        """Wait until all workers have come to their end by themselves."""
        deadline = time.monotonic() + seconds
        while any(identity.start_time(pid) is not None for pid in self.alive):
            assert time.monotonic() < deadline, "the workers do not come to an end"
            time.sleep(0.01)

    def complaints(self) -> str:
        """What workers wrote to stderr."""
        self._file.flush()
        return self._complaints.read_text()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        for pid in list(self.alive):
            self.kill(pid)
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.close()
        self._program.wait(120)
        self._program.stdout.close()
        self._file.close()
