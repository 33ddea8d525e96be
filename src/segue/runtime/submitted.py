"""Finds out which runs of a fleet a person has submitted from a repository."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from segue.domain.errors import SegueError
from segue.domain.run import LOCAL, Run
from segue.system.git.addresses import canonical_url
from segue.system.git.repository import Repository
from segue.system.identity import person

_NEWEST = 50
"""How many runs are looked at; the newest ones come first."""


def find_submitted(path: Path, runs: Sequence[Run]) -> set[str]:
    """Return the ids of those runs that you have submitted from the repository around a path."""
    me = person()
    mine = [run for run in runs if run.spec.origin and run.spec.origin.submitter == me][:_NEWEST]
    if not mine:
        return set()
    # In a thread with a loop of its own, because the caller's thread may already run one.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _choose(path, mine)).result()


async def _choose(path: Path, runs: Sequence[Run]) -> set[str]:
    url, repo = "", None
    with suppress(SegueError):
        repo = await Repository.open(path)
        url = canonical_url(await repo.remote_url() or f"{LOCAL}{repo.root.name}")
    if repo is None or not url:
        return set()
    found = [run for run in runs if run.spec.origin and canonical_url(run.spec.origin.url) == url]
    if not url.startswith(LOCAL):
        return {run.id for run in found}
    # Another repository may be in a folder of the same name.
    commits = {run.spec.origin.commit for run in found if run.spec.origin}
    known = {commit for commit in commits if await repo.objects().has(commit)}
    return {run.id for run in found if run.spec.origin and run.spec.origin.commit in known}
