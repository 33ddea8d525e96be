"""What a cloud agent is asked, what is seen of it, and what every vendor's file provides."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Protocol

from msgspec import Struct

from segue.agents.cloud.errors import CloudError, CloudService
from segue.agents.cloud.options import CloudOptions
from segue.agents.cloud.transcript import Transcript
from segue.agents.local.values import Json
from segue.domain.events import AgentUsage
from segue.domain.failure import Failure
from segue.ports import Capabilities, Problem
from segue.system.http.client import HttpClient

_KEY_CHARS = 24
_BRANCH_CHARS = 12


class CloudOrder(Struct, frozen=True):
    """One message for a cloud agent: its launch, or a follow-up."""

    key: str
    """Made from the step's token: the vendor shows it to us again, so the launch is found after a crash."""
    prompt: str
    """Ends with the mark of the key."""
    repository: str
    base: str = ""
    """The branch to start from; empty: the default branch."""
    branch: str = ""
    """The branch that the agent is asked to push."""
    model: str | None = None
    title: str = ""


class CloudSession(Struct, frozen=True):
    """A vendor's session and the branch it was asked to push; as text it is the session of an outcome."""

    id: str
    branch: str = ""

    def __str__(self) -> str:
        return f"{self.id}/{self.branch}" if self.branch else self.id

    @classmethod
    def parse(cls, text: str) -> CloudSession:
        """Read the session of an outcome."""
        name, _, branch = text.partition("/")
        return cls(name, branch)


class CloudLook(Struct, frozen=True):
    """What is known about a session at one moment. What it has said is in the transcript."""

    word: str
    """Its state, as the vendor calls it."""
    known: bool = True
    """False for a word that nobody has documented: the session is watched until its deadline."""
    ended: bool = False
    failure: Failure | None = None
    """Why it ended badly."""
    works_on: bool = False
    """It has failed for us but would continue, so it must be stopped."""
    branches: tuple[str, ...] = ()
    """The branches that the vendor itself names."""
    pulls: tuple[str, ...] = ()
    """The addresses of its pull requests."""
    age: float | None = None
    usage: AgentUsage | None = None
    """The total of the session."""
    facts: Mapping[str, Any] = {}


class CloudVendor(Protocol):
    """The API of one vendor; subclass it and define what has no default.

    Everything raises CloudError; deadlines are times of the event loop.
    """

    starts_idle: bool = False
    """True if a new session does nothing before its first message; otherwise the launch contains it."""

    async def create(self, order: CloudOrder, deadline: float) -> str:
        """Launch a session and return its id: one POST, never repeated when it may have been executed."""

    async def find(self, order: CloudOrder, since: float, deadline: float) -> str | None:
        """Return the session that was launched with the order's key since then, if the vendor shows one."""

    async def look(self, session: str, key: str, seen: Transcript, deadline: float) -> CloudLook:
        """Look how the message with this key is getting on, and add what is new to the transcript."""

    def page(self, session: str) -> str:
        """Return the page for people, as far as it is known."""

    async def has_message(self, session: str, key: str, deadline: float) -> bool:  # noqa: ARG002
        """Return whether the session has got the message with this key."""
        raise CloudError("unsupported", "a session cannot be continued", status=400)

    async def say(self, session: str, order: CloudOrder, deadline: float) -> None:  # noqa: ARG002
        """Send a message to a session, once."""
        raise CloudError("unsupported", "a session cannot be continued", status=400)

    async def stop(self, session: str, deadline: float) -> None:  # noqa: ARG002
        """Stop a session."""
        raise CloudError("unsupported", "a session cannot be stopped", status=400)

    def stream(
        self,
        session: str,  # noqa: ARG002
        silence: float,  # noqa: ARG002
    ) -> AsyncGenerator[Json | None, None] | None:
        """Yield events as they come, after a None that says the stream is open; None: there is no stream."""
        return None

    def read(self, event: Json, seen: Transcript) -> bool:  # noqa: ARG002
        """Add an event of the stream to the transcript; return whether the session's state may be new."""
        return False


class CloudProfile(Struct, frozen=True):
    """A vendor as data: its names, what it can do, and how to reach it."""

    name: str
    """The agent's name."""
    service: CloudService
    keys: tuple[str, ...]
    """The environment variables that may contain the key; the first one that is set counts."""
    can: Capabilities
    headers: Callable[[str], Mapping[str, str]]
    connect: Callable[[HttpClient, Any], CloudVendor]
    """Makes the vendor from a connection and the options."""
    where: str
    """Where people get a key."""
    check: Callable[[Any], list[Problem]] = lambda _options: []
    """Returns what the options lack."""
    pushes: bool = False
    """The agent itself must push the branch that the prompt names; else the platform does."""
    takes_model: bool = False
    options: type[CloudOptions] = CloudOptions


def split_address(repository: str) -> tuple[str, str]:
    """Return owner and name of a repository on GitHub; raises CloudError for any other."""
    host, _, path = repository.removeprefix("https://").partition("/")
    owner, _, name = path.partition("/")
    if host != "github.com" or not owner or not name or "/" in name:
        raise CloudError("validation_error", f"{repository} is not on GitHub", status=400)
    return owner, name


def make_key(token: str) -> str:
    """Return the key of a launch; it is always the same for a token."""
    return f"segue-{token[:_KEY_CHARS]}"


def make_branch(token: str) -> str:
    """Return the branch that a launch is asked to push."""
    return f"segue/{token[:_BRANCH_CHARS]}"
