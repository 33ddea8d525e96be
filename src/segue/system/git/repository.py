"""A git repository, through the user's own `git`: snapshots for evidence, commits with trailers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import shutil
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from segue.domain.errors import AGAIN, WorkspaceError
from segue.domain.workspace import Snapshot, WorkChanges
from segue.system.files import clear_brief_folders, clear_temporary, signature
from segue.system.git.folders import GitPlace, common_dir, find_place, read_head
from segue.system.git.index import STATUS, has_markers, parse_status, shown
from segue.system.git.objects import GITLINK, Objects, PathChange
from segue.system.git.outside import (
    TIMEOUT,
    find_repository,
    pin_like,
    pinned_settings,
    run_outside,
    set_pinned,
    verb_of,
)
from segue.system.git.recovery import clear_stale_locks, wait_for_git
from segue.system.process.processes import Captured
from segue.system.reading import work_tree

_log = logging.getLogger(__name__)

FALLBACK_IDENTITY = ("-c", "user.name=Segue", "-c", "user.email=segue@localhost")
_TRUE = ("true", "yes", "on", "1")
LOOK_TIMEOUT = 120.0


class _Staged(Struct, frozen=True):
    """Everything that was in the work tree at one moment, as a tree and as the index it was made from."""

    now: Snapshot
    tree: str
    index: Path
    own: object
    """The state of git's own index then."""


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
    _staged: _Staged | None = None
    """The last evidence: what a commit will contain."""
    _head_tree: tuple[str, str] = ("", "")
    _modules: tuple[object, tuple[str, ...]] = (None, ())

    @classmethod
    async def open(cls, path: Path, timeout: float = TIMEOUT) -> Repository:
        """Open the work tree that contains the path."""
        return cls(*await find_repository(path, timeout))

    @property
    def place(self) -> GitPlace:
        """The work tree with its git folders."""
        return GitPlace.of(self.root, self.git_dir)

    async def snapshot(self) -> Snapshot:
        """Return a snapshot of the work tree."""
        inside = [path for path, one in (await self.modules()).items() if (await one.snapshot()).dirty]
        done = await self.run(*STATUS, *self.without_own())
        return parse_status(self.root, done.out, inside)

    async def changes(self, base: Snapshot, now: Snapshot) -> WorkChanges:
        """Return what differs between two snapshots, and what must not be committed of it."""
        committed: tuple[PathChange, ...] = ()
        if now.head and base.head != now.head:
            committed = await self.objects().changes(base.head, now.head)
        files = tuple(dict.fromkeys([*(shown(os.fsencode(one.path)) for one in committed), *now.files]))
        links = (one.path for one in committed if one.mode_after == GITLINK != one.mode_before)
        heavy = tuple(file for file in now.heavy if file not in base.heavy)
        inside = tuple(path for path in now.inside if path not in base.inside)
        conflicted = await self._conflicted(base, now, files)
        return WorkChanges(files, (*now.links, *links), now.unmerged, conflicted, heavy, inside)

    async def _conflicted(self, base: Snapshot, now: Snapshot, files: Sequence[str]) -> tuple[str, ...]:
        """Return the files in which an agent left conflict markers; git is asked only if there are some."""
        marked = [path for path in files if has_markers(self.root / path)]
        if not marked or now.links:  # a repository inside this one keeps git from making a tree
            return ()
        found = await self.objects().conflicted(base.head, await self.tree(now))
        return tuple(path for path in marked if path in found)

    def objects(self) -> Objects:
        """Return what its commits contain, read where its configuration has no say."""
        return Objects(common_dir(self.git_dir))

    async def tree(self, now: Snapshot) -> str:
        """Return everything that is here as a git tree: what a commit will contain."""
        left, staged = self.recent(), self._staged
        if left is not None and left.head and not left.dirty:
            return await self.tree_of(left.head)
        # What the journal knows of a snapshot is not what was dirty in it.
        if staged is None or (now.dirty and staged.now != now):
            self._staged = staged = await self._stage(now if now.dirty else await self.snapshot())
        return staged.tree

    async def patch(self, base: str, now: Snapshot) -> tuple[str, str]:
        """Return everything that is here as a git tree, and how it differs from a commit."""
        tree = await self.tree(now)
        return tree, await self.objects().diff(base, tree)

    async def tree_of(self, commit: str) -> str:
        """Return the tree of a commit."""
        if self._head_tree[0] != commit:
            self._head_tree = commit, await self.objects().tree_of(commit)
        return self._head_tree[1]

    async def _stage(self, now: Snapshot) -> _Staged:
        """Add everything that is in the work tree to a copy of the index, and make a tree of that."""
        index, copy = self.git_dir / "index", self.git_dir / f"segue-{os.getpid()}.index"
        own, extra = signature(index), {"GIT_INDEX_FILE": str(copy)}
        try:
            copy.with_name(f"{copy.name}.lock").unlink(missing_ok=True)  # of a git that was killed
            copy.unlink(missing_ok=True)
            with contextlib.suppress(FileNotFoundError):
                # With its time: git looks again at files that were changed in the moment when the index was.
                shutil.copy2(index, copy)
        except OSError as error:
            raise WorkspaceError(f"{index} cannot be copied: {error.strerror}") from error
        modules = await self.modules()
        left_out = (*self.own, *modules, *now.heavy)
        await self.run("add", "--all", *(_all_but(left_out) if left_out else ()), extra=extra)
        if modules:  # `git add` would start another git in each of them
            heads = {path: await one.head() for path, one in modules.items()}
            lines = "".join(f"160000 {head}\t{path}\0" for path, head in heads.items() if head)
            stdin = lines.encode("utf-8", "surrogateescape")
            await self.run("update-index", "-z", "--index-info", stdin=stdin, extra=extra)
        tree = (await self.run("write-tree", extra=extra)).out.decode().strip()
        return _Staged(now, tree, copy, own)

    async def commit(self, message: str) -> str | None:
        """Commit the tree that was looked at last and return the commit; None if there is nothing new in it.

        What was changed since then stays uncommitted.
        """
        left, staged = self.recent(), self._staged
        if staged is None:
            now = left or await self.snapshot()
            if now.dirty:
                staged = await self._stage(now)
        self._left, self._staged = None, None
        if staged is None:
            return None
        head = staged.now.head
        if head and staged.tree == await self.tree_of(head):
            return None
        made = await self.commit_tree(staged.tree, (head,) if head else (), message)
        began, installed = time.monotonic(), self._install(staged)
        log = ("update-ref", "-m", f"commit: {message.strip().partition(chr(10))[0]}")
        try:
            await self.run(*await self.identity_options(), *log, "HEAD", made, head or "0" * len(made))
        except WorkspaceError:
            if await self.ask_head() != made:  # a git that was killed may have done it
                raise
        if not installed:  # somebody else has changed the index meanwhile
            await self.run("reset", "--quiet")
        self._head_tree = made, staged.tree
        if left == staged.now and not (left.heavy or left.inside):
            self._left = began, Snapshot(made, left.branch, "")
        return made

    async def commit_tree(self, tree: str, parents: Sequence[str], message: str) -> str:
        """Make a commit of a tree and return it; no branch is moved."""
        signed = (await self.setting("commit.gpgsign")).lower() in _TRUE
        named = [word for parent in parents for word in ("-p", parent)]
        words = ("commit-tree", *(("-S",) if signed else ()), *named, "-F", "-", tree)
        text = f"{message.strip()}\n".encode()
        return (await self.run(*await self.identity_options(), *words, stdin=text)).out.decode().strip()

    def _install(self, staged: _Staged) -> bool:
        """Make the index from which a tree was made git's own; False if another git has been at work."""
        index, lock = self.git_dir / "index", self.git_dir / "index.lock"
        try:
            os.close(os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        except OSError:
            return False
        try:
            if signature(index) != staged.own:
                return False
            staged.index.replace(index)
        except OSError:
            return False
        finally:
            lock.unlink(missing_ok=True)
        return True

    async def modules(self) -> dict[str, Repository]:
        """Return the submodules that are checked out. Their own settings have no say: this one's count."""
        file = self.root / ".gitmodules"
        if (stamp := signature(file)) is None:
            return {}
        if self._modules[0] != stamp:
            asked = ("config", "--file", str(file), "--no-includes", "-z", "--get-regexp", r"\.path$")
            entries = (await self.try_git(*asked)).out.decode("utf-8", "surrogateescape").split("\0")
            self._modules = stamp, tuple(entry.partition("\n")[2] for entry in entries if "\n" in entry)
        found = {}
        for path in self._modules[1]:
            place = find_place(self.root / path)
            if place is not None and str(place.root) == f"{os.path.realpath(self.root)}/{path}":
                await pin_like(place, self.place)
                found[path] = Repository(place.root, place.git_dir)
        return found

    def keep_out(self, files: Iterable[Path]) -> None:
        """Exclude these files from snapshots and commits."""
        real = self.root.resolve()
        self.own = tuple(str(path.relative_to(real)) for path in files if path.is_relative_to(real))

    def without_own(self) -> list[str]:
        """Return the pathspec for everything but Segue's own state files."""
        return _all_but(self.own) if self.own else []

    async def set_aside(self, message: str) -> str:
        """Move all uncommitted changes out of the work tree and return where they are kept."""
        left_out = (*await self.modules(), *(await self.snapshot()).heavy)
        self._left, self._staged = None, None
        stash = ("stash", "push", "--quiet", "--include-untracked", "--message", message)
        await self.run(*await self.identity_options(), *stash, *(_all_but(left_out) if left_out else ()))
        return f"git stash ({message!r})"

    async def head(self) -> str:
        """Return the current commit; empty in a repository without commits."""
        return read_head(self.place)[1] or await self.ask_head()

    async def ask_head(self) -> str:
        """Return the same, as git says it."""
        return await self._resolve("HEAD")

    async def begin(self, key: str, head_branch: str | None) -> Snapshot:  # noqa: ARG002 - works in place
        """Return what a task starts with: what the previous one just left, or a new snapshot."""
        left = self.recent()
        self._left, self._staged = None, None
        return left or await self.snapshot()

    async def arrive(self, branches: Sequence[str], before: Snapshot) -> Snapshot:  # noqa: ARG002 - in place
        """Return what a launch left: a snapshot of the work tree."""
        began = time.monotonic()
        now = await self.snapshot()
        if self._staged is not None and self._staged.now != now:
            self._staged = None
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
        # A git that another process began may have outlived it.
        await wait_for_git([self.root], TIMEOUT, "update-ref")
        if not await self.head():
            return None
        span = f"{base}..HEAD" if base else "HEAD"
        done = await self.run("log", "--format=%H", "--fixed-strings", f"--grep={mark}", span)
        found = done.out.decode().split()
        return found[0] if found else None

    async def recover(self, since: float, patience: float = TIMEOUT) -> None:
        """Make the repository usable after a kill: remove stale locks, and drafts of an index."""
        clear_brief_folders()
        clear_temporary(self.git_dir)
        for draft in self.git_dir.glob("segue-*.index*"):
            if not draft.name.startswith(f"segue-{os.getpid()}."):
                draft.unlink(missing_ok=True)
        await clear_stale_locks(self.root, self.git_dir, common_dir(self.git_dir), since, patience)

    async def has_branch(self, name: str) -> bool:
        """Return whether there is a local branch of this name."""
        return bool(await self.branch_head(name))

    async def branch_head(self, name: str) -> str:
        """Return the commit of a local branch; empty if there is none."""
        return await self._resolve(f"refs/heads/{name}")

    async def _resolve(self, name: str) -> str:
        done = await run_outside(self.place, "rev-parse", "--verify", "--quiet", name)
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
        return (await self.settings(f"^{re.escape(name)}$")).get(name, "").strip()

    async def settings(self, pattern: str) -> dict[str, str]:
        """Return the values of the repository's configuration whose names match; the last one counts."""
        pinned = await pinned_settings(self.place)
        return {
            name: "true" if value is None else value for name, value in pinned if re.search(pattern, name)
        }

    async def set(self, name: str, value: str) -> None:
        """Write a value into the repository's own configuration."""
        await set_pinned(self.place, name, value)

    async def remote_url(self, name: str = "origin") -> str | None:
        """Return the URL of a remote; None if there is no such remote."""
        done = await run_outside(self.place, "remote", "get-url", name)
        return done.out.decode("utf-8", "replace").strip() or None

    def recent(self) -> Snapshot | None:
        """Return what was just seen: nobody has edited a file since. Later, git has to look again."""
        left = self._left
        return left[1] if left is not None and time.monotonic() - left[0] < self.believed else None

    async def author(self) -> str:
        """Return the name that git would write into a commit; empty if it knows none."""
        known = await run_outside(self.place, "var", "GIT_AUTHOR_IDENT")
        return known.out.decode("utf-8", "replace").partition(" <")[0].strip() if known.exit_code == 0 else ""

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


async def take_snapshot(repo: Repository) -> Snapshot:
    """Return a snapshot of a work tree, without fetching anything."""
    here = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
    done = await repo.try_git(*STATUS, extra=here, timeout=LOOK_TIMEOUT)
    if done.exit_code != 0:
        raise WorkspaceError(f"git cannot say what has changed in {repo.root}: {done.said}")
    return parse_status(repo.root, done.out)


async def look(path: Path) -> tuple[Repository, Snapshot]:
    """Return the repository around a path and a snapshot of it; nothing is changed there.

    Raises WorkspaceError where its configuration leads elsewhere.
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
