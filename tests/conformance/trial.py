"""Shared by the suites: a throwaway repository for each promise, and a list of all that are broken."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from segue.ports import Agent, Judge, Problem, Reviewer
from segue.system.process.processes import Processes, capture
from segue.system.redact import Redactor
from segue.system.services import Services

_GIT = ("git", "-c", "user.name=Conformance", "-c", "user.email=conformance@localhost")
_T = TypeVar("_T")
Promise = Callable[[_T], Coroutine[Any, Any, None]]
"""Raises AssertionError if it is broken; its docstring says what is promised."""


def check_promises(socket: str, make: Callable[[Services], _T], promises: Sequence[Promise[_T]]) -> None:
    """Try out each promise on what `make` builds for a new repository.

    Raises AssertionError with every promise that is broken.
    """

    async def keep(promise: Promise[_T]) -> None:
        with tempfile.TemporaryDirectory(prefix="segue-conformance-") as name:
            folder = Path(name).resolve()
            repo, state = folder / "repo", folder / "state"
            state.mkdir()
            await _make_repository(repo)
            async with Processes(folder / "run") as processes:
                await promise(make(Services(repo, state, processes, Redactor([]))))

    report_broken(socket, promises, keep)


def report_broken(
    socket: str, promises: Sequence[Promise[_T]], keep: Callable[[Promise[_T]], Coroutine[Any, Any, None]]
) -> None:
    """Have each promise kept in an event loop of its own; raises AssertionError with those that are not."""
    broken = []
    for promise in promises:
        try:
            asyncio.run(keep(promise))
        except AssertionError as error:
            broken.append(f"- {(promise.__doc__ or '').rstrip('.')}: {error}")
    if broken:
        raise AssertionError("\n".join([f"the {socket} breaks its promises:", *broken]))


async def _make_repository(repo: Path) -> None:
    repo.mkdir()
    (repo / "README.md").write_text("A throwaway repository.\n")
    await git(repo, "init", "--quiet")
    await git(repo, "add", "--all")
    await git(repo, "commit", "--quiet", "--message", "Start")
    await git(repo, "tag", "start")


def expect_ready(part: Agent | Judge | Reviewer) -> None:
    """Raise AssertionError unless a part has a name and finds no problem where it works."""
    assert part.name, "its name is empty"
    problems = part.check()
    assert all(isinstance(problem, Problem) for problem in problems), f"{problems} are not Problems"
    assert not problems, "; ".join(problem.message for problem in problems)


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
