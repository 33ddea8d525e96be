"""What a repository on GitHub contains: issues, pull requests, reviews, checks, workflow runs, webhooks."""

from __future__ import annotations

import time
from typing import Any

from msgspec import Struct, field


class HubLabel(Struct):
    """A label of a repository."""

    id: int
    name: str
    color: str = "ededed"
    description: str = ""


class HubMilestone(Struct):
    """A milestone of a repository."""

    id: int
    number: int
    title: str
    description: str = ""
    state: str = "open"
    created: float = field(default_factory=time.time)


class HubComment(Struct):
    """A comment on an issue or a pull request."""

    id: int
    author: str
    body: str
    created: float = field(default_factory=time.time)
    updated: float = field(default_factory=time.time)


class HubReview(Struct):
    """One review of a pull request."""

    id: int
    author: str
    state: str
    body: str
    commit: str
    submitted: float = field(default_factory=time.time)


class HubReviewComment(Struct):
    """A comment on a line of a pull request."""

    id: int
    review: int
    author: str
    body: str
    path: str
    line: int | None
    side: str
    commit: str
    reply_to: int | None = None
    created: float = field(default_factory=time.time)
    updated: float = field(default_factory=time.time)


class HubThread(Struct):
    """A conversation about a line: its comments, oldest first."""

    id: int
    comments: list[HubReviewComment]
    resolved_by: str | None = None


class HubPull(Struct):
    """What makes an issue a pull request."""

    head: str
    base: str
    head_sha: str
    base_sha: str
    draft: bool = False
    merged_by: str | None = None
    merged_at: float | None = None
    merge_commit: str | None = None
    asked: int = 0
    """How often somebody asked whether it can be merged, since its commits last changed."""
    conflicts: bool = False
    reviews: list[HubReview] = field(default_factory=list)
    threads: list[HubThread] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)

    def decide(self) -> str | None:
        """Return what the reviewers decided, as GraphQL names it; None: nobody was asked."""
        last: dict[str, str] = {}
        for review in self.reviews:
            if review.state in ("APPROVED", "CHANGES_REQUESTED", "DISMISSED"):
                last[review.author] = review.state
        if "CHANGES_REQUESTED" in last.values():
            return "CHANGES_REQUESTED"
        if "APPROVED" in last.values():
            return "APPROVED"
        return "REVIEW_REQUIRED" if self.requested else None


class HubIssue(Struct):
    """An issue or, with `pull`, a pull request."""

    id: int
    number: int
    title: str
    body: str | None
    author: str
    labels: list[str] = field(default_factory=list)
    assignees: list[str] = field(default_factory=list)
    milestone: int | None = None
    state: str = "open"
    state_reason: str | None = None
    comments: list[HubComment] = field(default_factory=list)
    blocked_by: list[int] = field(default_factory=list)
    """Ids of issues."""
    sub_issues: list[int] = field(default_factory=list)
    parent: int | None = None
    closed_by: str | None = None
    closed_at: float | None = None
    created: float = field(default_factory=time.time)
    updated: float = field(default_factory=time.time)
    pull: HubPull | None = None
    edited: tuple[str, float] | None = None
    """Who changed its text last, and when."""
    events: list[tuple[str, str, str, float]] = field(default_factory=list)
    """What happened: the type in GraphQL, who did it, the label or title, and when."""

    def close(self, by: str, reason: str | None = None) -> None:
        """Close it."""
        self.state, self.state_reason = "closed", reason
        self.closed_by, self.closed_at = by, time.time()
        self.updated = time.time()

    def reopen(self) -> None:
        """Open it again."""
        self.state, self.state_reason = "open", "reopened"
        self.closed_by = self.closed_at = None
        self.updated = time.time()


class HubCheckRun(Struct):
    """One check of a commit."""

    id: int
    name: str
    head_sha: str
    status: str = "queued"
    conclusion: str | None = None
    details_url: str = ""
    output: dict[str, Any] = field(default_factory=dict)
    started: float = field(default_factory=time.time)
    completed: float | None = None
    job: int | None = None
    """The job of a workflow run that it shows."""


class HubStatus(Struct):
    """One status of a commit, the older way to show checks."""

    id: int
    sha: str
    context: str
    state: str
    description: str | None
    target_url: str | None
    creator: str
    created: float = field(default_factory=time.time)


class HubJob(Struct):
    """A job of a workflow run."""

    id: int
    name: str
    conclusion: str | None
    steps: list[dict[str, Any]]
    log: str = ""
    started: float = field(default_factory=time.time)

    @property
    def status(self) -> str:
        """Return whether it has ended."""
        return "completed" if self.conclusion else "in_progress"


class HubRun(Struct):
    """A workflow run of Actions."""

    id: int
    number: int
    name: str
    workflow: int
    head_sha: str
    head_branch: str
    event: str
    jobs: list[HubJob]
    attempt: int = 1
    created: float = field(default_factory=time.time)

    @property
    def is_completed(self) -> bool:
        """Return whether every job has ended."""
        return all(job.conclusion for job in self.jobs)

    @property
    def status(self) -> str:
        """Return whether it has ended."""
        return "completed" if self.is_completed else "in_progress"

    @property
    def conclusion(self) -> str | None:
        """Return how it ended; None: it has not."""
        if not self.is_completed:
            return None
        bad = [job.conclusion for job in self.jobs if job.conclusion not in ("success", "skipped", "neutral")]
        return bad[0] if bad else "success"


class HookDelivery(Struct):
    """One attempt to deliver an event to a webhook."""

    id: int
    guid: str
    event: str
    action: str | None
    payload: bytes
    status_code: int = 0
    redelivery: bool = False
    delivered: float = field(default_factory=time.time)


class HubHook(Struct):
    """A webhook of a repository."""

    id: int
    url: str
    secret: str
    events: list[str]
    active: bool = True
    deliveries: list[HookDelivery] = field(default_factory=list)
