"""Segue's end of the pipes to the supervisor it started."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

from segue.domain.errors import ToolMissing
from segue.system import supervisor
from segue.system.identity import identify
from segue.system.process_folder import RunFolder

_REPLY_MAX = 1024**2


@dataclass(slots=True)
class Heard:
    """What the supervisor has said about one job so far."""

    news: asyncio.Event = field(default_factory=asyncio.Event)
    taken: bool = False
    """Another supervisor has the job already."""
    result: dict[str, Any] | None = None


class Link:
    """A running supervisor: ask it for things, and hear what becomes of the jobs."""

    def __init__(self, process: Process, name: str) -> None:
        self.name = name
        self.gone = False
        self._process = process
        self._heard: dict[str, Heard] = {}
        self._listener = asyncio.create_task(self._listen())

    @classmethod
    async def open(cls, folder: RunFolder, hold_fds: Sequence[int]) -> Link:
        """Start a supervisor for the folder."""
        if sys.platform == "win32":
            raise ToolMissing("Agents need a POSIX system to run on.", hint="Run Segue inside WSL.")
        folder.prepare()
        with (folder.path / "supervisor.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *_argv(folder.path),
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                cwd=folder.path,
                env=_environment(),
                start_new_session=True,
                pass_fds=tuple(hold_fds),
                limit=_REPLY_MAX,
            )
        name = identify(process.pid)
        # Noted before it is asked for anything: whoever comes after a killed Segue can find it.
        folder.note_supervisor(name)
        link = cls(process, name)
        await link.ask(type="hello", name=name)
        return link

    def hear(self, token: str) -> Heard:
        """Follow what is said about a job; ask for it only afterwards."""
        return self._heard.setdefault(token, Heard())

    def stop_hearing(self, token: str) -> None:
        """Forget a job that nobody follows any more."""
        self._heard.pop(token, None)

    async def ask(self, **request: Any) -> None:
        """Send a request; when the supervisor is gone, `gone` says so."""
        assert self._process.stdin
        with contextlib.suppress(ConnectionError):
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            await self._process.stdin.drain()

    async def close(self, patience: float) -> None:
        """Have it end every job and then itself; kill it when it does not obey in time."""
        await self.ask(type="quit")
        try:
            await asyncio.wait_for(asyncio.shield(self._listener), patience)
        except TimeoutError:
            self.kill()
            await self._listener

    def kill(self) -> None:
        """Kill the supervisor itself; its agents are the caller's to end."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGKILL)

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


def _argv(folder: Path) -> list[str]:
    if getattr(sys, "frozen", False):
        return [sys.executable, "--segue-supervisor", str(folder)]
    return [sys.executable, "-I", "-S", str(_script()), str(folder)]


def _script() -> Path:
    # A program given as source is compiled at every start; importing it above left a compiled copy behind.
    source = Path(supervisor.__file__)
    compiled = Path(cache_from_source(str(source)))
    current = compiled.exists() and compiled.stat().st_mtime >= source.stat().st_mtime
    return compiled if current else source


def _environment() -> dict[str, str]:
    # A frozen program unpacks itself into a folder that is deleted when Segue ends; the supervisor goes on.
    reset = {"PYINSTALLER_RESET_ENVIRONMENT": "1"} if getattr(sys, "frozen", False) else {}
    return {**os.environ, **reset, supervisor.SUPERVISOR_MARKER: secrets.token_hex(8)}
