"""Clones for runs of a fleet, made quickly from a cache of mirrors, one for each repository.

A clone borrows the objects of its mirror, so nothing is ever removed from a mirror; only one that no clone
uses is removed as a whole. Clones and mirrors are written by hand: git reads neither a template nor a hook,
and where the mirror has the commit, a clone costs two git processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from segue.domain.errors import UsageError, WorkspaceError
from segue.features.fleet.git.addresses import canonical_url, has_secret, hint_for_remote
from segue.features.fleet.git.bundles import BASE, PATIENCE, PLAIN, QUIET_FETCH, run_in_mirror
from segue.system.files import exclusive, private_folder, read_start, write_atomic
from segue.system.git.folders import COMMIT
from segue.system.git.recovery import clear_stale_locks, wait_for_git
from segue.system.git.repository import Repository
from segue.system.process.capture import Captured

_log = logging.getLogger(__name__)

_MADE = "segue-clone"
"""The file in a clone's git folder that is written last."""
_PAUSES = (0.5, 2.0, None)
"""Seconds before another try: a git of a process that was killed may still be fetching."""
_MOST_PACKS = 50
_NEW = 600.0
"""Seconds after which a clone that was announced but does not exist was given up."""
_LARGEST_REFS = 64 * 1024**2
_KEEP = "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n"
_MIRROR = f"{_KEEP}[fetch]\n\tunpackLimit = 1\n"
"""Every fetch becomes a pack, which is there as a whole or not at all."""


class _Mirror(Struct, frozen=True):
    """The mirror of one repository in the cache."""

    folder: Path
    """The folder of the cache."""
    name: str

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.git"

    @property
    def users(self) -> Path:
        """A folder with a file for each clone; its time tells when the mirror was used last."""
        return self.folder / f"{self.name}.clones"

    @property
    def lock(self) -> Path:
        return self.folder / f"{self.name}.lock"

    @property
    def aside(self) -> Path:
        """Where it is while it is decided whether somebody uses it."""
        return self.folder / f"{self.name}.aside"

    @property
    def removed(self) -> Path:
        return self.folder / f"{self.name}.removed"

    def is_used(self) -> bool:
        """Return whether there are clones that borrow its objects; forget some that were deleted."""
        notes = list(self.users.iterdir()) if self.users.is_dir() else []
        return any(map(_is_user, notes))

    async def git(self, *arguments: str) -> Captured:
        return await run_in_mirror(self.path, *arguments)

    async def has(self, commit: str) -> bool:
        return (await self.git("cat-file", "-e", f"{commit}^{{commit}}")).exit_code == 0


class Clones:
    """A cache of mirrors, and the clones that are made from them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._turns: dict[str, asyncio.Lock] = {}

    async def open(self, url: str, commit: str, into: Path, branch: str = "") -> Repository:
        """Return the clone `into` as it is; a missing one is made at the commit, on `branch` or on none."""
        mirror = self._mirror(url, commit)
        into = Path(os.path.realpath(into))
        clone = Repository(into, into / ".git")
        identity = f"{canonical_url(url)}\n{commit}\n".encode()
        self._announce(mirror, into, identity)
        if read_start(clone.git_dir / _MADE) == identity:
            if not mirror.path.is_dir():  # somebody has emptied the cache
                await self._fetch(mirror, url, commit)
            return clone
        said = await self._make(mirror, clone, url, commit, branch) if mirror.path.is_dir() else "no mirror"
        if said:
            await self._fetch(mirror, url, commit)
            said = await self._make(mirror, clone, url, commit, branch)
        if said:
            raise WorkspaceError(
                f"{canonical_url(url)} cannot be checked out at {commit[:10]}: {said}",
                kept="Nothing was changed.",
                hint=f"If the disk is not full, remove {mirror.path} and try again",
            )
        write_atomic(clone.git_dir / _MADE, identity, durable=False)
        return clone

    def forget(self, into: Path) -> None:
        """Remove a clone."""
        into = Path(os.path.realpath(into))
        trash = into.with_name(f".{into.name}.removed")
        shutil.rmtree(trash, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            # First it is out of the way as a whole: half a clone could not be used.
            into.rename(trash)
        shutil.rmtree(trash, ignore_errors=True)
        for note in self._folder.glob(f"*.clones/{_hash(str(into))}"):
            note.unlink(missing_ok=True)

    async def trim(self, most: int) -> list[str]:
        """Remove mirrors that no clone uses, least recently used first, until the cache has `most` bytes.

        Returns the addresses of those that were removed.
        """
        names = [path.name.removesuffix(".git") for path in self._folder.glob("*.git")]
        mirrors = sorted((_Mirror(self._folder, name) for name in names), key=_last_use)
        sizes = await asyncio.to_thread(lambda: [_size(mirror.path) for mirror in mirrors])
        total, gone = sum(sizes), []
        for mirror, size in zip(mirrors, sizes, strict=True):
            if total <= most:
                break
            if mirror.is_used():
                continue
            async with self._alone(mirror):
                address = read_start(mirror.path / "description").decode("utf-8", "replace").strip()
                if await self._remove(mirror):
                    total -= size
                    gone.append(address)
        return gone

    def _mirror(self, url: str, commit: str) -> _Mirror:
        """Return the mirror of a repository; refuse what git must not see."""
        known = canonical_url(url)
        if has_secret(url):
            raise UsageError(
                f"The address of {known} contains a password.",
                hint="Leave it out: each machine has its own credentials",
            )
        if not COMMIT.fullmatch(commit):
            raise UsageError(f"{commit[:80]!r} is not the full name of a commit.")
        private_folder(self._folder)
        return _Mirror(self._folder, _hash(known))

    def _announce(self, mirror: _Mirror, into: Path, identity: bytes) -> None:
        """Note that a clone uses the mirror, before it does; refuse a folder that is something else."""
        note, made = mirror.users / _hash(str(into)), read_start(into / ".git" / _MADE)
        if made not in (b"", identity) or (not note.exists() and not made and _has_files(into)):
            raise WorkspaceError(
                f"{into} is not the clone that is wanted there.",
                kept="Nothing was changed.",
                hint="Move it away, then try again",
            )
        mirror.users.mkdir(mode=0o700, exist_ok=True)
        note.write_bytes(os.fsencode(into))
        os.utime(mirror.users)

    async def _make(self, mirror: _Mirror, clone: Repository, url: str, commit: str, branch: str) -> str:
        """Make a clone from what the mirror has; return what was in the way, or an empty text."""
        if clone.git_dir.exists():  # half-made by a process that was killed
            await wait_for_git([clone.root], PATIENCE)
            await asyncio.to_thread(shutil.rmtree, clone.root)
        private_folder(clone.root.parent)
        _write_clone(mirror, clone, url, commit, branch)
        done = await clone.try_git("reset", "--hard", "--quiet", extra=PLAIN, timeout=PATIENCE)
        if done.exit_code == 0:
            return ""
        await asyncio.to_thread(shutil.rmtree, clone.root)
        return done.said

    async def _fetch(self, mirror: _Mirror, url: str, commit: str) -> None:
        """See to it that the mirror has the commit."""
        async with self._alone(mirror):
            if not mirror.path.is_dir() and mirror.aside.is_dir():  # whoever wanted to remove it was killed
                mirror.aside.rename(mirror.path)
            if not mirror.path.is_dir():
                _write_mirror(mirror, url, commit)
            if await mirror.has(commit):
                return
            await _clear(mirror.path)
            await _fetch_from(mirror, url, commit)
            if not await mirror.has(commit):
                raise _lacks(url, commit)
            await mirror.git("pack-refs", "--all")
            if len(list((mirror.path / "objects" / "pack").glob("*.pack"))) > _MOST_PACKS:
                # Joins packs and drops no object: clones may need those that no branch contains any more.
                await mirror.git("repack", "--quiet", "--geometric=2", "-d")

    async def _remove(self, mirror: _Mirror) -> bool:
        """Remove a mirror, unless somebody has begun to use it or has removed it."""
        if not mirror.path.is_dir():
            return False
        mirror.path.rename(mirror.aside)
        # Who announced a clone before this saw the mirror; who does so from now on finds none.
        if mirror.is_used():
            mirror.aside.rename(mirror.path)
            return False
        await asyncio.to_thread(shutil.rmtree, mirror.removed, ignore_errors=True)
        mirror.aside.rename(mirror.removed)
        await asyncio.to_thread(shutil.rmtree, mirror.removed, ignore_errors=True)
        return True

    @asynccontextmanager
    async def _alone(self, mirror: _Mirror) -> AsyncIterator[None]:
        """Keep others from changing a mirror, also other processes."""
        async with self._turns.setdefault(mirror.name, asyncio.Lock()):
            with contextlib.ExitStack() as held:
                await asyncio.to_thread(held.enter_context, exclusive(mirror.lock))
                yield


def _write_clone(mirror: _Mirror, clone: Repository, url: str, commit: str, branch: str) -> None:
    """Write the git folder of a clone that has the mirror's objects, branches and tags."""
    git_dir = clone.git_dir
    for name in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info"):
        (git_dir / name).mkdir(parents=True, exist_ok=True)
    (git_dir / "objects/info/alternates").write_bytes(os.fsencode(mirror.path / "objects") + b"\n")
    (git_dir / "packed-refs").write_bytes(b"".join(_refs_for(mirror, commit)))
    config = f"{_format(commit, 'false')}\tlogallrefupdates = true\n{_KEEP}"
    config += f'[remote "origin"]\n\turl = {_quote(url)}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n'
    (git_dir / "config").write_text(config)
    if branch:
        ref = git_dir / "refs" / "heads" / branch
        ref.parent.mkdir(parents=True, exist_ok=True)
        ref.write_text(f"{commit}\n")
    (git_dir / "HEAD").write_text(f"ref: refs/heads/{branch}\n" if branch else f"{commit}\n")


def _refs_for(mirror: _Mirror, commit: str) -> Iterator[bytes]:
    """Yield the lines of `packed-refs` for a clone: they stay in order."""
    lines = read_start(mirror.path / "packed-refs", _LARGEST_REFS).splitlines(keepends=True)
    heads = [
        line.replace(b" refs/heads/", b" refs/remotes/origin/", 1)
        for line in lines
        if b" refs/heads/" in line
    ]
    first = next((number for number, line in enumerate(lines) if b" refs/tags/" in line), len(lines))
    yield b"# pack-refs with: peeled fully-peeled sorted \n"
    yield from heads
    yield f"{commit} {BASE}\n".encode()
    yield from lines[first:]


def _write_mirror(mirror: _Mirror, url: str, commit: str) -> None:
    draft = mirror.folder / f"{mirror.name}.new"
    shutil.rmtree(draft, ignore_errors=True)
    for name in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info"):
        (draft / name).mkdir(parents=True)
    (draft / "HEAD").write_text("ref: refs/heads/main\n")
    (draft / "config").write_text(_format(commit, "true") + _MIRROR)
    (draft / "description").write_text(f"{canonical_url(url)}\n")
    draft.rename(mirror.path)


async def _fetch_from(mirror: _Mirror, url: str, commit: str) -> None:
    await _try_to_fetch(mirror, url, "--prune", "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
    if not await mirror.has(commit):  # on no branch: many servers give it to who names it
        with contextlib.suppress(WorkspaceError):
            await _try_to_fetch(mirror, url, f"{commit}:refs/segue/wanted/{commit}")


async def _try_to_fetch(mirror: _Mirror, url: str, *specs: str) -> None:
    options = [spec for spec in specs if spec.startswith("-")]
    for pause in _PAUSES:
        done = await mirror.git(
            *QUIET_FETCH, "--force", *options, url, *(spec for spec in specs if spec not in options)
        )
        if done.exit_code == 0:
            return
        if b"cannot lock ref" not in done.err or pause is None:
            break
        _log.info("a ref of the mirror %s is locked; fetching again in %g s", mirror.name, pause)
        await asyncio.sleep(pause)
    said = done.said
    raise WorkspaceError(
        f"{canonical_url(url)} cannot be fetched: {said}",
        kept="Nothing was changed.",
        hint=hint_for_remote(said),
    )


async def _clear(mirror: Path) -> None:
    """Remove what fetches that were killed have left in a mirror."""
    await clear_stale_locks(mirror, mirror, mirror, 0.0, PATIENCE)
    pieces = list((mirror / "objects" / "pack").glob("tmp_*"))
    if pieces and await wait_for_git([mirror], PATIENCE):
        for piece in pieces:
            piece.unlink(missing_ok=True)


def _lacks(url: str, commit: str) -> WorkspaceError:
    return WorkspaceError(
        f"{canonical_url(url)} does not have the commit {commit}.",
        kept="Nothing was changed.",
        hint="Push the commit to a branch there, or start from another one",
    )


def _format(commit: str, bare: str) -> str:
    """Return the first section of a configuration, for commits with names of this length."""
    long = len(commit) == 64
    kind = "[extensions]\n\tobjectFormat = sha256\n" if long else ""
    return f"{kind}[core]\n\trepositoryformatversion = {int(long)}\n\tbare = {bare}\n"


def _quote(url: str) -> str:
    return '"' + url.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _has_files(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def _is_user(note: Path) -> bool:
    """Return whether the clone of a note exists, or is just being made."""
    clone = Path(os.fsdecode(read_start(note)))
    with contextlib.suppress(OSError):
        if clone.is_dir() or time.time() - note.stat().st_mtime < _NEW:
            return True
    note.unlink(missing_ok=True)
    return False


def _last_use(mirror: _Mirror) -> float:
    try:
        return mirror.users.stat().st_mtime
    except OSError:
        return 0.0


def _size(folder: Path) -> int:
    found = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                found += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118 - faster
    return found
