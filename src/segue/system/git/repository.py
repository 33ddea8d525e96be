"""A git repository, through the user's own `git`: snapshots for evidence, commits with trailers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from segue.domain.errors import AGAIN, WorkspaceError
from segue.domain.workspace import Snapshot, WorkChanges
from segue.system.files import clear_brief_folders, clear_temporary
from segue.system.git.folders import GitPlace, common_dir, read_head
from segue.system.git.index import (
    LOOK_TIMEOUT,
    STATUS,
    File,
    checked_out,
    find_gitlinks,
    has_markers,
    left_out,
    read_status,
    shown,
    take_snapshot,
)
from segue.system.git.objects import GITLINK, Objects, PathChange, StagedIndex, stage
from segue.system.git.outside import PLAIN_DIFF, TIMEOUT, find_repository, read_config, run_outside, verb_of
from segue.system.git.recovery import clear_stale_locks, wait_for_git
from segue.system.process.processes import Captured
from segue.system.reading import work_tree

_log = logging.getLogger(__name__)

FALLBACK_IDENTITY = ("-c", "user.name=Segue", "-c", "user.email=segue@localhost")
_SMALL = 16 * 1024
"""Bytes of a status that is parsed at once: a thread costs more than a hundred files."""
_TIDY = 50
"""Git looks at every so many commits of a run whether it should tidy up: that costs a process each time."""
_opened: dict[Path, Path] = {}
"""The git folder of each work tree, as it was when Segue first opened it."""


class Repository(Struct):
    """One work tree."""

    root: Path
    git_dir: Path
    own: tuple[str, ...] = ()
    """Segue's own state files: no evidence, never committed with an agent's work."""
    believed: float = 1.0
    """Seconds for which a snapshot is believed: nobody edits a file that fast after a launch or a commit."""
    _identity: tuple[str, ...] | None = None
    _left: tuple[float, Snapshot] | None = None
    """What the last launch or commit left, if nothing was done since, and when that was seen."""
    _staged: StagedIndex | None = None
    _commits: int = 0
    _heavy: tuple[File, ...] = ()
    """What was too large to be added when git last looked."""

    @classmethod
    async def open(cls, path: Path, timeout: float = TIMEOUT) -> Repository:
        """Open the work tree that contains the path."""
        root, git_dir = await find_repository(path, timeout)
        if (before := _opened.setdefault(root, git_dir)) != git_dir and before.is_dir():
            raise WorkspaceError(
                f"{root / '.git'} names {git_dir} now; it was {before} when Segue first looked.",
                kept="Nothing was changed.",
                hint="If you changed that, give the command again; else put back what was there",
            )
        return cls(root, git_dir)

    @property
    def place(self) -> GitPlace:
        """The work tree with its git folders."""
        return GitPlace.of(self.root, self.git_dir)

    async def snapshot(self) -> Snapshot:
        """Return a snapshot of the work tree."""
        done = await self.run(*STATUS, *self.without_own())
        if len(done.out) < _SMALL:
            now, self._heavy = read_status(self.root, done.out)
        else:
            now, self._heavy = await asyncio.to_thread(read_status, self.root, done.out)
        return now

    async def changes(self, base: Snapshot, now: Snapshot) -> WorkChanges:
        """Return what differs between two snapshots, and what must not be committed of it."""
        committed: tuple[PathChange, ...] = ()
        if now.head and base.head != now.head:
            committed = await self.objects().changes(base.head, now.head)
        files = tuple(dict.fromkeys([*(shown(os.fsencode(one.path)) for one in committed), *now.files]))
        links = (one.path for one in committed if one.mode_after == GITLINK != one.mode_before)
        heavy = tuple(file for file in now.heavy if file not in base.heavy)
        conflicted = await self._conflicted(base, now, files)
        return WorkChanges(files, (*now.links, *links), now.unmerged, conflicted, heavy)

    async def _conflicted(self, base: Snapshot, now: Snapshot, files: Sequence[str]) -> tuple[str, ...]:
        """Return the files in which an agent left conflict markers; git is asked only if there are some."""
        marked = [path for path in files if has_markers(self.root / path)]
        if not marked or now.links:  # a repository inside this one keeps git from making a tree
            return ()
        found = await self.objects().conflicted(base.head, await self.tree(now))
        return tuple(path for path in marked if path in found)

    @property
    def heavy(self) -> tuple[str, ...]:
        """Changed files that were too large for git when it last looked."""
        return tuple(path for path, _ in self._heavy)

    def objects(self) -> Objects:
        """Return what its commits contain, read where its configuration has no say."""
        return Objects(common_dir(self.git_dir))

    async def tree(self, now: Snapshot) -> str:
        """Return everything that is here as a git tree: what a commit would contain."""
        staged = self._staged
        if staged is None or staged.now != now or self.recent() != now or not staged.is_current(self.root):
            staged, _ = await stage(self.git_dir, self.root, now, self.run, self.add_all)
            self._staged = staged
        return staged.tree

    async def patch(self, base: str, now: Snapshot) -> tuple[str, str]:
        """Return everything that is here as a git tree, and how it differs from a commit."""
        objects = self.objects()
        if not now.dirty:
            return now.head, await objects.diff(base, now.head)

        async def look(index: Path, complete: Awaitable[object]) -> str:
            with contextlib.suppress(WorkspaceError):  # a split index is not all there
                return await objects.diff_index(base, index, complete)
            return ""

        staged, diff = await stage(self.git_dir, self.root, now, self.run, self.add_all, look)
        self._staged = staged
        return staged.tree, diff or await objects.diff(base, staged.tree)

    async def tree_of(self, commit: str) -> str:
        """Return the tree of a commit."""
        return await self.objects().tree_of(commit)

    async def commit(self, message: str) -> str | None:
        """Commit everything and return the commit, or None when there was nothing to commit."""
        began, left = time.monotonic(), self.recent()
        if left is not None and not left.dirty:
            return None
        self._left = None
        if not await self._add(left):
            return None
        options = (*await self.identity_options(), *self._housekeeping())
        # For git a submodule that was moved is nothing to commit, where settings let it ignore them.
        moved = bool(self._modules()) and not await self._nothing_staged()
        words = ("commit", "--quiet", "--file=-", *(("--allow-empty",) if moved else ()))
        try:
            await self.run(*options, *words, stdin=message.encode())
        except WorkspaceError:
            if not await self._nothing_staged():
                raise
            # A git that was killed may have made the commit before.
            mark = message.strip().splitlines()[-1]
            head = await self.head()
            return head if head and mark in await self.git("log", "-1", "--format=%B") else None
        head = await self.head()
        if head and left is not None and not (self._heavy or self._has_folders(left)):
            self._left = began, Snapshot(head, left.branch, "")
        return head

    async def _add(self, left: Snapshot | None) -> bool:
        """Add everything to the index, or what `tree` has just added; return whether there is something."""
        staged, self._staged = self._staged, None
        if staged is not None and staged.now == left and staged.install(self.git_dir, self.root):
            return True
        # What was just added can be committed, as a rule: one git process less for every task.
        return await self.add_all() or not await self._nothing_staged()

    async def add_all(self, extra: Mapping[str, str] | None = None) -> bool:
        """Add everything to an index, and the commits of submodules by their id; return whether it was much.

        `git add` would start another git in each submodule. Files that are too large are left out.
        """
        modules = self._modules()
        others = (*modules, *left_out(self._heavy))
        paths = _all_but((*self.own, *others)) if others else self.without_own()
        added = (await self.run("add", "--all", "--verbose", *paths, extra=extra)).out
        heads = {path: checked_out(self.root, path) for path in modules}
        moved = [
            f"160000 {head}\t{path}\0" for path, head in heads.items() if head not in ("", modules[path])
        ]
        if moved:
            lines = "".join(moved).encode("utf-8", "surrogateescape")
            await self.run("update-index", "-z", "--index-info", stdin=lines, extra=extra)
        return bool(added or moved)

    def _modules(self) -> dict[str, str]:
        """Return the submodules that are there, each with the commit that the index names."""
        links = find_gitlinks(self.git_dir)
        return {path: commit for path, commit in links.items() if (self.root / path).is_dir()}

    def keep_out(self, files: Iterable[Path]) -> None:
        """Exclude these files from snapshots and commits."""
        real = self.root.resolve()
        self.own = tuple(str(path.relative_to(real)) for path in files if path.is_relative_to(real))

    def without_own(self) -> list[str]:
        """Return the pathspec for everything but Segue's own state files."""
        return _all_but(self.own) if self.own else []

    async def set_aside(self, message: str) -> str:
        """Move all uncommitted changes out of the work tree and return where they are kept."""
        self._left = None
        identity = await self.identity_options()
        others = (*self._modules(), *left_out(self._heavy))
        paths = _all_but(others) if others else []
        stash = ("stash", "push", "--quiet", "--include-untracked", "--message", message)
        await self.run(*identity, *stash, *paths)
        return f"git stash ({message!r})"

    async def head(self) -> str:
        """Return the current commit; empty in a repository without commits."""
        if found := read_head(self.git_dir, common_dir(self.git_dir)):
            return found
        done = await run_outside(self.place, "rev-parse", "--verify", "--quiet", "HEAD")
        return done.out.decode().strip()

    async def begin(self, key: str, head_branch: str | None) -> Snapshot:  # noqa: ARG002 - works in place
        """Return what a task starts with: what the previous one just left, or a new snapshot."""
        left = self.recent()
        self._left = None
        return left or await self.snapshot()

    async def arrive(self, branches: Sequence[str], before: Snapshot) -> Snapshot:  # noqa: ARG002 - in place
        """Return what a launch left: a snapshot of the work tree."""
        began = time.monotonic()
        now = await self.snapshot()
        self._left = began, now
        return now

    async def diff(self, base: str, head: str) -> str:
        """Return the unified diff between two commits, whatever the repository's settings make of it."""
        return await self.objects().diff(base, head)

    @asynccontextmanager
    async def checkout(self, head: str) -> AsyncIterator[Path]:  # noqa: ARG002 - the work tree is at its head
        """Yield a folder in which the commit can be inspected and tested."""
        yield self.root

    async def find_commit(self, base: str, mark: str) -> str | None:
        """Return the commit after `base` whose message contains the mark."""
        # A commit that another process began may have outlived it, in a slow hook for example.
        await wait_for_git([self.root], TIMEOUT, "commit")
        if not await self.head():
            return None
        span = f"{base}..HEAD" if base else "HEAD"
        done = await self.run("log", "--format=%H", "--fixed-strings", f"--grep={mark}", span)
        found = done.out.decode().split()
        return found[0] if found else None

    async def recover(self, since: float, patience: float = TIMEOUT) -> None:
        """Make the repository usable after a kill: remove stale locks and half-made work trees since then."""
        clear_brief_folders()
        clear_temporary(self.git_dir)
        await clear_stale_locks(self.root, self.git_dir, common_dir(self.git_dir), since, patience)

    async def has_branch(self, name: str) -> bool:
        """Return whether there is a local branch of this name."""
        ref = f"refs/heads/{name}"
        return (await run_outside(self.place, "show-ref", "--verify", "--quiet", ref)).exit_code == 0

    async def branch_head(self, name: str) -> str:
        """Return the commit of a local branch; empty if there is none."""
        done = await run_outside(self.place, "rev-parse", "--verify", "--quiet", f"refs/heads/{name}")
        return done.out.decode().strip()

    async def git(self, *args: str, stdin: bytes = b"", extra: Mapping[str, str] | None = None) -> str:
        """Run any other git command and return its output."""
        self._left = None
        return (await self.run(*args, stdin=stdin, extra=extra)).out.decode("utf-8", "replace")

    async def fetch(self, remote: str, ref: str, kept: str) -> None:
        """Fetch a ref of a remote under a ref of ours. A kill leaves no lock at a ref of the user's."""
        quietly = ("--quiet", "--no-tags", "--no-auto-gc", "--no-write-fetch-head", "--refmap=")
        await self.git("fetch", *quietly, remote, f"+{ref}:{kept}")

    async def setting(self, name: str) -> str:
        """Return a value of the repository's configuration; empty if it is not set."""
        return (await read_config(self.place)).effective.get(name, "").strip()

    async def settings(self, pattern: str) -> dict[str, str]:
        """Return the values of the repository's configuration whose names match; the last one counts."""
        found = (await read_config(self.place)).effective
        return {name: value for name, value in found.items() if re.search(pattern, name)}

    async def set(self, name: str, value: str) -> None:
        """Write a value into the repository's own configuration."""
        await self.git("config", "--file", str(common_dir(self.git_dir) / "config"), name, value)

    async def remote_url(self, name: str = "origin") -> str | None:
        """Return the URL of a remote; None if there is no such remote."""
        done = await run_outside(self.place, "remote", "get-url", name)
        return done.out.decode("utf-8", "replace").strip() or None

    def recent(self) -> Snapshot | None:
        """Return what was just seen: nobody has edited a file since. Later, git has to look again."""
        left = self._left
        return left[1] if left is not None and time.monotonic() - left[0] < self.believed else None

    def _has_folders(self, left: Snapshot) -> bool:
        """Return whether there are changes in submodules: a commit here does not hold them."""
        return any((self.root / path).is_dir() for path in left.files)

    async def _nothing_staged(self) -> bool:
        return (await run_outside(self.place, "diff", "--cached", "--quiet", *PLAIN_DIFF)).exit_code == 0

    async def author(self) -> str:
        """Return the name that git would write into a commit; empty if it knows none."""
        known = await run_outside(self.place, "var", "GIT_AUTHOR_IDENT")
        return known.out.decode("utf-8", "replace").partition(" <")[0].strip() if known.exit_code == 0 else ""

    def _housekeeping(self) -> tuple[str, ...]:
        """Return the option that keeps git from checking whether to run `gc`; now and then it may."""
        self._commits += 1
        return () if self._commits % _TIDY == 1 else ("-c", "maintenance.auto=false")

    async def identity_options(self) -> tuple[str, ...]:
        """Return what lets git commit where it knows nobody."""
        if self._identity is None:
            named = await self.settings(r"^user\.(name|email)$")
            known = all(named.get(f"user.{part}", "").strip() for part in ("name", "email"))
            if not known:  # by the environment, perhaps, or by the system
                known = (await run_outside(self.place, "var", "GIT_COMMITTER_IDENT")).exit_code == 0
            self._identity = () if known else FALLBACK_IDENTITY
        return self._identity

    async def run(self, *args: str, stdin: bytes = b"", extra: Mapping[str, str] | None = None) -> Captured:
        """Run git and return its raw output; retry for a moment while another git has the index lock."""
        for pause in (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, None):
            done = await self.try_git(*args, stdin=stdin, extra=extra)
            if done.exit_code == 0:
                return done
            if b"index.lock" not in done.err or pause is None:
                break
            _log.info("git %s: the index is locked by another git; again in %g s", verb_of(args), pause)
            await asyncio.sleep(pause)
        _log.info("git %s failed in %s: exit code %d", verb_of(args), self.root, done.exit_code)
        raise WorkspaceError(
            f"git {verb_of(args)} failed in {self.root}: {done.said}",
            kept="The work tree is as git left it; nothing was deleted.",
            hint=f"Fix what git reports, then {AGAIN}",
        )

    async def try_git(
        self,
        *args: str,
        stdin: bytes = b"",
        extra: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT,
        limit: int = 64 * 1024**2,
    ) -> Captured:
        """Run git and return how it ended, whatever it says."""
        try:
            return await run_outside(
                self.place, *args, stdin=stdin, extra=extra, timeout=timeout, limit=limit
            )
        except TimeoutError as error:
            raise WorkspaceError(
                f"git {verb_of(args)} did not end: {error}.",
                kept="The work tree is as git left it; nothing was deleted.",
                hint=f"Look what git waits for, then {AGAIN}",
            ) from None


def _all_but(paths: Iterable[str]) -> list[str]:
    """Return the pathspec for everything but some paths."""
    return ["--", ":/", *(f":(top,exclude,literal){path}" for path in paths)]


async def look(path: Path) -> tuple[Repository, Snapshot]:
    """Return the repository around a path and a snapshot of it; nothing is changed there.

    Nobody may have read its configuration yet: raises WorkspaceError where that leads elsewhere.
    """
    repo = await Repository.open(path, LOOK_TIMEOUT)
    here = work_tree(Path(os.path.realpath(path)))
    if os.path.realpath(repo.root) != str(here):
        raise WorkspaceError(
            f"The configuration of git in {here} says that the work tree is {repo.root}.",
            kept="Nothing was read there.",
            hint="See: git config core.worktree",
        )
    return repo, await take_snapshot(repo)
