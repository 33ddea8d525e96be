"""Deliveries: where the finished work of a run goes, and what comes back from there."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Literal

from msgspec import Struct

from segue.domain.results import Output

_TASK = re.compile(r"pr-(ci|review|conflict)-[0-9]+")


class Target(Struct, frozen=True):
    """Where the work of a run is to go."""

    base: str = ""
    """The branch it is meant for."""
    remote: str = ""
    """The address of the remote that has this branch, without passwords; empty: the user's own repository."""


class Delivered(Output, frozen=True, kw_only=True):
    """What became of the work of a run."""

    words: str = ""
    """For people: where the work is, and what to do next."""
    merged: bool = False
    """Whether the user's branch contains it."""
    kind: str = ""
    """The delivery that did it."""
    head: str = ""
    """The commit that was delivered."""
    branch: str = ""
    base: str = ""
    number: int = 0
    """The pull request; 0: there is none."""
    url: str = ""
    draft: bool = False
    label: str = ""


class FeedbackKind(StrEnum):
    """What asks for more work."""

    CI = "ci"
    REVIEW = "review"
    CONFLICT = "conflict"


class FeedbackItem(Struct, frozen=True, kw_only=True):
    """One thing that others say about delivered work, or that a machine found."""

    id: str
    """The same as long as it says the same."""
    kind: FeedbackKind
    title: str
    text: str = ""
    """The words of others: untrusted."""
    url: str = ""
    author: str = ""
    thread: str = ""
    """Where an answer goes; empty: to nobody in particular."""


class Feedback(Struct, frozen=True, kw_only=True):
    """What is known about delivered work now."""

    state: Literal["open", "merged", "closed"] = "open"
    head: str = ""
    """The commit that it is about; services need a moment until they know the newest one."""
    items: tuple[FeedbackItem, ...] = ()
    """What is to be done, the oldest first."""
    pending: tuple[str, ...] = ()
    """What is not decided yet: jobs that run, a merge that is being tried."""
    unreadable: str = ""
    """Why checks cannot be read; empty: they can."""
    ignored: tuple[str, ...] = ()
    """What does not count, and why, a sentence each."""


def feedback_kind(key: str) -> FeedbackKind | None:
    """Return what a task that came back is about; None for tasks of a source."""
    found = _TASK.fullmatch(key)
    return FeedbackKind(found[1]) if found else None


def is_feedback(key: str) -> bool:
    """Return whether a task came back from a pull request, and is not from its source."""
    return _TASK.fullmatch(key) is not None


class Handover(Struct, frozen=True, kw_only=True):
    """The finished work of a run, and the only two ways in which a delivery may move it."""

    run: str
    branch: str
    """The branch that has the work and nothing else; in the user's repository."""
    head: str
    """The commit it is at."""
    target: Target
    title: str
    text: str
    """What is known about the work, as Markdown: the proof card. Words of others in it link to nobody."""
    level: str = ""
    """The weakest level of proof of its tasks; empty: not all of them are done."""
    ready: bool = True
    """Whether everything that the run was asked for is done and proven."""
    token: str = ""
    """Names this delivery: a second try after a crash has the same one."""
    push: Callable[..., Awaitable[None]]
    """Pushes the branch to the remote under its own name, never by force; raises WorkspaceError.
    It may be given options for the server, as `git push -o` sends them."""
    merge: Callable[[], Awaitable[str]]
    """Merges the branch into the one the user is on; returns why that is not possible, or nothing."""
