"""The launch rule: the key is stored before the POST, and nothing is launched that may exist already.

No vendor here takes an id of ours. So after a crash, or an answer that does not say whether a session was
launched, the sessions are listed and the one with our key is adopted; only when a second look after a delay
still finds none is the POST repeated.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from segue.agents.cloud.errors import CloudError, CloudService
from segue.agents.cloud.options import CloudAccess, CloudOptions
from segue.agents.cloud.vendor import CloudApi, CloudOrder, CloudSession, CloudVendor
from segue.agents.local.values import as_text, parse_object
from segue.domain.errors import CredentialsError
from segue.ports import Capabilities, Problem
from segue.system.files import write_atomic
from segue.system.http.client import HttpClient

Found = TypeVar("Found")

_NOTE = "launch.json"
_POSTS = 3
_MARGIN = 600.0
"""Seconds by which the vendor's clock may differ from ours."""
_LONG_AGO = 7 * 86_400.0
"""How far back to look for a launch that another machine may have made."""


class LaunchNote(Struct, frozen=True):
    """What is stored about a launch before each of its requests."""

    at: float
    session: str = ""
    """The session, once the vendor has named it."""
    saying: bool = False
    """True if the message may have been sent."""

    @classmethod
    def read(cls, folder: Path) -> LaunchNote | None:
        """Return what is stored; None if nothing was requested from this machine."""
        try:
            found = parse_object((folder / _NOTE).read_text("utf-8"))
        except OSError:
            return None
        if found is None:
            return cls(time.time())
        at = found.get("at")
        known = at if isinstance(at, int | float) else time.time()
        return cls(known, as_text(found.get("session")), found.get("saying") is True)

    def write(self, folder: Path) -> None:
        """Store it durably."""
        facts = {"at": self.at, "session": self.session, "saying": self.saying}
        write_atomic(folder / _NOTE, json.dumps(facts).encode())


class StartedSession(Struct, frozen=True):
    """The session that does the job; `adopted` if an earlier attempt had started it."""

    session: CloudSession
    adopted: bool
    continued: bool = False
    """True if it has worked on other orders before, which it shows again."""


class CloudStarter(Protocol):
    """Starts what one order asks for, or finds what an earlier attempt has started."""

    async def start(self, session: str | None) -> StartedSession:
        """Launch a session, or continue the one that exists."""

    async def find(self, session: str | None, deadline: float) -> CloudSession | None:
        """Return what was started by a request whose answer nobody waited for, if anything was."""

    def may_start_again(self, error: CloudError) -> bool:
        """Return whether trying again cannot start a second session."""


class SessionStarter(Struct, frozen=True):
    """Starts sessions of vendors that take no id of ours."""

    vendor: CloudVendor
    order: CloudOrder
    scratch: Callable[[], Path]
    """Returns the folder where the note is kept until the outcome is stored."""
    deadline: float
    options: CloudOptions

    async def start(self, session: str | None) -> StartedSession:
        """Launch a session, or send another message to the one that exists."""
        if session is None:
            return await self._launch(self.order)
        return await self._continue(CloudSession.parse(session))

    async def _continue(self, session: CloudSession) -> StartedSession:
        try:
            adopted = await self._say(session.id)
        except CloudError as error:
            if not error.gone:
                raise
            # What it has pushed is still there for the next session.
            return await self._launch(replace(self.order, base=session.branch or self.order.base))
        return StartedSession(session, adopted, continued=True)

    async def find(self, session: str | None, deadline: float) -> CloudSession | None:  # noqa: ARG002
        """Return the session of a launch that nobody waits for any more, if there was one."""
        note = LaunchNote.read(self.scratch())
        if note is None:
            return None
        found = note.session or await self.vendor.find(self.order, note.at - _MARGIN, deadline)
        return CloudSession(found, self.order.branch) if found else None

    def may_start_again(self, error: CloudError) -> bool:  # noqa: ARG002
        """Return True: the first session is looked for before."""
        return True

    async def _launch(self, order: CloudOrder) -> StartedSession:
        folder = self.scratch()
        note = LaunchNote.read(folder)
        if note is None:
            # Another machine may have launched it: that was long enough ago for every list.
            found = await self._find(time.time() - _LONG_AGO)
            note = LaunchNote(time.time())
        else:
            found = note.session or await self._look_twice(partial(self._find, note.at - _MARGIN))
        adopted = bool(found)
        if not found:
            found, adopted = await self._post(order, note, folder)
        replace(note, session=found).write(folder)
        if self.vendor.starts_idle:
            adopted = await self._say(found) or adopted
        return StartedSession(CloudSession(found, order.branch), adopted)

    async def _post(self, order: CloudOrder, note: LaunchNote, folder: Path) -> tuple[str, bool]:
        """Return a new session, and whether it is one whose launch was not answered."""
        for left in reversed(range(_POSTS)):
            note.write(folder)
            try:
                return await self.vendor.create(order, self.deadline), False
            except CloudError as error:
                if not error.unsure:
                    raise
                if found := await self._look_twice(partial(self._find, note.at - _MARGIN)):
                    return found, True
                if not left:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _find(self, since: float) -> str | None:
        return await self.vendor.find(self.order, since, self.deadline)

    async def _say(self, session: str) -> bool:
        """Send the message unless the session has it; return whether it had."""
        folder = self.scratch()
        note = LaunchNote.read(folder) or LaunchNote(time.time())

        async def look() -> bool:
            return await self.vendor.has_message(session, self.order.key, self.deadline)

        if await (self._look_twice(look) if note.saying else self._patiently(look)):
            return True
        replace(note, session=session, saying=True).write(folder)
        for left in reversed(range(_POSTS)):
            try:
                await self._patiently(lambda: self.vendor.say(session, self.order, self.deadline))
                return False
            except CloudError as error:
                if not error.unsure:
                    raise
                if await self._look_twice(look):
                    return True
                if not left:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _look_twice(self, look: Callable[[], Awaitable[Found]]) -> Found:
        """Return what is found now or, because lists lag behind, after a delay."""
        if found := await self._patiently(look):
            return found
        await asyncio.sleep(self._within(self.options.search_delay))
        return await self._patiently(look)

    async def _patiently(self, do: Callable[[], Awaitable[Found]]) -> Found:
        """Do something with a session that may have been created too recently to be found.

        Another refusal proves as little: whoever made the session may use it.
        """
        for part in (0.1, 0.9):
            try:
                return await do()
            except CloudError as error:
                if error.unsure or error.away or error.limited:
                    raise
            await asyncio.sleep(self._within(self.options.search_delay * part))
        return await do()

    def _within(self, seconds: float) -> float:
        return min(seconds, max(0.0, self.deadline - asyncio.get_running_loop().time()))


class CloudProfile(Struct, frozen=True):
    """A vendor as data: its names, what it can do, and how to reach it."""

    name: str
    """The agent's name."""
    service: CloudService
    keys: tuple[str, ...]
    """The environment variables that may contain the key; the first one that is set counts."""
    can: Capabilities
    headers: Callable[[str], Mapping[str, str]]
    connect: Callable[[HttpClient, Any], CloudApi]
    """Makes the vendor's API for one job from the connection and the options."""
    where: str
    """Where people get a key."""
    options: type[CloudAccess]
    check: Callable[[Any], list[Problem]] = lambda _options: []
    """Returns what the options lack."""
    starter: Callable[[Any, CloudOrder, Callable[[], Path], float, Any], CloudStarter] = SessionStarter
    """Makes what launches an order, from the API, the order, its folder, the deadline and the options."""
    streams: Callable[[Any], int] = lambda _options: 0
    """Returns how many streams may be open at once."""
    silence_is_hang: bool = False
    """The stream of an agent at work is never silent for long."""
    names_branches: bool = False
    """The vendor names every branch that was pushed; else the remote is asked."""
    pushes: bool = False
    """The agent itself must push the branch that the prompt names; else the platform does."""
    takes_model: bool = False
    mode_hint: str = ""
    """What helps if the agent has no plan mode."""

    def read_key(self) -> tuple[str, str]:
        """Return the variable with the key, and the key; it may be empty."""
        found = {name: os.environ.get(name, "").strip() for name in self.keys}
        name = next((name for name, key in found.items() if key), self.keys[0])
        return name, found[name]

    def check_key(self) -> list[Problem]:
        """Return a problem if there is no key, or none that can be sent."""
        name, key = self.read_key()
        if key and key.isascii() and key.isprintable() and " " not in key:
            return []
        what = f"{name} has characters that no key has." if key else f"{' or '.join(self.keys)} is not set."
        fix = f"Create a key at {self.where} and set {name}."
        return [Problem(what, fix, CredentialsError.exit_code)]
