"""What a cloud agent is asked, what is seen of it, and what both versions of the API provide."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from enum import Enum, auto
from typing import Any, Protocol

from msgspec import Struct

from segue.agents.cloud.errors import CloudError
from segue.agents.cloud.transcript import Transcript
from segue.domain.events import AgentUsage, Event
from segue.domain.outcome import Failure

TURN = "turn-"
"""The names of the runs of Cursor's API v0 begin with this, because they have no ids of their own."""
_KEY_CHARS = 24
_BRANCH_CHARS = 12


class CloudOrder(Struct, frozen=True):
    """One message for a cloud agent: its launch, or a follow-up."""

    token: str
    """The step's token."""
    key: str
    """Made from the step's token: the vendor shows it to us again, so the launch is found after a crash."""
    prompt: str
    """Ends with the mark of the key, where the launch is found by it."""
    repository: str
    base: str = ""
    """The branch or commit to start from; empty: the default branch."""
    on_base: bool = False
    """Work on that branch instead of a new one."""
    branch: str = ""
    """The branch that the agent is asked to push."""
    model: str | None = None
    title: str = ""
    plan: bool = False
    """Change nothing."""


class CloudSession(Struct, frozen=True):
    """An agent and its run; as text it is the session of an outcome."""

    id: str
    """`bc-…/run-…`."""

    def split(self) -> tuple[str, str]:
        """Return the vendor's own ids of the agent and its run; only Cursor's API v1 has runs."""
        agent, _, run = self.id.partition("/")
        return agent, "" if run.startswith(TURN) else run


class CloudLook(Struct, frozen=True):
    """What is known about a session at one moment. What it has said is in the transcript."""

    word: str
    """Its state, as the vendor calls it."""
    text: str = ""
    """What it said last, where the vendor keeps that."""
    known: bool = True
    """False for a word that nobody has documented: the session is watched until its deadline."""
    ended: bool = False
    failure: Failure | None = None
    """Why it ended badly."""
    may_be_ours: bool = True
    """False if it ended in a way that no stop of ours explains."""
    branches: tuple[str, ...] = ()
    """The branches that the vendor itself names."""
    pulls: tuple[str, ...] = ()
    """The addresses of its pull requests."""
    age: float | None = None
    """Seconds since it was created, by the server's clock."""
    duration: float | None = None


class CloudSign(Enum):
    """What an event of a stream means for the watch."""

    NOTHING = auto()
    """The connection is alive, no more."""
    WORK = auto()
    """The agent has said or done something."""
    STATE = auto()
    """The session's state may be new."""


class CloudApi(Protocol):
    """The API of one vendor for one job, as far as its work is watched; subclass it.

    Everything raises CloudError; deadlines are times of the event loop.
    """

    async def look(self, session: str, order: CloudOrder, seen: Transcript, deadline: float) -> CloudLook:
        """Look how the order is getting on, and add what is new to the transcript."""

    def page(self, session: str) -> str:
        """Return the page for people, as far as it is known."""

    async def stop(self, session: str, deadline: float) -> None:  # noqa: ARG002
        """Stop a session; an error if it had already ended."""
        raise CloudError("unsupported", "a session cannot be stopped", status=400)

    def stream(self, session: str, silence: float) -> AsyncGenerator[Any, None]:  # noqa: ARG002
        """Yield events as they come; a None first if only the history has what was said before."""
        raise CloudError("unsupported", "there is no stream", status=404)

    def read(self, event: Any, seen: Transcript) -> CloudSign:  # noqa: ARG002
        """Add an event of the stream to the transcript."""
        return CloudSign.NOTHING

    def may_say_more(self) -> bool:
        """Return whether the stream of a session that has ended still has something to say."""
        return False

    def close(self, seen: Transcript) -> list[Event]:
        """Return what was kept back until the end."""
        return seen.close()

    async def usage(self, session: str, deadline: float) -> AgentUsage | None:  # noqa: ARG002
        """Return what the order alone has used, where the vendor counts that."""
        return None


def make_key(token: str) -> str:
    """Return the key of a launch; it is always the same for a token."""
    return f"segue-{token[:_KEY_CHARS]}"


def make_branch(token: str) -> str:
    """Return the branch that a launch is asked to push."""
    return f"segue/{token[:_BRANCH_CHARS]}"
