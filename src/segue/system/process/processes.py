"""Run agents under a supervisor that outlives Segue, and adopt those that a killed Segue left running."""

from __future__ import annotations

import asyncio
import base64
import logging
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from segue.system.files import is_full, private_folder
from segue.system.process.capture import Captured, capture, child_environment, inside_environment
from segue.system.process.folder import (
    JobFolder,
    OutputReader,
    RunFolder,
    Stream,
    end_lost,
    end_orphans,
    patience,
)
from segue.system.process.watch import AdoptedWatch, Command, JobWatch, Link, OwnWatch

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

_MOMENT = 0.003
_SIGKILL = 9
"""Windows has no name for it."""


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
    """The agents of one run. Leaving the context ends all of them, and the supervisor."""

    def __init__(self, folder: Path | None = None, tied: bool = False) -> None:
        """Agents may be given a folder later, with `bind`.

        A supervisor that is `tied` ends its agents when this process dies; they are never adopted.
        """
        self._bound = RunFolder(folder.resolve()) if folder else None
        self._hold_fds: Sequence[int] = ()
        self._before_first: Callable[[], Awaitable[None]] | None = None
        self._tied = tied
        self._link: Link | None = None
        self._opening = asyncio.Lock()
        self._warming: asyncio.Task[Link] | None = None
        self._grace = 0.0
        self._forgotten: list[str] = []

    def bind(
        self,
        folder: Path,
        hold_fds: Sequence[int] = (),
        before_first: Callable[[], Awaitable[None]] | None = None,
    ) -> Processes:
        """Say where the supervisor keeps its files; it inherits `hold_fds`, and waits for `before_first`."""
        self._bound = RunFolder(folder.resolve())
        self._hold_fds, self._before_first = hold_fds, before_first
        return self

    @property
    def _folder(self) -> RunFolder:
        assert self._bound is not None, "a folder is bound before the first launch"
        return self._bound

    async def warm(self) -> None:
        """Begin to start the supervisor in advance; the first launch waits for it."""
        self._warming = asyncio.create_task(self._supervisor())
        await asyncio.sleep(0)  # or it would begin when this task waits for something else

    async def __aenter__(self) -> Processes:
        return self

    async def __aexit__(self, *_error: object) -> None:
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.wait({self._warming})
            if not self._warming.cancelled():
                self._warming.exception()  # retrieved, so that asyncio does not complain
        if self._link is not None:
            await self._link.close(patience(self._grace))
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
        watch: JobWatch = AdoptedWatch(job) if adopted else OwnWatch(job, await self._supervisor())
        # Never the arguments: prompts and keys may be among them.
        _log.info("job %s: %s %s", token, "adopting" if adopted else "starting", Path(command.argv[0]).name)
        self._grace = max(self._grace, command.limits.grace)
        result: dict[str, Any] | None = None
        try:
            try:
                await watch.begin(command)
            except OSError as error:
                if is_full(error):
                    raise
                result = _not_launched("not_started", f"{type(error).__name__}: {error}")
            # In a moment: an agent that ends at once must not wait for it.
            asyncio.get_running_loop().call_later(_MOMENT, self.delete_forgotten)
            with OutputReader(job) as output:
                while result is None:
                    result = await self._result(job, watch)
                    for stream, data in output.read():
                        yield Chunk(stream, data)
                        await asyncio.sleep(0)  # a long replay must not block everything else
                    if result is None and watch.taken():
                        adopted, watch = True, AdoptedWatch(job)
                    elif result is None:
                        await watch.news()
            for name, rest in result.get("unwritten", {}).items():
                yield Chunk(name, base64.b64decode(rest))
        finally:
            await watch.end()
        ended = _exit(result, adopted)
        how = f"signal {ended.signal}" if ended.signal is not None else f"exit code {ended.code}"
        reason, seconds = ended.reason or "by itself", ended.duration
        _log.info("job %s: pid %s ended: %s, %s, %.1f s", token, ended.pid, how, reason, seconds)
        yield ended

    async def _supervisor(self) -> Link:
        async with self._opening:
            if self._link is None or self._link.gone:
                if self._before_first is not None:
                    await self._before_first()
                self._link = await Link.open(self._folder, self._hold_fds, self._tied)
        return self._link

    async def _result(self, job: JobFolder, watch: JobWatch) -> dict[str, Any] | None:
        gone = watch.gone()  # first: a supervisor writes the result before it dies
        result = watch.result()
        if result is not None or not gone:
            return result
        if job.claim() is not None:
            return await end_lost(job)
        log = self._folder.path / "supervisor.log"
        return _not_launched("not_started", f"the supervisor ended before it started the agent; see {log}")

    def tell(self, token: str, number: int, line: str) -> None:
        """Have an agent at work read a line, whoever started it; the same number is never told twice.

        A job that takes no lines, or is over, leaves it unread.
        """
        self._folder.job(token).tell(number, line.encode("utf-8", "replace") + b"\n")

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


def _not_launched(reason: str, message: str) -> dict[str, Any]:
    return {
        "exit_code": None,
        "signal": None,
        "reason": reason,
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
