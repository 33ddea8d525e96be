"""Tells the built-in sources apart by what was named, without importing them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from segue.domain.installed import source_of
from segue.domain.pattern import pattern

if TYPE_CHECKING:
    from segue.ports import SourceRequest

TASKS = "tasks.md"
GITHUB = "github:"
_COPIED = pattern(
    r"(?:(?:https?://)?(?:www\.)?github\.com/|git@github\.com:)[\w.-]+/[\w.-]+(?:/issues/?\d*|#\d+)?"
)
"""An address as it is copied from a browser or from `git remote -v`."""
_DEEPEST = 4
_SKIPPED = frozenset({"node_modules", "vendor", "venv", "dist", "build", "target", "__pycache__"})


def is_table(named: str) -> bool:
    """Return whether a CSV or JSON lines file is named."""
    return named.lower().endswith((".csv", ".tsv", ".jsonl", ".ndjson"))


def is_github(named: str) -> bool:
    """Return whether issues on GitHub are named."""
    return named.startswith((GITHUB, "https://github.com/")) or _COPIED.fullmatch(named) is not None


def is_prompt(given: str, here: Path = Path()) -> bool:
    """Return whether a text is a sentence that says what to build: several words, and not a file."""
    if len(given.split()) < 2 or given.rstrip().endswith(".md"):
        return False
    try:
        return not (here / given).exists()
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
    """Return the source that is known by the name alone; the file of a part may look like a table."""
    if is_github(named):
        return "github"
    return source_of(named) or ("table" if is_table(named) else None)
