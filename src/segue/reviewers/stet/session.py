"""The stet session of a repository: its status, whether Segue opened it, and its folder kept out of git."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from msgspec import Struct

from segue.reviewers.tool import ToolResult
from segue.system.beneath import write_still
from segue.system.files import private_folder, read_start, write_atomic
from segue.system.git.folders import find_place
from segue.system.git.outside import run_outside

NO_SESSION = "no active session"
_FOLDER = b".review/"
_SPELLINGS = {b".review", b".review/", b"/.review", b"/.review/"}
_IDENTITY = {
    "GIT_AUTHOR_NAME": "Segue",
    "GIT_AUTHOR_EMAIL": "segue@localhost",
    "GIT_COMMITTER_NAME": "Segue",
    "GIT_COMMITTER_EMAIL": "segue@localhost",
}


class Session(Struct, frozen=True):
    """A review that is open."""

    baseline: str
    dismissed: int


def read_status(said: ToolResult) -> Session | None:
    """Return the open review that `stet status` describes; None if there is none."""
    lines = dict(re.findall(r"^(\w+): *(.*?) *$", said.out, re.MULTILINE))
    if said.exit_code != 0 or not lines.get("baseline"):
        return None
    dismissed = lines.get("dismissed", "")
    return Session(lines["baseline"], int(dismissed) if dismissed.isdecimal() else 0)


class Ownership(Struct, frozen=True):
    """Remembers, across restarts, which review Segue has opened in a repository."""

    file: Path
    repo: Path

    @classmethod
    def of(cls, repo: Path, state_dir: Path) -> Self:
        """Return the record of a repository: a file of its own in Segue's state."""
        return cls(state_dir / "stet" / hashlib.sha256(str(repo).encode()).hexdigest()[:16], repo.resolve())

    def claim(self, baseline: str) -> None:
        """Record the review before it is opened; an empty baseline matches any."""
        private_folder(self.file.parent)
        write_atomic(self.file, json.dumps({"repo": str(self.repo), "baseline": baseline}).encode())

    def matches(self, session: Session) -> bool:
        """Return whether the open review is the one that was claimed."""
        try:
            claim = json.loads(self.file.read_bytes())
        except (OSError, ValueError):
            return False
        if not isinstance(claim, dict) or claim.get("repo") != str(self.repo):
            return False
        return claim.get("baseline") in ("", session.baseline)

    def drop(self) -> None:
        """Forget the review: it is closed."""
        with contextlib.suppress(OSError):
            self.file.unlink(missing_ok=True)


async def exclude_folder(repo: Path) -> None:
    """Keep stet's folder out of `git status`, without touching a file that the user commits."""
    place = find_place(repo)
    if place is None:
        return  # no repository: stet will say so in its own words
    path = (place.common / "info" / "exclude").resolve()
    before = read_start(path)
    if _SPELLINGS & {line.strip() for line in before.splitlines()}:
        return
    path.parent.mkdir(exist_ok=True)
    gap = b"" if not before or before.endswith(b"\n") else b"\n"
    write_still(path, before + gap + _FOLDER + b"\n")


async def identity(repo: Path, env: Mapping[str, str]) -> dict[str, str]:
    """Return variables that give git a name for stet's notes where the user has set none."""
    place = find_place(repo)
    if place is None:
        return _IDENTITY
    known = await run_outside(place, "var", "GIT_COMMITTER_IDENT", extra=env)
    return {} if known.exit_code == 0 else _IDENTITY
