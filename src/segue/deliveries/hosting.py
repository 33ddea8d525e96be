"""What GitHub and GitLab have in common: pull requests, the jobs of a commit, and threads of comments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

from segue.ports import Problem
from segue.system.http.rest import RestWords

WORDS = RestWords("The work is on its branch.", "api in [deliveries.pr]", "segue help pull-requests")


class PullRequest(Struct, frozen=True, kw_only=True):
    """A pull request, or a merge request as GitLab calls it."""

    number: int
    url: str
    branch: str
    head: str
    """The commit that the service knows as its newest."""
    base: str
    state: Literal["open", "merged", "closed"]
    draft: bool
    title: str
    body: str
    labels: tuple[str, ...] = ()
    conflicts: bool | None = None
    """Whether it cannot be merged because both sides changed the same lines; None: that is being tried."""
    node: str = ""
    """Its name in GitHub's GraphQL."""


class FailedJob(Struct, frozen=True, kw_only=True):
    """A job of CI that failed, or another check."""

    name: str
    url: str = ""
    log: str = ""
    """What it printed or reported; untrusted, of any length."""


class CiReport(Struct, frozen=True, kw_only=True):
    """What CI says about a commit."""

    failed: tuple[FailedJob, ...] = ()
    pending: tuple[str, ...] = ()
    unreadable: str = ""
    """Why a part of it could not be read; that is not the same as nothing."""


class ReviewComment(Struct, frozen=True, kw_only=True):
    """One comment of a thread; untrusted."""

    id: str
    author: str
    text: str
    url: str = ""
    member: bool = False
    """Whether its author may change the repository."""


class ReviewThread(Struct, frozen=True, kw_only=True):
    """Comments that belong together."""

    id: str
    comments: tuple[ReviewComment, ...]
    path: str = ""
    line: int | None = None
    asks_for_changes: bool = False
    """Whether it is the text of a review that requests changes."""


class Hosting(Protocol):
    """One repository on one service."""

    @property
    def service(self) -> str:
        """How people call it."""

    @property
    def sign(self) -> str:
        """What is written before the number of a pull request."""

    async def check(self) -> list[Problem]:
        """Return what keeps us from opening pull requests there."""

    async def find(self, branch: str) -> list[PullRequest]:
        """Return the pull requests from a branch, in any state, the newest first."""

    async def read(self, number: int) -> PullRequest:
        """Return a pull request, with what is known about conflicts."""

    async def open(self, branch: str, base: str, title: str, body: str, draft: bool) -> PullRequest:
        """Open one; raises Refused, also when there is one already."""

    async def rewrite(self, request: PullRequest, body: str) -> None:
        """Replace its text."""

    async def make_ready(self, request: PullRequest) -> None:
        """Turn a draft into one that may be merged."""

    async def relabel(self, request: PullRequest, add: Sequence[str], remove: Sequence[str]) -> None:
        """Change its labels; one that does not exist yet is made."""

    async def jobs(self, request: PullRequest) -> CiReport:
        """Return what CI says about its newest commit."""

    async def threads(self, request: PullRequest) -> list[ReviewThread]:
        """Return the threads that are not resolved, the oldest first."""

    async def reply(self, request: PullRequest, thread: str, text: str, mark: str) -> None:
        """Answer in a thread, once per mark; where the service lets us, the thread is resolved."""
