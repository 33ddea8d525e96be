"""What both versions of the API have in common: values and a small interface."""

from __future__ import annotations

import uuid
from enum import StrEnum

from msgspec import Struct

TURN = "turn-"
"""The names of v0's runs begin with this, because they have no ids of their own."""


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


class CloudRequest(Struct, frozen=True):
    """What to launch."""

    token: str
    prompt: str
    repository: str
    base: str = ""
    """The branch or commit to start from; empty: the default branch."""
    on_base: bool = False
    """Work on that branch instead of a new one."""
    plan: bool = False
    model: str | None = None
    name: str = ""
    auto_create_pr: bool = False


class Branch(Struct, frozen=True):
    """A branch that was pushed. Its name may be missing; the repository has no scheme."""

    repository: str
    name: str
    pr: str = ""


class RunSnapshot(Struct, frozen=True):
    """What is known about a run at one moment."""

    status: Status
    word: str
    """The status as the API calls it."""
    text: str = ""
    error: str = ""
    branches: tuple[Branch, ...] = ()
    duration: float | None = None
    age: float | None = None
    """Seconds since it was created, by the server's clock."""


def make_agent_id(token: str) -> str:
    """Return the id of the agent that a token launches; it is always the same."""
    try:
        name = uuid.UUID(hex=token)
    except ValueError:
        name = uuid.uuid5(uuid.NAMESPACE_URL, f"segue:{token}")
    return f"bc-{name}"
