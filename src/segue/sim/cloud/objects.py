"""Agents and their runs as the simulator keeps them, and as v1 and v0 show them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from segue.sim.cloud.feed import TERMINAL, Feed
from segue.sim.cloud.remote import Remote
from segue.sim.cloud.switches import Play

NO_USAGE = {
    "inputTokens": 0,
    "outputTokens": 0,
    "cacheWriteTokens": 0,
    "cacheReadTokens": 0,
    "totalTokens": 0,
}


@dataclass(slots=True)
class Checkout:
    """A repository an agent works in."""

    url: str
    remote: Remote
    ref: str | None
    branch: str
    new_branch: bool
    """Whether the branch is its own and must not be there before its first push."""
    base: str | None
    asked: dict[str, Any]
    pushed: list[str | None] = field(default_factory=list)
    """Branches as they are reported; None for one that is reported without its name."""
    pr: str | None = None

    def branches(self) -> list[dict[str, Any]]:
        """What was pushed, as the API reports it."""
        found = []
        for name in self.pushed:
            entry = {"repoUrl": self.url} | ({"branch": name} if name else {})
            found.append(entry | ({"prUrl": self.pr} if self.pr and name == self.branch else {}))
        return found


@dataclass(slots=True)
class Webhook:
    """Who wants to be told when a run ends."""

    url: str
    secret: str | None


@dataclass(slots=True)
class Run:
    """One turn of an agent."""

    id: str
    number: int
    prompt: str
    play: Play
    feed: Feed
    created: float = field(default_factory=time.time)
    updated: float = field(default_factory=time.time)
    result: str | None = None
    error: Any = None
    duration_ms: int | None = None
    usage: dict[str, int] = field(default_factory=lambda: dict(NO_USAGE))
    cost: dict[str, float] | None = None
    released: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def status(self) -> str:
        """Where it stands."""
        return self.feed.status

    @property
    def active(self) -> bool:
        """Whether it has not ended."""
        return self.status not in TERMINAL

    def shown(self, agent: Agent) -> dict[str, Any]:
        """The run as v1 shows it."""
        facts: dict[str, Any] = {
            "id": self.id,
            "agentId": agent.id,
            "status": self.status,
            "createdAt": stamp(self.created),
            "updatedAt": stamp(self.updated),
            "durationMs": self.duration_ms,
            "result": self.result,
            "error": self.error,
            "git": agent.git(),
        }
        return _present(facts)


@dataclass(slots=True)
class Agent:
    """An agent with everything it was asked and has made."""

    id: str
    number: int
    name: str
    request: dict[str, Any]
    """The fields of its creation that are shown again."""
    checkouts: list[Checkout]
    webhook: Webhook | None = None
    auto_pr: bool = False
    created: float = field(default_factory=time.time)
    updated: float = field(default_factory=time.time)
    archived: bool = False
    deleted: bool = False
    stopped: bool = False
    runs: list[Run] = field(default_factory=list)
    messages: list[dict[str, str]] = field(default_factory=list)
    artifacts: dict[str, tuple[bytes, float]] = field(default_factory=dict)

    @property
    def latest(self) -> Run:
        """Its newest run."""
        return self.runs[-1]

    @property
    def url(self) -> str:
        """Its page."""
        return f"https://cursor.com/agents/{self.id}"

    def git(self) -> dict[str, Any] | None:
        """What it has pushed so far: the same on all its runs, None while there is nothing."""
        branches = [entry for checkout in self.checkouts for entry in checkout.branches()]
        return {"branches": branches} if branches else None

    def summary(self) -> dict[str, Any]:
        """The agent in a list of v1."""
        return {
            "id": self.id,
            "name": self.name,
            # It says nothing about runs: it is ACTIVE long after they have ended.
            "status": "ARCHIVED" if self.archived else "ACTIVE",
            "env": self.request.get("env") or {"type": "cloud"},
            "url": self.url,
            "createdAt": stamp(self.created),
            "updatedAt": stamp(self.updated),
        }

    def shown(self) -> dict[str, Any]:
        """The agent as v1 shows it."""
        asked = ("workOnCurrentBranch", "autoCreatePR", "skipReviewerRequest", "metadata")
        facts = self.summary() | {name: self.request.get(name) for name in asked}
        facts["repos"] = [checkout.asked for checkout in self.checkouts] or None
        facts["latestRunId"] = self.latest.id
        return _present(facts)

    def shown_v0(self, stopped_status: str) -> dict[str, Any]:
        """The agent as v0 shows it."""
        run = self.latest
        facts = {
            "id": self.id,
            "name": self.name,
            "status": stopped_status if run.status == "CANCELLED" else run.status,
            "source": self.source(),
            "target": self._target(),
            "summary": run.result,
            "createdAt": stamp(self.created),
        }
        return _present(facts)

    def source(self) -> dict[str, Any]:
        """Where it works, in the words of v0."""
        if not self.checkouts:
            return {}
        first = self.checkouts[0]
        return _present({"repository": f"https://{first.url}", "ref": first.ref})

    def _target(self) -> dict[str, Any]:
        pushed = self.checkouts[0].branches() if self.checkouts else []
        newest = pushed[0] if pushed else {}
        facts = {
            "branchName": newest.get("branch"),
            "url": self.url,
            "prUrl": newest.get("prUrl"),
            "autoCreatePr": self.auto_pr,
            "openAsCursorGithubApp": bool(self.request.get("openAsCursorGithubApp")),
            "skipReviewerRequest": bool(self.request.get("skipReviewerRequest")),
        }
        return _present(facts)


def stamp(instant: float) -> str:
    """An instant as the API writes it."""
    return datetime.fromtimestamp(instant, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _present(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}
