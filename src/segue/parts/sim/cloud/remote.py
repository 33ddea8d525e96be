"""Put commits on the branches of bare repositories, as an agent's push would."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from segue.system.process.capture import Captured, capture, child_environment

_AUTHOR = "Cursor Agent <cursoragent@cursor.com>"
_AT_ONCE = 4
_TIMEOUT = 300.0


class PushRefused(Exception):
    """Git refused the commit."""


class BranchTaken(PushRefused):
    """A branch that should be new exists already."""


class Change(Struct, frozen=True):
    """The change a commit makes: files to write and to delete."""

    write: Mapping[str, bytes]
    delete: Sequence[str]
    message: str


class Remote(Struct):
    """A bare repository; pushes to it run one after the other."""

    bare: Path
    gate: asyncio.Semaphore
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def resolve(self, ref: str | None) -> str | None:
        """Return the commit of a branch or SHA, or None. Without a ref: of the default branch."""
        name = f"{ref or 'HEAD'}^{{commit}}"
        done = await self._git("rev-parse", "--verify", "--quiet", "--end-of-options", name)
        return done.out.decode().strip() or None

    async def find_tip(self, branch: str) -> str | None:
        """Return the commit a branch points to."""
        return await self.resolve(f"refs/heads/{branch}")

    async def find_default_branch(self) -> str:
        """Return the branch that HEAD names."""
        return (await self._git("symbolic-ref", "--short", "HEAD")).out.decode().strip() or "main"

    async def push(
        self, branch: str, base: str | None, change: Change, *, new: bool, also: Sequence[str] = ()
    ) -> str | None:
        """Put one commit on the branch and return it; None if the change changes nothing.

        If somebody else has moved the branch in the meantime, the commit goes on top of it.
        """
        async with self._turn:
            parent = base if new else await self.find_tip(branch) or base
            if not await self._is_change(parent, change):
                return None
            commands = _write_import(branch, parent, change, also)
            done = await self._git("fast-import", "--quiet", stdin=commands)
        if done.exit_code != 0:
            if new and b"Not updating" in done.err:
                raise BranchTaken(branch)
            raise PushRefused(done.err.decode("utf-8", "replace").strip())
        return done.out.decode().strip()

    async def delete(self, branch: str) -> None:
        """Delete a branch."""
        await self._git("update-ref", "-d", f"refs/heads/{branch}")

    async def point(self, ref: str, commit: str) -> None:
        """Let a ref point to a commit: that of a pull request, or a new branch."""
        await self._git("update-ref", ref, commit)

    async def _is_change(self, parent: str | None, change: Change) -> bool:
        paths = [*change.write, *change.delete]
        if parent is None or not paths:
            return bool(change.write)
        done = await self._git("ls-tree", "-z", parent, "--", *paths)
        there = {}
        for line in filter(None, done.out.decode("utf-8", "surrogateescape").split("\0")):
            facts, _, path = line.partition("\t")
            there[path] = facts.split()[2]
        new = any(there.get(path) != _hash_blob(data, len(parent)) for path, data in change.write.items())
        return new or any(path in there for path in change.delete)

    async def _git(self, *args: str, stdin: bytes = b"") -> Captured:
        async with self.gate:
            environment = child_environment(extra={"GIT_TERMINAL_PROMPT": "0"})
            return await capture(["git", *args], self.bare, environment, _TIMEOUT, stdin)


class Remotes(Struct):
    """The repositories by their addresses; only a few git processes run at once."""

    _known: dict[str, Remote] = field(default_factory=dict)
    _gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    def add(self, url: str, bare: Path) -> None:
        """Serve this address from a bare repository."""
        self._known[normalize_url(url)] = Remote(bare, self._gate)

    def find(self, url: str) -> Remote | None:
        """Return the repository with this address, however it is written."""
        return self._known.get(normalize_url(url))

    def list_addresses(self) -> list[str]:
        """List all addresses, without their schemes."""
        return sorted(self._known)


def normalize_url(url: str) -> str:
    """Write an address as the API does: no scheme, no user, no `.git`, host in lower case."""
    bare = url.partition("://")[2] or url
    host, _, path = bare.rpartition("@")[2].strip("/").partition("/")
    return f"{host.lower()}/{path.removesuffix('.git')}"


def _write_import(branch: str, parent: str | None, change: Change, also: Sequence[str]) -> bytes:
    """Write the commit for `git fast-import`, which prints the commit's id at the end."""
    lines = [f"commit refs/heads/{branch}", "mark :1", f"committer {_AUTHOR} {int(time.time())} +0000"]
    parts = [_join_lines(*lines), _write_data(change.message.encode())]
    if parent is not None:
        parts.append(_join_lines(f"from {parent}"))
    parts += [_join_lines(f"D {_quote(path)}") for path in change.delete]
    for path, data in change.write.items():
        parts.append(_join_lines(f"M 100644 inline {_quote(path)}") + _write_data(data))
    parts += [_join_lines(f"reset refs/heads/{name}", "from :1") for name in also]
    return b"".join([*parts, _join_lines("", "get-mark :1")])


def _join_lines(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _write_data(data: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(data), data)


def _quote(path: str) -> str:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _hash_blob(data: bytes, width: int) -> str:
    """Hash a file's content as git does; repositories with long ids use SHA-256."""
    kind = hashlib.sha1 if width == 40 else hashlib.sha256
    return kind(b"blob %d\0%s" % (len(data), data)).hexdigest()
