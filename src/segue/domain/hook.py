"""Hooks: what others want done before the first task of a source and after its last one."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


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
