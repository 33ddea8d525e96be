"""What the GitHub simulator can be asked to do: people, repositories, limits, and what goes wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from segue.domain.options import NonNegative, NonNegativeFloat, Options, Text
from segue.sim.services import RequestFault

FAULTS: dict[str, str] = {
    "primary_limit": "403 with no requests remaining, and the reset time",
    "secondary_limit": "403 with `retry-after`",
    "bad_gateway": "502 with a page for people",
    "unauthorized": "401, bad credentials",
    "forbidden": "403, the token lacks a permission",
    "not_found": "404",
    "reset": "the connection is cut before anything is done",
    "reset_after": "the request is served, and the connection is cut before the answer",
    "slow": "the answer takes `delay` seconds",
}
Permission = Literal["read", "write"]


class GithubToken(Options, frozen=True):
    """A token: whose it is, and what it may do."""

    login: Text
    """whose token it is"""
    permissions: Mapping[str, Permission] | None = None
    """what it may do, such as `issues = "write"`; without: everything"""
    repos: Sequence[str] | None = None
    """the repositories it can see; without: all"""


class GithubFault(RequestFault, frozen=True):
    """Something that goes wrong with requests."""

    known = FAULTS

    delay: NonNegativeFloat = 0.0
    """seconds before the answer"""
    retry_after: NonNegative = 1
    """seconds to wait that a limit asks for"""


class GithubRepo(Options, frozen=True):
    """A repository, and what is in it at the beginning."""

    bare: Path | None = None
    """a bare git repository whose branches it has"""
    private: bool = False
    """only tokens that name it can see it"""
    collaborators: Sequence[str] = []
    """logins of people who may write to it, beside its owner"""
    default_branch: str = "main"
    """its default branch, unless `bare` says another one"""
    branches: Mapping[str, str] = {}
    """branch = commit id, where there is no bare repository"""
    labels: Sequence[str] = []
    """its labels"""
    milestones: Sequence[str] = []
    """the titles of its milestones"""
    issues: Sequence[Mapping[str, Any]] = []
    """tables with `title` and, as wanted, the keys of [an issue](#an-issue)"""


class GithubScript(Options, frozen=True):
    """Everything the simulator can be asked to do."""

    repos: Mapping[str, GithubRepo] = {}
    """`OWNER/NAME` = a repository"""
    tokens: Mapping[str, GithubToken] = {}
    """the tokens that are known; empty: any token, of the user `octocat`"""
    faults: Sequence[GithubFault] = []
    """what goes wrong with requests"""
    rate_limit: NonNegative = 5000
    """requests per window and token"""
    rate_window: NonNegativeFloat = 3600.0
    """seconds of a window"""
    writes_per_minute: NonNegative = 80
    """contents that may be created in a minute, before the secondary limit"""
    mergeable_after: NonNegative = 1
    """how often `mergeable` is null before it is known"""
    log_seconds: NonNegativeFloat = 60.0
    """seconds a link to a log works"""
    hook_seconds: NonNegativeFloat = 10.0
    """seconds a receiver of webhooks may take to answer"""

    @property
    def bares(self) -> Mapping[str, Path]:
        """The bare repositories."""
        return {name: repo.bare for name, repo in self.repos.items() if repo.bare is not None}
