"""Tells the built-in sources apart by what was named, without importing them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from segue.ports import SourceRequest

TASKS = "tasks.md"
GITHUB = "github:"
_COPIED = re.compile(
    r"(?:(?:https?://)?(?:www\.)?github\.com/|git@github\.com:)[\w.-]+/[\w.-]+(?:/issues/?\d*|#\d+)?"
)
"""An address as it is copied from a browser or from `git remote -v`."""
FOLDERS = {".taskmaster": "tasks/tasks.json", ".beads": "issues.jsonl"}
"""Folder of another tool → the table of tasks in it."""
_TABLES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson")
_DEEPEST = 4
_LONGEST_NAME = 3
"""Words that the name of a plan file may have."""
_SKIPPED = frozenset({"node_modules", "vendor", "venv", "dist", "build", "target", "__pycache__"})


def is_table(named: str) -> bool:
    """Return whether a file with a table of tasks is named, or the folder of a tool that keeps one."""
    path = PurePath(named)
    return path.suffix.lower() in _TABLES or path.name in FOLDERS


def is_github(named: str) -> bool:
    """Return whether issues on GitHub are named."""
    return named.startswith((GITHUB, "https://github.com/")) or _COPIED.fullmatch(named) is not None


def is_prompt(given: str, here: Path = Path()) -> bool:
    """Return whether a text is a sentence that says what to build: several words, and not a file.

    A few words that end like the name of a plan are taken for one that is missing, unless the last is a file.
    """
    words = given.split()
    if len(words) < 2:
        return False
    try:
        if (here / given).exists():
            return False
        names_plan = words[-1].endswith(".md") and len(words) <= _LONGEST_NAME
        return not names_plan or (here / words[-1]).exists()
    except OSError:  # too long for a path
        return True


def is_feature(request: SourceRequest) -> bool:
    """Return whether a feature folder, its tasks.md or the bare name of a feature was named, or is found."""
    known = has_specify(request.repo)
    if request.named is None:
        return known or any_feature(request.here, request.repo)
    path = request.here / request.named
    if path.is_dir() or path.name == "tasks.md":
        return True
    return known and not path.suffix and not path.exists()


def has_specify(repo: Path) -> bool:
    """Return whether Spec Kit was set up in a repository or above it."""
    return any((place / ".specify").is_dir() for place in (repo, *repo.parents))


def find_features(root: Path) -> Iterator[Path]:
    """Yield the folders with a tasks.md, not too deep, in order."""
    for place, folders, files in os.walk(root):
        path = Path(place)
        deep = len(path.relative_to(root).parts)
        folders[:] = sorted(
            name
            for name in folders
            if deep < _DEEPEST and name not in _SKIPPED and (name == ".specify" or not name.startswith("."))
        )
        if TASKS in files:
            yield path


def any_feature(here: Path, repo: Path) -> bool:
    """Return whether there is a feature to work on, although Spec Kit was not set up here."""
    return (here / TASKS).is_file() or next(find_features(repo), None) is not None


def recognise(request: SourceRequest) -> str | None:
    """Return the built-in source that is certainly meant; None: a plug-in may know better."""
    if request.named is not None and (certain := _recognise_name(request.named)):
        return certain
    if request.named is not None and not request.configured and is_prompt(request.named, request.here):
        return "prompt"
    if is_feature(request):
        return "speckit"
    return "planfile" if request.named is None or request.named.endswith(".md") else None


def _recognise_name(named: str) -> str | None:
    """Return the source that is known by the name alone."""
    if is_github(named):
        return "github"
    return "table" if is_table(named) else None
