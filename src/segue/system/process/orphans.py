"""End what a dead Segue or a dead supervisor left running."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any

from segue.system.identity import is_dead, pid_of
from segue.system.process.container import Container
from segue.system.process.folder import JobFolder, RunFolder
from segue.system.process.group import kill, portable, terminate
from segue.system.process.table import JOB_MARKER, SUPERVISOR_MARKER, find_survivors

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
