"""Shared by the suites: a throwaway repository for each promise, and a list of all that are broken."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from segue.system.process.processes import Processes, capture
from segue.system.redact import Redactor
from segue.system.services import Services

_GIT = ("git", "-c", "user.name=Conformance", "-c", "user.email=conformance@localhost")
_T = TypeVar("_T")


def check_promises(
    socket: str, make: Callable[[Services], _T], promises: Sequence[Callable[[_T], Awaitable[None]]]
) -> None:
    """Try out each promise, on what `make` builds for a new repository; the docstring says what it is.

    Raises AssertionError with every promise that is broken.
    """
    broken = []
    for promise in promises:
        with tempfile.TemporaryDirectory(prefix="segue-conformance-") as folder:
            try:
                asyncio.run(_check(promise, make, Path(folder).resolve()))
            except AssertionError as error:
                broken.append(f"{(promise.__doc__ or '').rstrip('.')}: {error}")
    if broken:
        listed = "\n".join(f"- {line}" for line in broken)
        raise AssertionError(f"the {socket} breaks its promises:\n{listed}")


async def _check(
    promise: Callable[[_T], Awaitable[None]], make: Callable[[Services], _T], folder: Path
) -> None:
    repo, state = folder / "repo", folder / "state"
    repo.mkdir()
    state.mkdir()
    (repo / "README.md").write_text("A throwaway repository.\n")
    await git(repo, "init", "--quiet")
    await git(repo, "add", "--all")
    await git(repo, "commit", "--quiet", "--message", "Start")
    await git(repo, "tag", "start")
    await promise(make(Services(repo, state, Processes(), Redactor([]))))


def expect(holds: bool, sentence: str) -> None:
    """Raise AssertionError with the sentence unless it holds."""
    # Not an `assert` statement: those vanish under `python -O`.
    if not holds:
        raise AssertionError(sentence)


async def describe_repository(repo: Path) -> str:
    """Return the branches, the current commit and the changed files: equal texts, nothing was changed."""
    branches = await git(repo, "rev-parse", "--symbolic-full-name", "HEAD", "--branches")
    return branches + await git(repo, "rev-parse", "HEAD") + await git(repo, "status", "--porcelain")


async def git(repo: Path, *arguments: str) -> str:
    """Run git and return what it prints."""
    done = await capture([*_GIT, *arguments], repo)
    if done.exit_code != 0:
        raise RuntimeError(f"git {arguments[0]}: {done.err.decode('utf-8', 'replace')}")
    return done.out.decode("utf-8", "replace")
