"""Hooks: what others want done around the tasks of a source, and what git's own say before a commit."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from segue.domain.proof import CheckResult


class HookTime(StrEnum):
    """When a hook is due."""

    BEFORE = "before"
    AFTER = "after"


class SourceHook(Struct, frozen=True):
    """One hook that a source names."""

    name: str
    """What it is called by, such as `speckit.git.commit`."""
    when: HookTime
    required: bool
    about: str = ""
    """Who asks for it and why, in words."""


class HookedFile(Struct, frozen=True):
    """A file as a hook of git has left it."""

    data: bytes
    mode: int


class HookRun(Struct, frozen=True):
    """What a repository's own hooks say about a commit before it is made."""

    result: CheckResult
    message: str = ""
    """The message as they have left it; empty: they refused it."""
    files: Mapping[str, HookedFile | None] = {}
    """What they changed, by path; None: they removed it."""
