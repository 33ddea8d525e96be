"""The connection to the supervisor that this process started."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from segue.system.identity import identify
from segue.system.process.folder import RunFolder
from segue.system.process.group import own_group
from segue.system.process.table import SUPERVISOR_MARKER
from segue.system.program import own_environment, part_command

_REPLY_MAX = 1024**2


@dataclass(slots=True)
class Heard:
    """What the supervisor has reported about one job so far."""

    news: asyncio.Event = field(default_factory=asyncio.Event)
    taken: bool = False
    """Another supervisor has the job already."""
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
        # Windows cannot inherit descriptors; docs/platforms.md says what that means for the lock.
        options = own_group(hidden=True)
        options |= {} if sys.platform == "win32" else {"pass_fds": tuple(hold_fds)}
        program, *arguments = part_command("--segue-supervisor", "segue.system.supervisor.main")
        with (folder.path / "supervisor.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                program,
                *(*arguments, str(folder.path)),
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                cwd=folder.path,
                env=own_environment({SUPERVISOR_MARKER: secrets.token_hex(8)}),
                limit=_REPLY_MAX,
                **options,
            )
        name = identify(process.pid)
        # Recorded before any request, so that it can be found if Segue is killed.
        folder.note_supervisor(name)
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
        self.gone = True
        for heard in self._heard.values():
            heard.news.set()

    def _note(self, reply: dict[str, Any]) -> None:
        heard = self._heard.get(reply["token"])
        if heard is not None:
            heard.taken = heard.taken or reply["type"] == "taken"
            heard.result = reply.get("exit")
            heard.news.set()
