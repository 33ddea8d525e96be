"""Find the branch of a result on the remote: what was asked for, or what the vendor named, if it is there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from segue.agents.cloud.values import CloudLook
from segue.system.git.branches import REMOTE
from segue.system.git.folders import find_place
from segue.system.git.outside import NO_REPOSITORY, run_git, run_outside

_PULL = re.compile(r"/pull/(\d+)(?:[/?#]|$)")


async def find_branches(
    workspace: Path, repository: str, asked: str, look: CloudLook
) -> tuple[tuple[str, ...], bool]:
    """Return the branch that a session has pushed, and whether the remote was asked.

    `asked` is the branch that the prompt names. Where the remote cannot be asked, that one or what the
    vendor names is believed: it is fetched before it is used, and a missing one is reported then.
    """
    refs = await _list_refs(workspace, repository)
    if refs is None:
        return tuple(filter(None, look.branches or (asked,)))[:1], False
    heads = {name.removeprefix("refs/heads/"): head for name, head in refs.items() if "/heads/" in name}
    pulled = (refs.get(f"refs/pull/{number}/head") for number in _pull_numbers(look.pulls))
    by_pull = [name for commit in pulled if commit for name, head in heads.items() if head == commit]
    return tuple(name for name in (*look.branches, asked, *by_pull) if name in heads)[:1], True


async def _list_refs(workspace: Path, repository: str) -> dict[str, str] | None:
    """Return the branches and pull requests of the remote, each with its commit; None if it does not answer.

    The remote is the workspace's own or, where it has none, the hosted repository.
    """
    for place in (REMOTE, repository):
        try:
            wanted = ("ls-remote", place, "refs/heads/*", "refs/pull/*/head")
            found = find_place(workspace)
            if found is None:
                done = await run_git(workspace, *wanted, extra=NO_REPOSITORY)
            else:
                done = await run_outside(found, *wanted)
        except (OSError, TimeoutError):
            return None
        if done.exit_code == 0:
            rows = (line.partition("\t") for line in done.out.decode("utf-8", "replace").splitlines())
            return {name: commit for commit, _, name in rows}
    return None


def _pull_numbers(pulls: Sequence[str]) -> list[str]:
    return [found[1] for pull in pulls if (found := _PULL.search(pull))]
