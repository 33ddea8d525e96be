"""Agents and their runs, as the simulator stores them and as v1 and v0 describe them."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct, field

from segue.parts.sim.cloud.feed import TERMINAL, Feed
from segue.parts.sim.cloud.remote import Remote
from segue.parts.sim.cloud.requests import WebhookBodyV0
from segue.parts.sim.cloud.script import AgentPlay, CloudEntry

NO_USAGE = {
    "inputTokens": 0,
    "outputTokens": 0,
    "cacheWriteTokens": 0,
    "cacheReadTokens": 0,
    "totalTokens": 0,
}


class Checkout(Struct):
    """A repository an agent works in."""

    url: str
    remote: Remote
    ref: str | None
    branch: str
    new_branch: bool
    """True if the branch is the agent's own and must not exist before its first push."""
    base: str | None
    request: dict[str, Any]
    pushed: list[str | None] = field(default_factory=list)
    """The reported branches; None for one that is reported without its name."""
    pr: str | None = None

    def list_branches(self) -> list[dict[str, Any]]:
        """List what was pushed, as the API reports it."""
        found = []
        for name in self.pushed:
            entry = {"repoUrl": self.url} | ({"branch": name} if name else {})
            found.append(entry | ({"prUrl": self.pr} if self.pr and name == self.branch else {}))
        return found


class CloudRunRecord(Struct):
    """One turn of an agent."""

    id: str
    number: int
    prompt: str
    play: AgentPlay[CloudEntry]
    feed: Feed
    plans: bool = False
    """True if it was started in plan mode: it writes a plan, and neither files nor commits."""
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
        """Its status."""
        return self.feed.status

    @property
    def is_active(self) -> bool:
        """True if it has not ended."""
        return self.status not in TERMINAL

    def describe(self, agent: CloudAgentRecord) -> dict[str, Any]:
        """Describe the run as v1 does."""
        facts: dict[str, Any] = {
            "id": self.id,
            "agentId": agent.id,
            "status": self.status,
            "createdAt": format_time(self.created),
            "updatedAt": format_time(self.updated),
            "durationMs": self.duration_ms,
            "result": self.result,
            "error": self.error,
            "git": agent.describe_git(),
        }
        return drop_missing(facts)


class CloudAgentRecord(Struct):
    """An agent with its requests and results."""

    id: str
    number: int
    name: str
    request: dict[str, Any]
    """The body of the request that created it, of which some fields are shown again."""
    checkouts: list[Checkout]
    webhook: WebhookBodyV0 | None = None
    auto_pr: bool = False
    created: float = field(default_factory=time.time)
    updated: float = field(default_factory=time.time)
    archived: bool = False
    deleted: bool = False
    stopped: bool = False
    runs: list[CloudRunRecord] = field(default_factory=list)
    messages: list[dict[str, str]] = field(default_factory=list)
    artifacts: dict[str, tuple[bytes, float]] = field(default_factory=dict)

    @property
    def latest(self) -> CloudRunRecord:
        """Its newest run."""
        return self.runs[-1]

    @property
    def url(self) -> str:
        """Its page."""
        return f"https://cursor.com/agents/{self.id}"

    def describe_git(self) -> dict[str, Any] | None:
        """Describe what it has pushed so far: the same for all its runs, None if there is nothing."""
        branches = [entry for checkout in self.checkouts for entry in checkout.list_branches()]
        return {"branches": branches} if branches else None

    def summarize(self) -> dict[str, Any]:
        """Describe the agent as v1 does in a list."""
        return {
            "id": self.id,
            "name": self.name,
            # This says nothing about runs: an agent is ACTIVE long after they have ended.
            "status": "ARCHIVED" if self.archived else "ACTIVE",
            "env": self.request.get("env") or {"type": "cloud"},
            "url": self.url,
            "createdAt": format_time(self.created),
            "updatedAt": format_time(self.updated),
        }

    def describe(self) -> dict[str, Any]:
        """Describe the agent as v1 does."""
        names = ("workOnCurrentBranch", "autoCreatePR", "skipReviewerRequest", "metadata")
        facts = self.summarize() | {name: self.request.get(name) for name in names}
        facts["repos"] = [checkout.request for checkout in self.checkouts] or None
        facts["latestRunId"] = self.latest.id
        return drop_missing(facts)

    def describe_v0(self, stopped_status: str) -> dict[str, Any]:
        """Describe the agent as v0 does."""
        run = self.latest
        facts = {
            "id": self.id,
            "name": self.name,
            "status": stopped_status if run.status == "CANCELLED" else run.status,
            "source": self.describe_source(),
            "target": self._describe_target(),
            "summary": run.result,
            "createdAt": format_time(self.created),
        }
        return drop_missing(facts)

    def describe_source(self) -> dict[str, Any]:
        """Describe where it works, as v0 does."""
        if not self.checkouts:
            return {}
        first = self.checkouts[0]
        return drop_missing({"repository": f"https://{first.url}", "ref": first.ref})

    def _describe_target(self) -> dict[str, Any]:
        pushed = self.checkouts[0].list_branches() if self.checkouts else []
        newest = pushed[0] if pushed else {}
        facts = {
            "branchName": newest.get("branch"),
            "url": self.url,
            "prUrl": newest.get("prUrl"),
            "autoCreatePr": self.auto_pr,
            "openAsCursorGithubApp": bool(self.request.get("openAsCursorGithubApp")),
            "skipReviewerRequest": bool(self.request.get("skipReviewerRequest")),
        }
        return drop_missing(facts)


def format_time(instant: float) -> str:
    """Format an instant as the API does."""
    return datetime.fromtimestamp(instant, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def drop_missing(facts: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is unset, as the API does."""
    return {name: value for name, value in facts.items() if value is not None}
