"""Run agents under supervisors that outlive Segue, and adopt those that a killed Segue left running.

Segue only watches files: what a supervisor writes is the same, whichever process started it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shutil
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from segue.domain.job import Limits
from segue.system.files import is_full, private_folder
from segue.system.identity import me
from segue.system.process.capture import (
    Captured,
    capture,
    child_environment,
    inside_environment,
    note_program,
)
from segue.system.process.folder import (
    JobFolder,
    OutputReader,
    RunFolder,
    Stream,
    end_job,
    end_lost,
    end_orphans,
)
from segue.system.process.group import own_group
from segue.system.process.segue import own_environment, part_command
from segue.system.sandbox.policy import Places
from segue.system.supervisor.main import REFUSED

_log = logging.getLogger(__name__)

__all__ = [
    "Captured",
    "Chunk",
    "Command",
    "Exit",
    "Processes",
    "capture",
    "child_environment",
    "end_orphans",
    "inside_environment",
]

_POLL = 0.03
_MOMENT = 0.003
_SIGKILL = 9
"""Windows has no name for it."""


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


class Chunk(Struct, frozen=True):
    """A piece of the program's output."""

    stream: Stream
    data: bytes


class Exit(Struct, frozen=True):
    """How the program ended. `reason` is None if it ended by itself; see `supervisor/main.py`."""

    code: int | None
    signal: int | None
    reason: str | None
    message: str
    duration: float
    adopted: bool
    pid: int | None


class Processes:
    """The agents of one run. Leaving the context ends all of them, and their supervisors."""

    def __init__(self, folder: Path | None = None, tied: bool = False) -> None:
        """Agents may be given a folder later, with `bind`.

        Supervisors that are `tied` end their agents when this process dies; they are never adopted.
        """
        self._bound = RunFolder(folder.resolve()) if folder else None
        self._hold_fds: Sequence[int] = ()
        self._before_first: Callable[[], Awaitable[None]] | None = None
        self._tied_to = me() if tied else None
        self._spare: asyncio.Task[Process] | None = None
        self._forgotten: list[str] = []

    def bind(
        self,
        folder: Path,
        hold_fds: Sequence[int] = (),
        before_first: Callable[[], Awaitable[None]] | None = None,
    ) -> Processes:
        """Say where supervisors keep their files; they inherit `hold_fds`, and wait for `before_first`."""
        self._bound = RunFolder(folder.resolve())
        self._hold_fds, self._before_first = hold_fds, before_first
        return self

    @property
    def _folder(self) -> RunFolder:
        assert self._bound is not None, "a folder is bound before the first launch"
        return self._bound

    async def warm(self) -> None:
        """Begin to start a supervisor in advance; the next launch waits for it."""
        if self._spare is None:
            self._spare = asyncio.create_task(self._open())
            await asyncio.sleep(0)  # or it would begin when this task waits for something else

    async def __aenter__(self) -> Processes:
        return self

    async def __aexit__(self, *_error: object) -> None:
        if self._spare is not None:
            self._spare.cancel()
            await asyncio.wait({self._spare})
            if not self._spare.cancelled() and self._spare.exception() is None:
                spare = self._spare.result()
                assert spare.stdin
                spare.stdin.close()  # it ends, for there is no job for it
                await spare.wait()
        self.delete_forgotten()
        await end_orphans(self._folder.path)

    async def run(self, token: str, command: Command) -> AsyncIterator[Chunk | Exit]:
        """Run the command, or adopt it if it was started under this token before; the last item is the Exit.

        Closing the iterator early ends the agent with all its children.
        """
        if token in self._forgotten:
            self.delete_forgotten()
        job = self._folder.job(token)
        adopted = job.claim() is not None
        # Never the arguments: prompts and keys may be among them.
        _log.info("job %s: %s %s", token, "adopting" if adopted else "starting", Path(command.argv[0]).name)
        result: dict[str, Any] | None = None
        supervisor: Process | None = None
        try:
            try:
                supervisor = None if adopted else await self._start(job, command)
            except OSError as error:
                if is_full(error):
                    raise
                result = _not_launched(f"{type(error).__name__}: {error}")
            # In a moment: an agent that ends at once must not wait for it.
            asyncio.get_running_loop().call_later(_MOMENT, self.delete_forgotten)
            with OutputReader(job) as output:
                while result is None:
                    result = await self._result(job, supervisor)
                    for stream, data in output.read():
                        yield Chunk(stream, data)
                        await asyncio.sleep(0)  # a long replay must not block everything else
                    if result is None:
                        await _wait(supervisor)
                        adopted = adopted or _is_taken(job, supervisor)
        finally:
            await self._end(job, supervisor, result)
        ended = _exit(result, adopted)
        how = f"signal {ended.signal}" if ended.signal is not None else f"exit code {ended.code}"
        reason, seconds = ended.reason or "by itself", ended.duration
        _log.info("job %s: pid %s ended: %s, %s, %.1f s", token, ended.pid, how, reason, seconds)
        yield ended

    async def _start(self, job: JobFolder, command: Command) -> Process:
        """Give the job to a supervisor, and begin to start the one for the next job."""
        note_program()
        job.prepare(command.stdin)
        limits = command.limits
        request = {
            "token": job.path.name,
            "folder": str(job.path),
            "argv": command.argv,
            "cwd": str(command.cwd),
            "env": dict(command.env),
            "wall": limits.wall,
            "idle": limits.idle,
            "grace": limits.grace,
            "output_bytes": limits.output_bytes,
            "layers": command.layers,
            "tied_to": self._tied_to,
        }
        spare, self._spare = self._spare, None
        supervisor = await (spare or self._open())
        assert supervisor.stdin
        with contextlib.suppress(ConnectionError):
            supervisor.stdin.write(json.dumps(request).encode() + b"\n")
            await supervisor.stdin.drain()
        supervisor.stdin.close()
        asyncio.get_running_loop().call_later(_POLL, self._prepare_next)
        return supervisor

    def _prepare_next(self) -> None:
        if self._spare is None:
            self._spare = asyncio.create_task(self._open())

    async def _open(self) -> Process:
        """Start a supervisor, which waits for its job."""
        if self._before_first is not None:
            await self._before_first()
            self._before_first = None
        folder = self._folder.path
        (folder / "jobs").mkdir(mode=0o700, parents=True, exist_ok=True)
        # Windows cannot inherit descriptors; `docs/guides/installing.md` says what that means for the lock.
        options = own_group(hidden=True) | ({} if os.name == "nt" else {"pass_fds": tuple(self._hold_fds)})
        with (folder / "supervisor.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *part_command("segue.system.supervisor.main"),
                stdin=PIPE,
                stdout=DEVNULL,
                stderr=log,
                cwd=folder,
                env=own_environment(),
                **options,
            )

    async def _result(self, job: JobFolder, supervisor: Process | None) -> dict[str, Any] | None:
        # First: a supervisor writes the result before it dies.
        gone = job.supervisor() is None and (supervisor is None or supervisor.returncode is not None)
        result = job.result()
        if result is not None or not gone:
            return result
        if job.claim() is not None:
            return await end_lost(job)
        code = (supervisor.returncode if supervisor else None) or 0
        if code > REFUSED:
            raise OSError(code - REFUSED, os.strerror(code - REFUSED), str(job.path))
        log = self._folder.path / "supervisor.log"
        return _not_launched(f"the supervisor ended before it started the agent; see {log}")

    async def _end(self, job: JobFolder, supervisor: Process | None, result: dict[str, Any] | None) -> None:
        """End the job unless it has ended, and let its supervisor finish."""
        if result is None:
            while supervisor is not None and supervisor.returncode is None and job.claim() is None:
                await _wait(supervisor)
            if job.is_running():
                await end_job(job)
        if supervisor is not None:
            await supervisor.wait()

    def printed(self, token: str) -> Iterator[tuple[Stream, bytes]]:
        """Yield the raw output of a job so far, secrets included."""
        with OutputReader(self._folder.job(token)) as output:
            yield from output.read()

    def scratch(self, token: str, create: bool = True) -> Path:
        """Return a private folder for files of a job; it is deleted with the job."""
        folder = self._folder.job(token).path / "scratch"
        return private_folder(folder) if create else folder

    def shared(self, name: str) -> Path:
        """Return a private folder that launches of an agent share; it lasts as long as the run's."""
        return private_folder(self._folder.path / "agents" / name)

    def knows(self, token: str) -> bool:
        """Return whether a job was begun on this machine."""
        return self._folder.job(token).path.exists()

    def forget(self, token: str) -> None:
        """Delete the files of a job, once its outcome is stored elsewhere: while the next agent works."""
        self._forgotten.append(token)

    def delete_forgotten(self) -> None:
        """Delete the files of forgotten jobs now, where no next agent may come."""
        while self._forgotten:
            shutil.rmtree(self._folder.job(self._forgotten.pop()).path, ignore_errors=True)


async def _wait(supervisor: Process | None) -> None:
    """Wait a moment; not so long if a supervisor of our own ends."""
    if supervisor is None or supervisor.returncode is not None:
        await asyncio.sleep(_POLL)
        return
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(supervisor.wait(), _POLL)


def _is_taken(job: JobFolder, supervisor: Process | None) -> bool:
    """Return whether a supervisor of another Segue was faster than ours."""
    return supervisor is not None and supervisor.returncode == 0 and job.is_running()


def _not_launched(message: str) -> dict[str, Any]:
    return {
        "exit_code": None,
        "signal": None,
        "reason": "not_started",
        "message": message,
        "duration": 0.0,
        "pid": None,
    }


def _exit(result: Mapping[str, Any], adopted: bool) -> Exit:
    # It was killed together with Segue: that says nothing about the agent.
    killed = adopted and result["reason"] is None and result["signal"] == _SIGKILL
    return Exit(
        code=result["exit_code"],
        signal=result["signal"],
        reason="lost" if killed else result["reason"],
        message="it was killed together with Segue" if killed else result["message"],
        duration=result["duration"],
        adopted=adopted,
        pid=result["pid"],
    )
