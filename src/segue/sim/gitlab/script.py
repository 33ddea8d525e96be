"""What the GitLab simulator can be asked to do: projects, tokens, and what goes wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from segue.domain.options import NonNegative, Options, Text

GitlabFaultName = Literal[
    "bad_gateway", "forbidden", "not_found", "too_many", "unauthorized", "reset", "reset_after"
]
FAULTS: dict[str, str] = {
    "bad_gateway": "502 with a page for people",
    "forbidden": "403, the token lacks a right",
    "not_found": "404",
    "too_many": "429 with `retry-after`",
    "unauthorized": "401",
    "reset": "the connection is cut before anything is done",
    "reset_after": "the request is served, and the connection is cut before the answer",
}


class GitlabToken(Options, frozen=True):
    """A token: whose it is, and what this user may do."""

    username: Text
    """whose token it is"""
    access_level: NonNegative = 40
    """10 guest, 20 reporter, 30 developer, 40 maintainer; 0: not a member"""


class GitlabFault(Options, frozen=True):
    """Something that goes wrong with requests."""

    fault: GitlabFaultName
    """what goes wrong"""
    on: str = "*"
    """the requests, as `POST /projects/*/merge_requests`; `*` stands for one part of a path"""
    after: NonNegative = 0
    """how many matching requests pass before"""
    times: NonNegative = 1
    """how many requests it spoils; 0: all"""
    retry_after: NonNegative = 1
    """seconds to wait that `too_many` asks for"""

    @property
    def pattern(self) -> str:
        """The requests that have the fault."""
        return self.on


class GitlabScript(Options, frozen=True):
    """Everything the simulator can be asked to do."""

    projects: Mapping[str, Path] = {}
    """`GROUP/NAME` = a bare git repository"""
    tokens: Mapping[str, GitlabToken] = {}
    """the tokens that are known; empty: any token, of the maintainer `root`"""
    faults: Sequence[GitlabFault] = []
    """what goes wrong with requests"""

    @property
    def bares(self) -> Mapping[str, Path]:
        """The bare repositories."""
        return self.projects
