"""The files that Segue and its supervisors share: one folder per job, one note per supervisor."""

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

from segue.system.identity import JOB_MARKER, SUPERVISOR_MARKER, find_survivors, is_dead, pid_of
from segue.system.process.cgroup import Container
from segue.system.process.group import kill, portable, terminate
from segue.system.process.notes import BINARY, inbox, quit_note, replace, write_whole

_log = logging.getLogger(__name__)

_CHUNK = 256 * 1024
_TOKEN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")

Stream = Literal["out", "err"]


class JobFolder(Struct, frozen=True):
    """The files of one job: its prompt, its output, who runs it, how it ended."""

    path: Path

    def prepare(self, prompt: bytes) -> None:
        """Create the folder and write the prompt; no supervisor has been asked to read it yet."""
        try:
            self.path.mkdir(mode=0o700)
        except FileNotFoundError:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except FileExistsError:
            pass
        (self.path / "prompt").write_bytes(prompt)

    def tell(self, number: int, line: bytes) -> None:
        """Leave a line for the agent's stdin; one with this number is left once, whoever tries it again."""
        folder = Path(inbox(str(self.path)))
        place = folder / str(number)
        if self.path.exists() and not place.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
            new = folder / f"new-{number}"
            new.write_bytes(line)
            replace(str(new), str(place))

    def claim(self) -> dict[str, Any] | None:
        """Return what a supervisor wrote before it started the agent; None if none took the job."""
        return _load(self.path / "claim.json")

    def child(self) -> str | None:
        """Return the name of the agent's process, if its supervisor lived long enough to record it."""
        return (_load(self.path / "job.json") or {}).get("child")

    def result(self) -> dict[str, Any] | None:
        """Return how the job ended; None while that is unknown."""
        return _load(self.path / "exit.json") or None

    def write_result(self, result: dict[str, Any]) -> None:
        """Record how the job ended, in place of a dead supervisor."""
        write_whole(str(self.path / "exit.json"), result)


def _load(path: Path) -> dict[str, Any] | None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        loaded: dict[str, Any] = json.loads(data)
    except ValueError:
        return {}  # created but not filled: its writer is not done or was killed
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
            while fd is not None and (data := os.read(fd, _CHUNK)):
                yield stream, data

    def _descriptor(self, stream: Stream) -> int | None:
        if stream not in self._open:
            try:
                self._open[stream] = os.open(f"{self._folder}/{stream}", os.O_RDONLY | BINARY)
            except FileNotFoundError:
                return None
        return self._open[stream]


class RunFolder(Struct, frozen=True):
    """The folder of one run, with all its jobs and its supervisors."""

    path: Path

    def job(self, token: str) -> JobFolder:
        """Return the folder of a job; the token becomes a file name, so it must look like one."""
        if not _TOKEN.fullmatch(token):
            raise ValueError(f"not a token: {token!r}")
        return JobFolder(Path(f"{self.path}/jobs/{token}"))

    def jobs(self) -> list[JobFolder]:
        """Return all jobs that were not deleted."""
        return [JobFolder(path) for path in sorted((self.path / "jobs").glob("*"))]

    def prepare(self) -> None:
        """Create the folder."""
        (self.path / "jobs").mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.path / "supervisors").mkdir(mode=0o700, exist_ok=True)

    def note_supervisor(self, name: str) -> None:
        """Record a supervisor before it is asked for anything."""
        note = self.path / "supervisors" / str(pid_of(name))
        new = note.with_name(f"new-{note.name}")
        new.write_text(name)
        replace(str(new), str(note))

    def living_supervisors(self) -> list[str]:
        """Return the supervisors that are alive, and remove the notes of dead ones."""
        living = []
        for note in sorted((self.path / "supervisors").glob("[0-9]*")):
            name = note.read_text()
            if is_dead(name):
                note.unlink(missing_ok=True)
                self.quit_note(name).unlink(missing_ok=True)
            else:
                living.append(name)
        return living

    def quit_note(self, name: str) -> Path:
        """Return the file that asks a supervisor to quit."""
        return Path(quit_note(str(self.path), name))


_LOOK_AGAIN = 0.02
_GIVE_UP = 10.0
_CLEAN_LOOKS = 2
"""One look can miss a process that forks while it lasts."""


def patience(grace: float) -> float:
    """Return how long a supervisor may take to end its jobs: two grace periods, and the killing."""
    return 2 * grace + _GIVE_UP + 5.0


async def end_orphans(folder: Path) -> int:
    """End old supervisors of the folder and everything they run; return the number of jobs."""
    run = RunFolder(folder.resolve())
    running = [job for job in run.jobs() if job.claim() is not None and job.result() is None]
    await end_supervisors(run, run.living_supervisors(), _longest_grace(running))
    if running:
        _log.info("ending %d jobs that an earlier process left in %s", len(running), folder)
    for job in running:
        if job.result() is None:
            await end_lost(job)
    run.living_supervisors()
    return len(running)


def _longest_grace(jobs: list[JobFolder]) -> float:
    return max(((job.claim() or {}).get("grace", 0.0) for job in jobs), default=0.0)


async def end_supervisors(folder: RunFolder, names: list[str], grace: float) -> None:
    """Have supervisors end their jobs and quit; kill those that take too long."""
    for name in names:
        _ask_to_quit(folder, name)
    deadline = time.monotonic() + patience(grace)
    for name in names:
        while not is_dead(name):
            if time.monotonic() > deadline:
                kill(pid_of(name))
            await asyncio.sleep(_LOOK_AGAIN)


def _ask_to_quit(folder: RunFolder, name: str) -> None:
    if is_dead(name):
        return
    if portable():
        folder.quit_note(name).touch()
    else:
        terminate(pid_of(name))


async def end_lost(job: JobFolder) -> dict[str, Any]:
    """Kill every process of a job whose supervisor is dead, and record that its end was not seen."""
    _log.warning("job %s: its supervisor is dead; ending what it left", job.path.name)
    claim = job.claim() or {}
    child = job.child()
    started = claim.get("started", time.time())
    await _end_survivors(job, claim)
    result = {
        "exit_code": None,
        "signal": None,
        "reason": "lost",
        "message": "its supervisor was killed; the agent was ended and its exit code is not known",
        "pid": pid_of(child) if child else None,
        "duration": max(0.0, time.time() - started),
    }
    with contextlib.suppress(OSError):  # a full disk must not hide the end from the caller
        job.write_result(result)
    return result


async def _end_survivors(job: JobFolder, claim: dict[str, Any]) -> None:
    markers = {JOB_MARKER: str(job.path)}
    if claim.get("marker"):
        markers[SUPERVISOR_MARKER] = claim["marker"]
    child, container = job.child(), Container.of(claim)
    deadline = time.monotonic() + _GIVE_UP
    clean = 0
    while clean < _CLEAN_LOOKS and time.monotonic() < deadline:
        # The group is reliable only while its leader lives: pids are reused.
        leader = pid_of(child) if child and not is_dead(child) else None
        container.kill()
        found = find_survivors(markers, leader, container.members())
        for pid in found:
            kill(pid)
        clean = 0 if found else clean + 1
        await asyncio.sleep(_LOOK_AGAIN if found else 0)
    container.remove()
