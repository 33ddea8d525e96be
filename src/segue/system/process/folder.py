"""The files that Segue and its supervisors share: one folder per job; and the end of what was left there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from segue.system.identity import find_survivors, is_dead, pid_of
from segue.system.process.group import kill
from segue.system.process.notes import BINARY, write_whole

_log = logging.getLogger(__name__)

_CHUNK = 256 * 1024
_TOKEN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_LOOK_AGAIN = 0.02
_GIVE_UP = 10.0
_CLEAN_LOOKS = 2
"""One look can miss a process that forks while it lasts."""

Stream = Literal["out", "err"]


class JobFolder(Struct, frozen=True):
    """The files of one job: its prompt, its output, who runs it, how it ended."""

    path: Path

    def prepare(self, prompt: bytes) -> None:
        """Create the folder and write the prompt; no supervisor has been asked to read it yet."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.path / "prompt").write_bytes(prompt)

    def claim(self) -> dict[str, Any] | None:
        """Return what a supervisor wrote before it started the agent; None if none took the job."""
        return _load(self.path / "claim.json")

    def child(self) -> str | None:
        """Return the name of the agent's process, if its supervisor lived long enough to record it."""
        return (_load(self.path / "job.json") or {}).get("child")

    def result(self) -> dict[str, Any] | None:
        """Return how the job ended; None while that is unknown."""
        return _load(self.path / "exit.json") or None

    def is_running(self) -> bool:
        """Return whether it was started and its end is not recorded."""
        return self.claim() is not None and self.result() is None

    def supervisor(self) -> str | None:
        """Return the name of the supervisor, if it may be alive."""
        name = (self.claim() or {}).get("supervisor")
        return None if name is None or is_dead(name) else name

    def ask_to_end(self) -> None:
        """Ask the supervisor to end the agent."""
        (self.path / "end").touch()


def _load(path: Path) -> dict[str, Any] | None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        loaded: dict[str, Any] = json.loads(data)
    except ValueError:
        return {}
    return loaded


class OutputReader:
    """Reads the output of a job from the beginning, in pieces that fit into memory."""

    def __init__(self, folder: JobFolder) -> None:
        self._folder = str(folder.path)
        self._open: dict[Stream, int] = {}

    def __enter__(self) -> OutputReader:
        return self

    def __exit__(self, *_error: object) -> None:
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()

    def read(self) -> Iterator[tuple[Stream, bytes]]:
        """Yield what was added since the last call."""
        streams: tuple[Stream, ...] = ("out", "err")
        for stream in streams:
            fd = self._descriptor(stream)
            if fd is None:
                continue
            if os.fstat(fd).st_size < os.lseek(fd, 0, os.SEEK_CUR):
                os.lseek(fd, 0, os.SEEK_SET)  # the agent has emptied it, as `> /dev/stderr` does
            while data := os.read(fd, _CHUNK):
                yield stream, data

    def _descriptor(self, stream: Stream) -> int | None:
        if stream not in self._open:
            try:
                self._open[stream] = os.open(f"{self._folder}/{stream}", os.O_RDONLY | BINARY)
            except FileNotFoundError:
                return None
        return self._open[stream]


class RunFolder(Struct, frozen=True):
    """The folder of one run, with all its jobs."""

    path: Path

    def job(self, token: str) -> JobFolder:
        """Return the folder of a job; the token becomes a file name, so it must look like one."""
        if not _TOKEN.fullmatch(token):
            raise ValueError(f"not a token: {token!r}")
        return JobFolder(self.path / "jobs" / token)

    def running(self) -> list[JobFolder]:
        """Return the jobs that were started and whose end is not recorded."""
        jobs = (JobFolder(path) for path in sorted((self.path / "jobs").glob("*")))
        return [job for job in jobs if job.is_running()]


async def end_orphans(folder: Path) -> int:
    """End everything that still runs in the folder; return the number of jobs."""
    running = RunFolder(folder.resolve()).running()
    if running:
        _log.info("ending %d jobs that an earlier process left in %s", len(running), folder)
    await asyncio.gather(*(end_job(job) for job in running))
    return len(running)


async def end_job(job: JobFolder) -> None:
    """Have the supervisor of a job end it; kill both if that takes too long."""
    grace = (job.claim() or {}).get("grace", 0.0)
    deadline = time.monotonic() + 2 * grace + _GIVE_UP + 5.0
    if job.result() is None:
        with contextlib.suppress(OSError):  # on a full disk the supervisor is killed
            job.ask_to_end()
    while name := job.supervisor():
        if time.monotonic() > deadline:
            kill(pid_of(name))
        await asyncio.sleep(_LOOK_AGAIN)
    if job.result() is None:
        await end_lost(job)


async def end_lost(job: JobFolder) -> dict[str, Any]:
    """Kill every process of a job whose supervisor is dead, and record that its end was not seen."""
    _log.warning("job %s: its supervisor is dead; ending what it left", job.path.name)
    child = job.child()
    started = (job.claim() or {}).get("started", time.time())
    await _end_survivors(job, child)
    result = {
        "exit_code": None,
        "signal": None,
        "reason": "lost",
        "message": "its supervisor was killed; the agent was ended and its exit code is not known",
        "pid": pid_of(child) if child else None,
        "duration": max(0.0, time.time() - started),
    }
    with contextlib.suppress(OSError):  # a full disk must not hide the end from the caller
        write_whole(str(job.path / "exit.json"), result)
    return result


async def _end_survivors(job: JobFolder, child: str | None) -> None:
    deadline = time.monotonic() + _GIVE_UP
    clean = 0
    while clean < _CLEAN_LOOKS and time.monotonic() < deadline:
        # The group is reliable only while its leader lives: pids are reused.
        leader = pid_of(child) if child and not is_dead(child) else None
        survivors = find_survivors(str(job.path), leader)
        for pid in survivors:
            kill(pid)
        clean = 0 if survivors else clean + 1
        await asyncio.sleep(_LOOK_AGAIN if survivors else 0)
