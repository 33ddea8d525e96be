"""Tells the built-in sources apart by what was named, without importing them."""

from __future__ import annotations

from pathlib import Path

from segue.ports import SourceRequest


def is_prompt(given: str, here: Path = Path()) -> bool:
    """Return whether a text is a sentence that says what to build: several words that are no file."""
    if len(given.split()) < 2 or given.rstrip().endswith(".md"):
        return False
    try:
        return not (here / given).exists()
    except OSError:  # too long for a path
        return True


def is_feature(request: SourceRequest) -> bool:
    """Return whether a feature folder, its tasks.md or the bare name of a feature was named, or is found."""
    known = any((place / ".specify").is_dir() for place in (request.repo, *request.repo.parents))
    if request.named is None:
        return known
    path = request.here / request.named
    if path.is_dir() or path.name == "tasks.md":
        return True
    return known and not path.suffix and not path.exists()


def recognise(request: SourceRequest) -> str | None:
    """Return the built-in source that is certainly meant; None: a plug-in may know better."""
    if request.named is not None and not request.configured and is_prompt(request.named, request.here):
        return "prompt"
    if is_feature(request):
        return "speckit"
    return "planfile" if request.named is None or request.named.endswith(".md") else None
