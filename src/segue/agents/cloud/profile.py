"""A vendor as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from segue.agents.cloud.errors import CloudService
from segue.agents.cloud.launch import CloudStarter, SessionStarter
from segue.agents.cloud.options import CloudAccess
from segue.agents.cloud.values import CloudApi, CloudOrder
from segue.ports import Capabilities, Problem
from segue.system.http.client import HttpClient


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
