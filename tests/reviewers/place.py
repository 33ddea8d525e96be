"""A git repository to review in."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from segue.domain.options import read_options
from segue.ports import ReviewSubject
from segue.reviewers.options import PRESETS, CommandReviewOptions
from tests.templates import copy_template

IDENTITY = {
    "GIT_AUTHOR_NAME": "Tester",
    "GIT_AUTHOR_EMAIL": "tester@localhost",
    "GIT_COMMITTER_NAME": "Tester",
    "GIT_COMMITTER_EMAIL": "tester@localhost",
}


def preset(name: str, **changes: Any) -> CommandReviewOptions:
    """The options of a known tool, with changes."""
    return read_options(CommandReviewOptions, {**PRESETS[name], **changes})


def bare_environment(**more: str) -> dict[str, str]:
    """An environment in which git knows nobody."""
    return {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", **more}


def _make_repository(folder: Path) -> None:
    for words in (("init", "--quiet"), ("config", "core.excludesFile", "/nonexistent")):
        subprocess.run(["git", *words], cwd=folder, env=bare_environment(**IDENTITY), check=True)


@dataclass
class Place:
    """Where a test works."""

    root: Path

    @property
    def repo(self) -> Path:
        return self.root / "repo"

    @classmethod
    def make(cls, root: Path) -> Self:
        place = cls(root.resolve())
        copy_template(_make_repository, place.repo)
        place.commit({"README.md": "A place.\n"})
        return place

    def git(self, *arguments: str) -> str:
        env = bare_environment(**IDENTITY)
        done = subprocess.run(["git", *arguments], cwd=self.repo, env=env, capture_output=True, check=True)
        return done.stdout.decode().strip()

    def commit(self, files: dict[str, str | None]) -> str:
        """Write the files (None deletes one), commit, give the commit."""
        for name, text in files.items():
            path = self.repo / name
            if text is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", "Change")
        return self.head

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def subject(self, base: str, task: str = "1") -> ReviewSubject:
        return ReviewSubject(self.repo, base, self.head, task, "token")
