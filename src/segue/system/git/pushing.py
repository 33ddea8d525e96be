"""Pushes the branch of a run to the remote it began with: never by force, and never onto another branch."""

from __future__ import annotations

from urllib.parse import urlsplit

from msgspec import Struct

from segue.domain.errors import NeedsHuman, WorkspaceError
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

    async def push(self, branch: str, head: str, base: str, expected: str) -> None:
        """Push a commit as a branch; raises NeedsHuman when that would overwrite or miss something."""
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
            await self.repo.git("push", "--quiet", "--no-follow-tags", _PACK, self.name, f"{head}:{ref}")
        except WorkspaceError as error:
            if await self.head_of(branch) != head:  # a killed git may have done it all the same
                raise WorkspaceError(
                    f"Branch {branch} could not be pushed to {self.name}. {error.message}",
                    kept=f"The work is on branch {branch} of your repository.",
                    hint="Fix what git reports, then: segue resume",
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
