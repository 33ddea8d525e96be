"""What both versions of Cursor's API have in common: options, statuses, runs, and what they mean."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from enum import StrEnum
from typing import Literal

from msgspec import Struct

from segue.agents.cloud.errors import DELETED, CloudService, judge_reason
from segue.agents.cloud.options import CloudAccess
from segue.agents.cloud.repository import same_repository
from segue.agents.cloud.vendor import CloudLook, CloudOrder
from segue.domain.options import Count
from segue.domain.outcome import Failure, FailureKind

KEY = "CURSOR_API_KEY"
CURSOR = CloudService("Cursor's API", "Cursor", f"{KEY} and what your plan and role allow")
_EXPIRED = "Cursor let the run expire: that is its own time limit, not one of Segue's"


class Status(StrEnum):
    """The state of a run. UNKNOWN is not the end: it is watched until its deadline."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    GONE = "gone"
    UNKNOWN = "unknown"

    @property
    def is_terminal(self) -> bool:
        """True if it will not change any more."""
        return self not in (Status.QUEUED, Status.RUNNING, Status.UNKNOWN)


_WORDS = {
    "CREATING": Status.QUEUED,
    "PENDING": Status.QUEUED,
    "QUEUED": Status.QUEUED,
    "RUNNING": Status.RUNNING,
    "FINISHED": Status.SUCCEEDED,
    "ERROR": Status.FAILED,
    "FAILED": Status.FAILED,
    "CANCELLED": Status.CANCELLED,
    "CANCELED": Status.CANCELLED,
    "STOPPED": Status.CANCELLED,
    "EXPIRED": Status.EXPIRED,
    "DELETED": Status.GONE,
}
"""The words of both API versions, and some that it may use one day."""


def parse_status(word: object) -> Status:
    """Return the status that a word means."""
    return _WORDS.get(word.strip().upper(), Status.UNKNOWN) if isinstance(word, str) else Status.UNKNOWN


class RunRef(Struct, frozen=True):
    """One run of one agent; as text it is the session."""

    agent: str
    run: str

    def __str__(self) -> str:
        return f"{self.agent}/{self.run}"

    @property
    def url(self) -> str:
        """The page for people."""
        return f"https://cursor.com/agents/{self.agent}"

    @classmethod
    def parse(cls, session: str) -> RunRef:
        """Read a session; without a run it names only the agent."""
        agent, _, run = session.partition("/")
        return cls(agent, run)


class Branch(Struct, frozen=True):
    """A branch that was pushed. Its name may be missing; the repository has no scheme."""

    repository: str
    name: str
    pr: str = ""


def make_look(
    status: Status,
    word: str,
    order: CloudOrder,
    branches: Sequence[Branch],
    *,
    text: str = "",
    error: str = "",
    reports_stops: bool = True,
    duration: float | None = None,
    age: float | None = None,
) -> CloudLook:
    """Return what is known about a run; `word` is what the API calls its status.

    `reports_stops`: a run that was stopped says so; else it may seem to have succeeded.
    """
    ours = (branch.name for branch in branches if same_repository(branch.repository, order.repository))
    return CloudLook(
        word,
        text=text,
        known=status is not Status.UNKNOWN,
        ended=status.is_terminal,
        failure=judge_end(status, error) if status.is_terminal else None,
        may_be_ours=status is Status.CANCELLED or (status is Status.SUCCEEDED and not reports_stops),
        # The agent may have pushed nothing, several branches, or elsewhere.
        branches=tuple(dict.fromkeys(filter(None, ours))),
        pulls=tuple(branch.pr for branch in branches if branch.pr),
        duration=duration,
        age=age,
    )


def judge_end(status: Status, error: str) -> Failure | None:
    """Return why a run that has ended failed; None if it succeeded."""
    match status:
        case Status.SUCCEEDED:
            return None
        case Status.EXPIRED:
            return Failure(FailureKind.TIMEOUT, _EXPIRED)
        case Status.CANCELLED:
            return Failure(FailureKind.UNKNOWN, "the cloud agent was stopped by someone else")
        case Status.GONE:
            return DELETED
        case _:
            return judge_reason(error, CURSOR)


def make_agent_id(token: str) -> str:
    """Return the id of the agent that a token launches; it is always the same."""
    try:
        name = uuid.UUID(hex=token)
    except ValueError:
        name = uuid.uuid5(uuid.NAMESPACE_URL, f"segue:{token}")
    return f"bc-{name}"


class CursorCloudOptions(CloudAccess, frozen=True):
    """The table `[agents.cursor-cloud]`."""

    base_url: str = "https://api.cursor.com"
    """The address of the API."""
    api_version: Literal["v1", "v0"] = "v1"
    """The version of the API; `v0` is the legacy one and can do less."""
    auto_create_pr: bool = False
    """Let Cursor open a pull request."""
    stream: bool = True
    """Stream runs as they work (v1 only)."""
    max_streams: Count = 20
    """Runs streamed at once; others are polled."""
