"""What both generations of the API are to the agent: a few words and a small interface."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from segue.agents.cursor_cloud.sse import Frame
from segue.agents.cursor_cloud.status import Status

TURN = "turn-"
"""How v0's runs are called, which have no ids of their own."""


@dataclass(frozen=True, slots=True)
class Place:
    """One run of one agent: what is watched, and what a session remembers."""

    agent: str
    run: str

    def __str__(self) -> str:
        return f"{self.agent}/{self.run}"

    @property
    def url(self) -> str:
        """The page where people see it."""
        return f"https://cursor.com/agents/{self.agent}"

    @classmethod
    def parse(cls, session: str) -> Place:
        """The place that a session names; without a run it names the agent alone."""
        agent, _, run = session.partition("/")
        return cls(agent, run)


@dataclass(frozen=True, slots=True)
class Order:
    """A launch."""

    token: str
    prompt: str
    repository: str
    ref: str = ""
    """The branch or commit to start from; empty: the default branch."""
    on_ref: bool = False
    """Work on that branch itself instead of on a new one."""
    plan: bool = False
    model: str | None = None
    name: str = ""
    auto_create_pr: bool = False


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch that was pushed; the name may be missing, and the repository's scheme is."""

    repository: str
    name: str
    pr: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """What is known of a run at one instant."""

    status: Status
    word: str
    """The status in the API's own word."""
    text: str = ""
    error: str = ""
    branches: tuple[Branch, ...] = ()
    duration: float | None = None
    age: float | None = None
    """Seconds since it was created, by the server's own clock."""


@dataclass(frozen=True, slots=True)
class Used:
    """Tokens and money of one run. `cents` is None when the API does not say."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cents: float | None = None

    @property
    def nothing(self) -> bool:
        """Whether it was not counted yet."""
        return not (self.input_tokens or self.output_tokens or self.cents)


class CloudApi(Protocol):
    """One generation of the API. Everything raises CloudError; deadlines are the event loop's instants."""

    @property
    def mints_ids(self) -> bool:
        """Whether we choose an agent's id, so that a second launch is refused."""

    @property
    def streams(self) -> bool:
        """Whether runs can be followed as they work."""

    @property
    def tells_cancelled(self) -> bool:
        """Whether a run that was cancelled says so afterwards."""

    def owns(self, place: Place) -> bool:
        """Whether a session's place was named by this generation of the API."""

    async def launch(self, order: Order, deadline: float) -> Place:
        """Launch an agent."""

    async def find(self, token: str, deadline: float) -> Place | None:
        """The agent that was launched with this token; None when there is none."""

    async def latest(self, agent: str, deadline: float) -> Place:
        """The newest run of an agent."""

    async def follow_up(self, last: Place, order: Order, deadline: float) -> Place:
        """Send another prompt to an agent whose newest run is `last`."""

    async def get(self, place: Place, deadline: float) -> View:
        """Where a run stands."""

    def stream(self, place: Place, last_id: str | None, silence: float) -> AsyncGenerator[Frame, None]:
        """What a run says, from after the id; ends when the run has, or raises."""

    async def cancel(self, place: Place, deadline: float) -> bool:
        """End a run; False when it had ended already."""

    async def usage(self, place: Place, deadline: float) -> Used | None:
        """What a run has used; None when this generation of the API does not say."""


def minted_id(token: str) -> str:
    """The id of the agent that a token launches: always the same one."""
    try:
        name = uuid.UUID(hex=token)
    except ValueError:
        name = uuid.uuid5(uuid.NAMESPACE_URL, f"segue:{token}")
    return f"bc-{name}"
