"""Where a repository is on GitHub, with which token, and what is said of its pull requests: jobs, threads."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from segue.domain.options import Options, Text, WebAddress
from segue.ports import Problem
from segue.system.github import ENTERPRISE_TOKENS, TOKENS, ask_gh
from segue.system.http.rest import Refused, RestWords

WORDS = RestWords("The work is on its branch.", "api in [deliveries.pr]", "docs/guides/pull-requests.md")


class PullRequest(Struct, frozen=True, kw_only=True):
    """A pull request."""

    number: int
    url: str
    branch: str
    head: str
    """The commit that GitHub knows as its newest."""
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


_SCP = re.compile(r"(?:[^@/\s]+@)?([^:/\s]+):(?!//)(.+)")


class PullRequestOptions(Options, frozen=True):
    """The table `[deliveries.pr]`."""

    api: WebAddress | None = None
    """The address of the API, for a server of your own; derived from the host of `origin` if unset."""
    project: Annotated[str, Meta(pattern="^[^/ ]+(/[^/ ]+)+$")] | None = None
    """`OWNER/NAME` of the repository; read from the address of `origin` if unset."""
    authors: tuple[Text, ...] = ()
    """Whose comments count beside those of members, by login: a review bot, for example."""


class HostedPlace(Struct, frozen=True):
    """A repository as GitHub knows it."""

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
    known = _api(host)
    if known or not host:
        known = os.environ.get("GITHUB_API_URL", "").strip() or known
    api = options.api or known
    if not api:
        return Problem(
            f"origin is {remote or 'not set'}, which is not on GitHub.",
            'For a server of your own, set it in segue.toml: [deliveries.pr] api = "https://…/api/v3"',
        )
    project = options.project or path
    if "/" not in project:
        return Problem(
            f"The address of origin, {remote}, does not name an owner and a repository.",
            'Set it in segue.toml: [deliveries.pr] project = "OWNER/NAME"',
        )
    return HostedPlace(host, api.rstrip("/"), project)


def _api(host: str) -> str:
    """Return where the API of a host is that calls itself GitHub; empty for another one."""
    if host == "github.com" or host.endswith(".ghe.com"):
        return f"https://api.{host}"
    return f"https://{host}/api/v3" if "github" in re.split(r"[.:]", host) else ""


def key_names(place: HostedPlace, named: bool) -> Sequence[str]:
    """Return the variables that may have the key; `named`: a person has named the API.

    One of github.com counts for it alone.
    """
    if place.host == "github.com":
        return TOKENS
    return (*ENTERPRISE_TOKENS, *TOKENS) if named else ENTERPRISE_TOKENS


def find_key(place: HostedPlace, named: bool, folder: Path) -> str:
    """Return the token of the environment, or the one that `gh` is logged in with; empty: none."""
    for name in key_names(place, named):
        if found := os.environ.get(name, "").strip():
            return found
    return ask_gh(place.host, folder) if place.host else ""


def explain_unseen(place: HostedPlace, refused: Refused) -> Problem:
    """Say why GitHub does not show the repository."""
    why = "does not exist, or the token may not see it" if refused.status == 404 else refused.said
    return Problem(f"{place.project} on {place.host or place.api}: {why}.", refused.hint, 4)
