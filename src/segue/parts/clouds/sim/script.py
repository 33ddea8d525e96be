"""What a script of the simulated sessions may say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from segue.domain.options import Options
from segue.parts.sim.cloud.script import AgentEntry
from segue.sim.services import RequestFault

REQUEST_FAULTS = {
    "refuse": "answers `status` with `message`, and does nothing",
    "lost": "does what was asked, and cuts the connection instead of answering",
    "silent": "does what was asked, and never answers",
    "failed": "does what was asked, and answers 500",
    "missing": "answers 404, as for a session that is too new to be found",
    "lag": "leaves the newest session out of a list",
}
"""What can go wrong with a request."""


class SessionEntry(AgentEntry, frozen=True):
    """What sessions do with one message."""

    push: bool = True
    """whether it pushes what it wrote"""
    branch: str | None = None
    """the branch it pushes, whatever it was asked for"""
    pull: bool | None = None
    """whether it opens a pull request; unset: as the vendor does"""
    during: str = ""
    """the vendor's word for its state while it works"""
    end: str = ""
    """the vendor's word for how it ends; unset: well"""
    error: str = ""
    """the vendor's word for an error, and after a space its message"""


class SessionFault(RequestFault, frozen=True):
    """A fault of requests, with its details."""

    known = REQUEST_FAULTS

    status: int = 500
    """the HTTP status of a refusal"""
    message: str = ""
    """its message"""
    retry_after: str | None = None
    """its header Retry-After"""


class SessionScript(Options, frozen=True):
    """Everything a script can say."""

    on: Sequence[SessionEntry] = []
    """what sessions do; the first entry that matches is used"""
    faults: Sequence[SessionFault] = []
    """what goes wrong with requests"""
    repos: Mapping[str, Path] = {}
    """repository address = local bare repository"""
    keys: Sequence[str] = []
    """the keys that are known; empty: any key"""
    delay: float = 0.02
    """seconds every session works"""
    usage: Mapping[str, Any] = {}
    """what each message uses, in the vendor's words"""

    @property
    def bares(self) -> Mapping[str, Path]:
        """The bare repositories."""
        return self.repos
