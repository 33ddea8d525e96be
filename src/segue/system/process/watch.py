"""Two ways to watch a job: run by our own supervisor, or by an earlier one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from segue.domain.job import Limits
from segue.system.identity import is_dead
from segue.system.process.folder import JobFolder, RunFolder
from segue.system.process.link import Link
from segue.system.process.orphans import end_lost, end_supervisors, patience

_POLL = 0.05


@dataclass(frozen=True, slots=True)
class Command:
    """A program to run, without a shell, with its whole input."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    stdin: bytes
    limits: Limits


class JobWatch(Protocol):
    """Follows a job."""

    async def begin(self, command: Command) -> None:
        """Start the job, unless it was started before."""

    async def news(self) -> None:
        """Wait until there may be something new."""

    def gone(self) -> bool:
        """Return whether the supervisor of the job is dead."""

    def taken(self) -> bool:
        """Return whether an earlier supervisor already runs the job."""

    def result(self) -> dict[str, Any] | None:
        """Return how the job ended; None while it runs."""

    async def end(self) -> None:
        """End the agent with all its children, unless it has ended."""


class OwnWatch:
    """Watches a job of the supervisor that this process started, which reports news."""

    def __init__(self, job: JobFolder, link: Link) -> None:
        self._job = job
        self._token = job.path.name
        self._link = link
        self._heard = link.hear(self._token)
        self._grace: float | None = None

    async def begin(self, command: Command) -> None:
        """Ask the supervisor to start the job."""
        self._job.prepare(command.stdin)
        limits = command.limits
        self._grace = limits.grace
        await self._link.ask(
            type="start",
            token=self._token,
            argv=command.argv,
            cwd=str(command.cwd),
            env=dict(command.env),
            wall=limits.wall,
            idle=limits.idle,
            grace=limits.grace,
            output_bytes=limits.output_bytes,
        )

    async def news(self) -> None:
        """Wait for the supervisor to report something about the job."""
        await self._heard.news.wait()
        self._heard.news.clear()

    def gone(self) -> bool:
        """Return whether the supervisor is dead."""
        return self._link.gone

    def taken(self) -> bool:
        """Return whether an earlier supervisor already runs the job."""
        return self._heard.taken

    def result(self) -> dict[str, Any] | None:
        """Return what the supervisor reported, or wrote before it died."""
        return self._heard.result or (self._job.result() if self._link.gone else None)

    async def end(self) -> None:
        """Have the supervisor end the agent; kill both if that takes too long."""
        if self._grace is not None and self.result() is None and not self._link.gone:
            await self._link.ask(type="end", token=self._token)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wait_for_end(), patience(self._grace))
        await self._make_sure()
        self._link.stop_hearing(self._token)

    async def _wait_for_end(self) -> None:
        while self.result() is None and not self._link.gone and not self._heard.taken:
            await self.news()

    async def _make_sure(self) -> None:
        if self._grace is None or self.result() is not None:
            return
        if self._heard.taken:
            await AdoptedWatch(self._job).end()
            return
        self._link.kill()
        while not self._link.gone:
            await self.news()
        if self._job.claim() is not None and self.result() is None:
            await end_lost(self._job)


class AdoptedWatch:
    """Watches a job of an earlier supervisor through its files; its pipes are gone."""

    def __init__(self, job: JobFolder) -> None:
        self._job = job
        self._run = RunFolder(job.path.parent.parent)

    async def begin(self, command: Command) -> None:
        """Do nothing: the job was started before."""

    async def news(self) -> None:
        """Wait a moment."""
        await asyncio.sleep(_POLL)

    def gone(self) -> bool:
        """Return whether the supervisor is dead; an unnamed one may be any living one of the run."""
        return all(is_dead(name) for name in self._supervisors())

    def taken(self) -> bool:
        """Return False: this is the supervisor that runs the job."""
        return False

    def result(self) -> dict[str, Any] | None:
        """Return what the supervisor wrote at the end."""
        return self._job.result()

    async def end(self) -> None:
        """Have the supervisor end its jobs and quit; kill both if that takes too long."""
        if self.result() is not None:
            return
        grace = (self._job.claim() or {}).get("grace", 0.0)
        await end_supervisors(self._run, self._supervisors(), grace)
        if self.result() is None:
            await end_lost(self._job)

    def _supervisors(self) -> list[str]:
        name = (self._job.claim() or {}).get("supervisor")
        return [name] if name else self._run.living_supervisors()
