"""The connection to our supervisor, and two ways to watch a job: run by it, or by an earlier one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from segue.domain.job import Limits
from segue.system.identity import SUPERVISOR_MARKER, identify, is_dead
from segue.system.isolation.policy import Places
from segue.system.process.capture import note_program
from segue.system.process.folder import JobFolder, RunFolder, end_lost, end_supervisors, patience
from segue.system.process.group import own_group
from segue.system.process.segue import own_environment, part_command

_log = logging.getLogger(__name__)

_REPLY_MAX = 1024**2


class Heard(Struct):
    """What the supervisor has reported about one job so far."""

    news: asyncio.Event = field(default_factory=asyncio.Event)
    taken: bool = False
    """Another supervisor has the job already."""
    refused: int | None = None
    """The number of the error for which nobody was started: the notes of the job could not be written."""
    result: dict[str, Any] | None = None


class Link:
    """A running supervisor: send it requests, and follow its jobs."""

    def __init__(self, process: Process, name: str) -> None:
        self.name = name
        self.gone = False
        self._process = process
        self._heard: dict[str, Heard] = {}
        self._listener = asyncio.create_task(self._listen())

    @classmethod
    async def open(cls, folder: RunFolder, hold_fds: Sequence[int], tied: bool = False) -> Link:
        """Start a supervisor for the folder."""
        folder.prepare()
        process = await _start_program(folder.path, hold_fds)
        name = identify(process.pid)
        # Recorded before any request, so that it can be found if Segue is killed.
        folder.note_supervisor(name)
        _log.info("supervisor started, pid %d", process.pid)
        link = cls(process, name)
        await link.ask(type="hello", name=name, tied=tied)
        return link

    def hear(self, token: str) -> Heard:
        """Follow what is reported about a job; call this before requesting it."""
        return self._heard.setdefault(token, Heard())

    def stop_hearing(self, token: str) -> None:
        """Stop following a job."""
        self._heard.pop(token, None)

    async def ask(self, **request: Any) -> None:
        """Send a request; if the supervisor is gone, `gone` is set."""
        assert self._process.stdin
        with contextlib.suppress(ConnectionError):
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            await self._process.stdin.drain()

    async def close(self, patience: float) -> None:
        """Have it end every job and quit; kill it if that takes too long."""
        await self.ask(type="quit")
        try:
            await asyncio.wait_for(asyncio.shield(self._listener), patience)
        except TimeoutError:
            self.kill()
            await self._listener

    def kill(self) -> None:
        """Kill the supervisor itself; the caller must end its agents."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def _listen(self) -> None:
        assert self._process.stdout
        while line := await self._process.stdout.readline():
            self._note(json.loads(line))
        if self._process.stdin:
            self._process.stdin.close()
        await self._process.wait()
        _log.info("supervisor ended, pid %d", self._process.pid)
        self.gone = True
        for heard in self._heard.values():
            heard.news.set()

    def _note(self, reply: dict[str, Any]) -> None:
        heard = self._heard.get(reply["token"])
        if heard is not None:
            heard.taken = heard.taken or reply["type"] == "taken"
            heard.refused = reply.get("errno")
            heard.result = reply.get("exit")
            heard.news.set()


async def _start_program(folder: Path, hold_fds: Sequence[int]) -> Process:
    # Windows cannot inherit descriptors; `docs/guides/installing.md` says what that means for the lock.
    options = own_group(hidden=True)
    options |= {} if sys.platform == "win32" else {"pass_fds": tuple(hold_fds)}
    program, *arguments = part_command("segue.system.supervisor.main")
    with (folder / "supervisor.log").open("ab") as log:
        return await asyncio.create_subprocess_exec(
            program,
            *arguments,
            str(folder),
            stdin=PIPE,
            stdout=PIPE,
            stderr=log,
            cwd=folder,
            env=own_environment({SUPERVISOR_MARKER: secrets.token_hex(8)}),
            limit=_REPLY_MAX,
            **options,
        )


_POLL = 0.05


class Command(Struct, frozen=True):
    """A program to run, without a shell, with its whole input."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    stdin: bytes
    limits: Limits
    own: Places = Places()
    """What it needs beside the work tree, in a sandbox."""
    layers: int = 0
    """How many processes of a sandbox are above the program."""
    turn_end: str = ""
    """What it prints when it has done what it was told: then it is told more, or its stdin is closed.

    Empty: it is told nothing while it works.
    """


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
        note_program()
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
            layers=command.layers,
            turn_end=command.turn_end,
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
        if self._heard.refused is not None:
            self._grace = None  # there is nobody to end
            raise OSError(self._heard.refused, os.strerror(self._heard.refused), str(self._job.path))
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


JobWatch = OwnWatch | AdoptedWatch
