"""What the GitLab simulator can be asked to do: projects, tokens, and what goes wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from segue.domain.options import NonNegative, Options, Text
from segue.sim.services import RequestFault

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


class GitlabFault(RequestFault, frozen=True):
    """Something that goes wrong with requests."""

    known = FAULTS

    retry_after: NonNegative = 1
    """seconds to wait that `too_many` asks for"""


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
