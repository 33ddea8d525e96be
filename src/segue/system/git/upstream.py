"""The user's branch as the remote knows it, and what is not pushed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from segue.system.git.outside import PLAIN_DIFF
from segue.system.git.repository import Repository

_MOST_NAMED = 5


async def pushed_branch(repo: Repository, remote: str) -> str | None:
    """Return the name of the current branch on the remote; None if it was never pushed there."""
    branch = (await repo.snapshot()).branch
    if not branch:
        return None
    form = "--format=%(upstream:remotename)%00%(upstream:remoteref)"
    said = (await repo.git("for-each-ref", form, f"refs/heads/{branch}")).strip()
    name, _, ref = said.partition("\0")
    if name == remote:
        return ref.removeprefix("refs/heads/")
    pushed = await repo.git("ls-remote", remote, f"refs/heads/{branch}")
    return branch if pushed.strip() else None


async def name_unseen(repo: Repository, head: str, documents: Sequence[Path]) -> list[str]:
    """Name what somebody who starts from a commit does not see: commits, and documents that differ.

    What Segue itself writes does not count.
    """
    return [*await _commits(repo, head), *await _documents(repo, head, documents)]


async def _commits(repo: Repository, head: str) -> list[str]:
    if not await repo.head():
        return []
    most = f"--max-count={_MOST_NAMED + 1}"
    said = await repo.git("log", most, "--format=commit %h %s", f"{head}..HEAD", *repo.without_own())
    return _shorten(said.splitlines(), "more commits")


async def _documents(repo: Repository, head: str, documents: Sequence[Path]) -> list[str]:
    real = repo.root.resolve()
    inside = [str(path.relative_to(real)) for path in documents if path.is_relative_to(real)]
    if not inside:
        return []
    paths = ["--", *(f":(top,literal){path}" for path in inside), *repo.without_own()[2:]]
    changed = await repo.git("diff", "--name-only", "-z", "--no-renames", *PLAIN_DIFF, head, *paths)
    fresh = await repo.git("ls-files", "--others", "--exclude-standard", "--full-name", "-z", *paths)
    return _shorten(sorted(filter(None, {*changed.split("\0"), *fresh.split("\0")})), "more files")


def _shorten(names: list[str], more: str) -> list[str]:
    return names if len(names) <= _MOST_NAMED else [*names[:_MOST_NAMED], more]
