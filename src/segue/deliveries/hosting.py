"""Where a repository is hosted, and what GitHub and GitLab have in common: requests, jobs, threads."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, Protocol
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from segue.domain.options import Options, Text, WebAddress
from segue.ports import Problem
from segue.system.github import ENTERPRISE_TOKENS, TOKENS, ask_gh
from segue.system.http.rest import Refused, RestWords

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
    """True if it cannot be merged because both sides changed the same lines; None: that is being tried."""
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
    """True if its author may change the repository."""


class ReviewThread(Struct, frozen=True, kw_only=True):
    """Comments that belong together."""

    id: str
    comments: tuple[ReviewComment, ...]
    path: str = ""
    line: int | None = None
    asks_for_changes: bool = False
    """True if it is the text of a review that requests changes."""


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


_SCP = re.compile(r"(?:[^@/\s]+@)?([^:/\s]+):(?!//)(.+)")
_GITHUB, _GITLAB = "github", "gitlab"
_KEYS = {"github.com": TOKENS, _GITHUB: ENTERPRISE_TOKENS, _GITLAB: ("GITLAB_TOKEN",)}
"""The variables with a token, as the services' own tools read them; one of github.com counts for it alone."""


class PullRequestOptions(Options, frozen=True):
    """The table `[deliveries.pr]`."""

    service: Literal["github", "gitlab"] | None = None
    """Where the repository is; recognised by the host of `origin` if unset."""
    api: WebAddress | None = None
    """The address of the API, for a server of your own; derived from the host of `origin` if unset."""
    project: Annotated[str, Meta(pattern="^[^/ ]+(/[^/ ]+)+$")] | None = None
    """`OWNER/NAME` of the repository; read from the address of `origin` if unset."""
    authors: tuple[Text, ...] = ()
    """Whose comments count beside those of members, by login: a review bot, for example."""


class HostedPlace(Struct, frozen=True):
    """A repository as a service knows it."""

    service: str
    host: str
    api: str
    project: str

    @property
    def owner(self) -> str:
        """Who owns it."""
        return self.project.partition("/")[0]


def read_remote(address: str) -> tuple[str, str]:
    """Return host and project of a remote's address; empty texts for a folder."""
    if "://" in address:
        parts = urlsplit(address)
        if parts.scheme == "file":
            return "", ""
        host, path = (parts.netloc.rpartition("@")[2], parts.path)
        host = host if parts.scheme.startswith("http") else host.partition(":")[0]
    elif found := _SCP.fullmatch(address):
        host, path = found[1], found[2]
    else:
        return "", ""
    return host.lower(), path.strip("/").removesuffix(".git")


def find_place(options: PullRequestOptions, remote: str) -> HostedPlace | Problem:
    """Return where the repository is hosted, or what is missing to know it."""
    host, path = read_remote(remote)
    service = options.service or _recognise(host)
    if service is None:
        return Problem(
            f"origin is {remote or 'not set'}, which is neither on GitHub nor on GitLab.",
            'Name the service in segue.toml: [deliveries.pr] service = "github" or "gitlab", api = "https://…"',
        )
    project = options.project or path
    if "/" not in project:
        return Problem(
            f"The address of origin, {remote}, does not name an owner and a repository.",
            'Set it in segue.toml: [deliveries.pr] project = "OWNER/NAME"',
        )
    if not host and options.api is None and not (service == _GITHUB and "GITHUB_API_URL" in os.environ):
        return Problem(
            f"origin is {remote}, so the address of the API is not known.",
            'Set it in segue.toml: [deliveries.pr] api = "https://…"',
        )
    return HostedPlace(service, host, (options.api or _api(service, host)).rstrip("/"), project)


def _recognise(host: str) -> str | None:
    parts = re.split(r"[.:]", host)
    return next((name for name in (_GITHUB, _GITLAB) if name in parts), None)


def _api(service: str, host: str) -> str:
    if service == _GITHUB and (set_by_user := os.environ.get("GITHUB_API_URL", "").strip()):
        return set_by_user
    if service == _GITLAB:
        return f"https://{host}/api/v4"
    if host == "github.com" or host.endswith(".ghe.com"):
        return f"https://api.{host}"
    return f"https://{host}/api/v3"


def key_names(place: HostedPlace, named: bool) -> Sequence[str]:
    """Return the variables that may have the key; `named`: a person has named the service or its API."""
    own = _KEYS[place.service]
    if place.service == _GITLAB:
        return own
    if place.host == "github.com":
        return _KEYS["github.com"]
    return (*own, *_KEYS["github.com"]) if named else own


def find_key(place: HostedPlace, named: bool, folder: Path) -> str:
    """Return the token of the environment, or the one that `gh` is logged in with; empty: none."""
    for name in key_names(place, named):
        if found := os.environ.get(name, "").strip():
            return found
    return ask_gh(place.host, folder) if place.service == _GITHUB and place.host else ""


def explain_unseen(place: HostedPlace, refused: Refused) -> Problem:
    """Say why a service does not show the repository."""
    why = "does not exist, or the token may not see it" if refused.status == 404 else refused.said
    return Problem(f"{place.project} on {place.host or place.api}: {why}.", refused.hint, 4)
