"""Keeps the folder of a worker small: no runs that are done or moved on, not too many mirrors."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Collection
from pathlib import Path

from segue.domain.errors import Locked
from segue.fleet.drive import clones_in, place_of, places_in
from segue.fleet.register import Register
from segue.system.lock import RepoLock
from segue.system.process.orphans import end_orphans


async def tidy(
    state_dir: Path, register: Register, machine: str, at_work: Collection[str], cache: float
) -> None:
    """Remove what is not needed any more; `cache` is how many bytes mirrors may take."""
    kept = {place.name for place in places_in(state_dir)} - set(at_work)
    needed = await asyncio.to_thread(register.needed_at, machine, kept)
    for run in sorted(kept - needed):
        await _remove(state_dir, run)
    await clones_in(state_dir).trim(int(cache))


async def _remove(state_dir: Path, run: str) -> None:
    """Remove a run, and end the agents that it left when another machine took it over."""
    place = place_of(state_dir, run)
    try:
        lock = RepoLock.take(place, run)
    except Locked:  # it has just come back
        return
    try:
        await end_orphans(place / "runs" / run)
        clones_in(state_dir).forget(place / "repo")
        await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)
    finally:
        lock.release()
