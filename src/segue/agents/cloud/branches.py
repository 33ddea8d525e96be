"""Find the branch of a result on the remote: what was asked for, or what the vendor named, if it is there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from segue.agents.cloud.values import CloudLook, CloudSession
from segue.domain.errors import SegueError
from segue.system.git.branches import REMOTE
from segue.system.git.repository import Repository

_PULL = re.compile(r"/pull/(\d+)(?:[/?#]|$)")


async def find_branches(
    workspace: Path, repository: str, session: CloudSession, look: CloudLook
) -> tuple[str, ...]:
    """Return the branches that a session has pushed, as far as the remote has them.

    Where the remote cannot be asked, those that the vendor itself names are believed: whoever uses one
    fetches it, and says what is wrong.
    """
    try:
        refs = await _list_refs(workspace, repository)
    except (SegueError, ValueError):
        return look.branches
    heads = {name.removeprefix("refs/heads/"): head for name, head in refs.items() if "/heads/" in name}
    pulled = (refs.get(f"refs/pull/{number}/head") for number in _pull_numbers(look.pulls))
    by_pull = [name for commit in pulled if commit for name, head in heads.items() if head == commit]
    candidates = (*look.branches, session.branch, *by_pull[:1])
    # An agent that was asked for a branch and opened a pull request has pushed one of them.
    return tuple(dict.fromkeys(name for name in candidates if name in heads))[:1]


async def _list_refs(workspace: Path, repository: str) -> dict[str, str]:
    """Return the branches and pull requests of the remote, each with its commit."""
    repo = await Repository.open(workspace)
    place = REMOTE if await repo.remote_url(REMOTE) is not None else repository
    said = await repo.git("ls-remote", place, "refs/heads/*", "refs/pull/*/head")
    rows = (line.partition("\t") for line in said.splitlines())
    return {name: commit for commit, _, name in rows}


def _pull_numbers(pulls: Sequence[str]) -> list[str]:
    return [found[1] for pull in pulls if (found := _PULL.search(pull))]
