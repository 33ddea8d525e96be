"""The state of a running GitHub simulator: repositories, people, ids, and what is under way."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import json
import secrets
import time
import uuid
import zlib
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import httpx2
from msgspec import Struct, field

from segue.parts.sim.github.objects import (
    HookDelivery,
    HubCheckRun,
    HubComment,
    HubHook,
    HubIssue,
    HubLabel,
    HubMilestone,
    HubRun,
    HubStatus,
)
from segue.parts.sim.github.repository import BareBranches
from segue.parts.sim.github.script import GithubRepo, GithubScript
from segue.sim.services import ScriptPlayer


class HubRepo(Struct):
    """A repository."""

    id: int
    owner: str
    name: str
    private: bool
    default_branch: str
    branches: dict[str, str]
    """Branch = commit id, as last seen."""
    bare: BareBranches | None = None
    collaborators: list[str] = field(default_factory=list)
    labels: list[HubLabel] = field(default_factory=list)
    milestones: list[HubMilestone] = field(default_factory=list)
    issues: dict[int, HubIssue] = field(default_factory=dict)
    """By number; pull requests are issues, too."""
    checks: list[HubCheckRun] = field(default_factory=list)
    statuses: list[HubStatus] = field(default_factory=list)
    runs: list[HubRun] = field(default_factory=list)
    hooks: list[HubHook] = field(default_factory=list)
    created: float = field(default_factory=time.time)

    @property
    def full_name(self) -> str:
        """Its owner and name."""
        return f"{self.owner}/{self.name}"

    @property
    def pulls(self) -> list[HubIssue]:
        """Its pull requests, oldest first."""
        return [issue for issue in self.issues.values() if issue.pull is not None]

    def associate(self, login: str) -> str:
        """Return what a person is to the repository."""
        if login == self.owner:
            return "OWNER"
        return "COLLABORATOR" if login in self.collaborators else "CONTRIBUTOR"

    def find_label(self, name: str) -> HubLabel | None:
        """Return a label by its name, whose case does not count."""
        return next((label for label in self.labels if label.name.lower() == name.lower()), None)

    def latest_checks(self, sha: str) -> list[HubCheckRun]:
        """Return the newest check of each name."""
        newest = {check.name: check for check in self.checks if check.head_sha == sha}
        return list(newest.values())

    def latest_statuses(self, sha: str) -> list[HubStatus]:
        """Return the newest status of each context."""
        newest = {status.context: status for status in self.statuses if status.sha == sha}
        return list(newest.values())

    def combine_checks(self, sha: str) -> str | None:
        """Return the state of all checks and statuses together, as GraphQL names it; None: there is none."""
        states = [status.state.upper() for status in self.latest_statuses(sha)]
        for check in self.latest_checks(sha):
            if check.conclusion is None:
                states.append("PENDING")
            else:
                good = check.conclusion in ("success", "neutral", "skipped")
                states.append("SUCCESS" if good else "FAILURE")
        for state in ("ERROR", "FAILURE", "PENDING"):
            if state in states:
                return "FAILURE" if state == "ERROR" else state
        return "SUCCESS" if states else None


class LogLink(Struct, frozen=True):
    """A log that can be downloaded until its link expires."""

    data: bytes
    kind: str
    expires: float


class Hub(ScriptPlayer[GithubScript]):
    """The state of one simulator, in one event loop."""

    def __init__(self, script: GithubScript | None, bares: Mapping[str, Path] | None) -> None:
        """`bares` maps `OWNER/NAME` to bare repositories."""
        self.repos: dict[str, HubRepo] = {}
        """By `owner/name` in lower case."""
        self.links: dict[str, LogLink] = {}
        self.unknown_fields: list[str] = []
        """Fields that a GraphQL query asked for and the simulator does not know."""
        self._ids = itertools.count(1001)
        self._tasks: set[asyncio.Task[None]] = set()
        self._client: httpx2.AsyncClient | None = None
        super().__init__(GithubScript, script)
        for name, bare in (bares or {}).items():
            known = self.repos.get(name.lower())
            if known is not None:
                known.bare = BareBranches(bare)
            else:
                self.add_repo(name, GithubRepo(bare=bare))

    def play(self, script: GithubScript) -> None:
        """Play another script: its repositories replace those of the same names."""
        super().play(script)
        for name, repo in script.repos.items():
            self.add_repo(name, repo)

    def new_id(self) -> int:
        """Return an id that nothing else has."""
        return next(self._ids)

    def add_repo(self, full_name: str, wanted: GithubRepo) -> HubRepo:
        """Add a repository with what the script says is in it."""
        owner, _, name = full_name.partition("/")
        repo = HubRepo(
            self.new_id(), owner, name, wanted.private, wanted.default_branch, dict(wanted.branches)
        )
        if wanted.bare is not None:
            repo.bare = BareBranches(wanted.bare)
        repo.collaborators = list(wanted.collaborators)
        repo.labels = [HubLabel(self.new_id(), label) for label in wanted.labels]
        repo.milestones = [
            HubMilestone(self.new_id(), number, title) for number, title in enumerate(wanted.milestones, 1)
        ]
        for facts in wanted.issues:
            self._add_scripted(repo, facts)
        for issue, facts in zip(list(repo.issues.values()), wanted.issues, strict=True):
            issue.blocked_by = [repo.issues[number].id for number in facts.get("blocked_by", [])]
            for number in facts.get("sub_issues", []):
                issue.sub_issues.append(repo.issues[number].id)
                repo.issues[number].parent = issue.id
        self.repos[full_name.lower()] = repo
        return repo

    def _add_scripted(self, repo: HubRepo, facts: Mapping[str, Any]) -> None:
        issue = self.add_issue(repo, facts.get("user", "octocat"), facts["title"], facts.get("body"))
        issue.labels = self.ensure_labels(repo, facts.get("labels", []))
        issue.events = [("LabeledEvent", repo.owner, name, issue.created) for name in issue.labels]
        issue.milestone = next(
            (known.number for known in repo.milestones if known.title == facts.get("milestone")), None
        )
        issue.comments = [
            HubComment(self.new_id(), "octocat", text)
            if isinstance(text, str)
            else HubComment(self.new_id(), text["user"], text["body"])
            for text in facts.get("comments", [])
        ]
        if facts.get("state") == "closed":
            issue.close(issue.author, "completed")

    def add_issue(self, repo: HubRepo, author: str, title: str, body: str | None) -> HubIssue:
        """Add an issue with the next number."""
        number = max(repo.issues, default=0) + 1
        issue = repo.issues[number] = HubIssue(self.new_id(), number, title, body, author)
        return issue

    def ensure_labels(self, repo: HubRepo, names: list[str]) -> list[str]:
        """Return the labels as the repository writes them; unknown ones are added."""
        found = []
        for name in names:
            label = repo.find_label(name)
            if label is None:
                label = HubLabel(self.new_id(), name)
                repo.labels.append(label)
            if label.name not in found:
                found.append(label.name)
        return found

    def find_issue(self, issue_id: int) -> tuple[HubRepo, HubIssue] | None:
        """Return an issue of any repository by its id."""
        return next(
            (
                (repo, issue)
                for repo in self.repos.values()
                for issue in repo.issues.values()
                if issue.id == issue_id
            ),
            None,
        )

    async def refresh(self, repo: HubRepo) -> None:
        """Look at the branches of the bare repository: pushes move pull requests."""
        if repo.bare is not None:
            repo.branches = await repo.bare.read()
            repo.default_branch = await repo.bare.find_default() or repo.default_branch
        for issue in repo.pulls:
            pull = issue.pull
            assert pull is not None
            if issue.state != "open":
                continue
            if repo.bare is not None and pull.head not in repo.branches:
                issue.close(repo.owner, None)  # deleting the branch closes it
                self.announce(repo, "pull_request", "closed", {"number": issue.number})
                continue
            head = repo.branches.get(pull.head, pull.head_sha)
            base = repo.branches.get(pull.base, pull.base_sha)
            if (head, base) == (pull.head_sha, pull.base_sha):
                continue
            pushed, pull.asked = head != pull.head_sha, 0
            pull.head_sha, pull.base_sha = head, base
            if repo.bare is not None:
                pull.conflicts = not await repo.bare.can_merge(base, head)
            if pushed:
                issue.updated = time.time()
                self.announce(repo, "pull_request", "synchronize", {"number": issue.number})

    def offer(self, data: bytes, kind: str) -> str:
        """Make a log available for a minute; returns the token of its link."""
        token = secrets.token_urlsafe(16)
        self.links[token] = LogLink(data, kind, time.time() + self.script.log_seconds)
        return token

    def announce(
        self,
        repo: HubRepo,
        event: str,
        action: str | None,
        payload: Mapping[str, Any] | Callable[[], Mapping[str, Any]],
    ) -> None:
        """Send an event to the webhooks that want it."""
        for hook in repo.hooks:
            if hook.active and ("*" in hook.events or event in hook.events):
                facts = payload() if callable(payload) else payload
                body = {
                    **({"action": action} if action else {}),
                    **facts,
                    "repository": {"id": repo.id, "full_name": repo.full_name, "name": repo.name},
                }
                sent = HookDelivery(
                    self.new_id(), str(uuid.uuid4()), event, action, json.dumps(body).encode()
                )
                self.deliver(hook, sent)

    def deliver(self, hook: HubHook, delivery: HookDelivery) -> None:
        """Deliver in the background."""
        hook.deliveries.insert(0, delivery)
        self.start(self._post(hook, delivery))

    async def _post(self, hook: HubHook, delivery: HookDelivery) -> None:
        headers = {
            "content-type": "application/json",
            "user-agent": f"GitHub-Hookshot/{zlib.crc32(hook.url.encode()):08x}"[:23],
            "x-github-event": delivery.event,
            "x-github-delivery": delivery.guid,
            "x-github-hook-id": str(hook.id),
        }
        if hook.secret:
            signed = hmac.new(hook.secret.encode(), delivery.payload, hashlib.sha256).hexdigest()
            headers["x-hub-signature-256"] = f"sha256={signed}"
        if self._client is None:
            self._client = httpx2.AsyncClient(timeout=self.script.hook_seconds, trust_env=False)
        try:
            answer = await self._client.post(hook.url, content=delivery.payload, headers=headers)
            delivery.status_code = answer.status_code
        except httpx2.HTTPError:
            delivery.status_code = 502

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something in the background."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Stop what is under way."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()
