"""How a launch is started or found again, and the service as data."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from msgspec import Struct

from segue.agents.cloud.errors import CloudError, CloudService
from segue.agents.cloud.options import CloudAccess
from segue.agents.cloud.vendor import CloudApi, CloudOrder, CloudSession
from segue.domain.errors import CredentialsError
from segue.ports import Capabilities, Problem
from segue.system.http.client import HttpClient


class StartedSession(Struct, frozen=True):
    """The session that does the job; `adopted` if an earlier attempt had started it."""

    session: CloudSession
    adopted: bool


class CloudStarter(Protocol):
    """Starts what one order asks for, or finds what an earlier attempt has started."""

    async def start(self, session: str | None) -> StartedSession:
        """Launch a session, or continue the one that exists."""

    async def find(self, session: str | None, deadline: float) -> CloudSession | None:
        """Return what was started by a request whose answer nobody waited for, if anything was."""

    def may_start_again(self, error: CloudError) -> bool:
        """Return whether trying again cannot start a second session."""


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
    starter: Callable[[Any, CloudOrder, float, Any], CloudStarter]
    """Makes what launches an order, from the API, the order, the deadline and the options."""
    streams: Callable[[Any], int] = lambda _options: 0
    """Returns how many streams may be open at once."""
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
