"""The remote of a repository: pushing to it, what is not pushed, and what a clone of it would lack.

The branch of a run is pushed to the remote it began with: never by force, and never onto another branch.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from segue.domain.errors import AGAIN, NeedsHuman, WorkspaceError
from segue.system.git.folders import common_dir
from segue.system.git.outside import PLAIN_DIFF
from segue.system.git.repository import Repository

_PACK = "--receive-pack=git-receive-pack"
"""Named here, so that the repository's configuration cannot name another program."""
_ALSO = " pushed to "


class PushRemote(Struct, frozen=True):
    """A remote of the user's repository."""

    repo: Repository
    name: str = "origin"

    async def address(self) -> str:
        """Return where it is, without user and password; empty if there is no such remote.

        Where it is pushed to another place, that is named too.
        """
        url = await self.repo.remote_url(self.name)
        if url is None:
            return ""
        pushed = (await self.repo.git("remote", "get-url", "--push", self.name)).strip()
        return _without_password(url) + ("" if pushed == url else f"{_ALSO}{_without_password(pushed)}")

    async def try_push(self, branch: str) -> str:
        """Return why nothing can be pushed there; empty if it is possible. Nothing is sent."""
        head = await self.repo.head()
        try:
            await self.repo.git(
                "push", "--dry-run", "--no-verify", "--quiet", _PACK, self.name, f"{head}:refs/heads/{branch}"
            )
        except WorkspaceError as error:
            return error.message
        return ""

    async def push(
        self, branch: str, head: str, base: str, expected: str, options: Sequence[str] = ()
    ) -> None:
        """Push a commit as a branch; raises NeedsHuman when that would overwrite or miss something.

        `options` are for the server.
        """
        ref = f"refs/heads/{branch}"
        if branch == base:
            raise NeedsHuman(
                f"Segue never pushes to {base}, the branch that the work is meant for.",
                kept="Nothing was pushed.",
            )
        now = await self.address()
        if now != expected:
            raise NeedsHuman(
                f"The remote {self.name} was {expected} when the run began and is {now or 'gone'} now.",
                kept=f"Nothing was pushed; the work is on branch {branch}.",
                hint=f"If you changed it, propose the work yourself: git push {self.name} {branch}",
            )
        there = await self.head_of(branch)
        if there == head:
            return
        if there and not await self.repo.objects().is_ancestor(there, head):
            raise NeedsHuman(
                f"Somebody else has pushed {there[:10]} to branch {branch} of {self.name}.",
                kept="Nothing was pushed, and nothing was overwritten.",
                hint=f"Merge it: git fetch {self.name} {branch}, then merge FETCH_HEAD into branch {branch}",
            )
        try:
            sent = [f"--push-option={one}" for one in options]
            how = ["--quiet", "--no-follow-tags", _PACK, *sent]
            await self.repo.git("push", *how, self.name, f"{head}:{ref}")
        except WorkspaceError as error:
            if await self.head_of(branch) != head:  # a killed git may have done it all the same
                raise WorkspaceError(
                    f"Branch {branch} could not be pushed to {self.name}. {error.message}",
                    kept=f"The work is on branch {branch} of your repository.",
                    hint=f"Fix what git reports, then {AGAIN}",
                ) from error

    async def head_of(self, branch: str) -> str:
        """Return the commit that a branch of the remote is at; empty if there is none."""
        said = await self.repo.git("ls-remote", self.name, f"refs/heads/{branch}")
        return said.split("\t", 1)[0].strip()

    async def fetch(self, branch: str, kept: str) -> str:
        """Fetch a branch of the remote under a ref of ours, and return its commit; empty if there is none."""
        ref = f"refs/heads/{branch}"
        if not await self.head_of(branch):
            return ""
        await self.repo.fetch(self.name, ref, kept)
        return (await self.repo.git("rev-parse", kept)).strip()


def fetched_from(address: str) -> str:
    """Return where a remote is read from, which names host and project."""
    return address.partition(_ALSO)[0]


def pushed_to(address: str) -> str:
    """Return where a remote is pushed to."""
    return address.partition(_ALSO)[2] or address


def _without_password(address: str) -> str:
    if "://" not in address:
        return address
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl() if "@" in parts.netloc else address


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


_AS_CLONED = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": os.devnull}
"""What a clone does not get."""


async def find_missing(repo: Repository, work: Mapping[str, str]) -> list[str]:
    """Say what of recorded work a clone of the repository would lack; nothing if all is well.

    `work` are commits, each with the tree that was checked; an empty one if nothing was.
    """
    asked = "".join(f"{commit}^{{tree}}\n" for commit in work).encode()
    said = await repo.git("cat-file", "--batch-check=%(objectname)", stdin=asked, extra=_AS_CLONED)
    trees = {
        commit: tree
        for commit, tree in zip(work, said.splitlines(), strict=True)
        if not tree.endswith(" missing")
    }
    # Of these commits and their history, what is in no branch.
    names = "".join(f"{commit}\n" for commit in trees).encode()
    heads = ("rev-list", "--stdin", "--not", "--branches", "HEAD")
    astray = {*work} - {*trees} | {*(await repo.git(*heads, stdin=names, extra=_AS_CLONED)).split()}
    return [
        *(f"no branch contains commit {commit[:10]}" for commit in work if commit in astray),
        *(
            f"commit {commit[:10]} does not contain what was checked"
            for commit, tree in work.items()
            if tree and commit not in astray and trees[commit] != tree
        ),
    ]


async def find_absent(repo: Repository, commits: Collection[str]) -> frozenset[str]:
    """Return the commits that the repository lacks: it is new, shallow, or another clone."""
    asked = "".join(f"{commit}\n" for commit in commits).encode()
    said = await repo.git("cat-file", "--batch-check", stdin=asked)
    return frozenset(line.split()[0] for line in said.splitlines() if line.endswith(" missing"))


async def find_trailers(repo: Repository, name: str) -> frozenset[str]:
    """Return the values of a trailer in the messages of all commits that a branch, tag or stash contains."""
    said = await repo.git("log", "--all", f"--format=%(trailers:key={name},valueonly)")
    return frozenset(said.split())


async def find_subjects(repo: Repository, name: str) -> frozenset[tuple[str, str]]:
    """Return the value of a trailer and the subject of each of the latest commits that has it."""
    asked = ("--max-count=2000", f"--format=%(trailers:key={name},valueonly,separator=%x2C)%x00%s")
    said = await repo.git("log", *asked, "HEAD") if await repo.head() else ""
    pairs = (line.partition("\0") for line in said.splitlines())
    return frozenset((value.strip(), subject) for value, _, subject in pairs)


def is_shallow(repo: Repository) -> bool:
    """Return whether the repository was cloned without all of its history."""
    return (common_dir(repo.git_dir) / "shallow").is_file()
