"""Git as Segue uses it: snapshots for evidence, commits with trailers. Always the user's own `git`."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from segue.domain.errors import ToolMissing, WorkspaceError
from segue.domain.workspace import Snapshot
from segue.system.process.processes import Captured, capture, child_environment

NOT_A_REPOSITORY = "Target path is not a git repository"
_TIMEOUT = 300.0
_FALLBACK_IDENTITY = ("-c", "user.name=Segue", "-c", "user.email=segue@localhost")
_SMALL = 16 * 1024
"""Bytes of a status that is read at once: a thread costs more than a hundred files."""
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""What git calls the tree without files: the base in a repository without commits."""
_ENVIRONMENT = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}


@dataclass(slots=True)
class Repository:
    """One work tree."""

    root: Path
    git_dir: Path
    own: tuple[str, ...] = ()
    """Files in which Segue keeps score: no evidence, never committed with an agent's work."""
    _identity: tuple[str, ...] | None = field(default=None, repr=False)
    _left: Snapshot | None = field(default=None, repr=False)
    """What the last launch left, as long as nothing was done since."""

    @classmethod
    async def open(cls, path: Path) -> Repository:
        """Find the work tree that holds the path."""
        if shutil.which("git") is None:
            raise ToolMissing("git was not found on PATH.", hint="Install git: https://git-scm.com/downloads")
        if not path.is_dir():
            raise WorkspaceError(f"{NOT_A_REPOSITORY}: {path} is not a folder.")
        done = await _git(path, "rev-parse", "--show-toplevel", "--absolute-git-dir")
        lines = done.out.decode("utf-8", "surrogateescape").splitlines()
        if done.exit_code != 0 or len(lines) != 2:
            why = done.err.decode("utf-8", "replace").strip().splitlines()
            detail = why[0] if why and "not a git repository" not in why[0] else ""
            raise WorkspaceError(
                f"{NOT_A_REPOSITORY}: {path}" + (f" ({detail})" if detail else ""),
                hint=f"Make it one with: git init {path}   or name another with --repo",
            )
        return cls(Path(lines[0]), Path(lines[1]))

    async def snapshot(self) -> Snapshot:
        """What the work tree looks like now."""
        arguments = ["status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all"]
        done = await self._run(*arguments, *self._without_own())
        if len(done.out) < _SMALL:
            return _parse_status(self.root, done.out)
        return await asyncio.to_thread(_parse_status, self.root, done.out)

    async def files_since(self, base: Snapshot, now: Snapshot) -> tuple[str, ...]:
        """The paths that differ between two snapshots."""
        committed: list[str] = []
        if base.head and now.head and base.head != now.head:
            done = await self._run("diff", "--name-only", "-z", base.head, now.head)
            committed = [path for path in done.out.decode("utf-8", "replace").split("\0") if path]
        return tuple(dict.fromkeys([*committed, *now.files]))

    async def commit(self, message: str) -> str | None:
        """Commit everything and return the commit, or None when there was nothing to commit."""
        self._left = None
        added = await self._run("add", "--all", "--verbose", *self._without_own())
        # Whatever was just added is there to commit, as a rule; one git less for every task.
        if not added.out and await self._nothing_staged():
            return None
        identity = await self._identity_options()
        try:
            await self._run(*identity, "commit", "--quiet", "--file=-", stdin=message.encode())
        except WorkspaceError:
            if await self._nothing_staged():
                return None
            raise
        return await self.head()

    def keep_out(self, files: Iterable[Path]) -> None:
        """Leave these files out of snapshots and commits; files elsewhere are out anyway."""
        real = self.root.resolve()
        self.own = tuple(str(path.relative_to(real)) for path in files if path.is_relative_to(real))

    def _without_own(self) -> list[str]:
        return ["--", ":/", *(f":(top,exclude,literal){path}" for path in self.own)] if self.own else []

    async def set_aside(self, message: str) -> str:
        """Take all uncommitted changes out of the work tree, keep them, and say where."""
        self._left = None
        identity = await self._identity_options()
        await self._run(*identity, "stash", "push", "--quiet", "--include-untracked", "--message", message)
        return f"git stash ({message!r})"

    async def head(self) -> str:
        """The current commit; empty in a repository without commits."""
        done = await _git(self.root, "rev-parse", "--verify", "--quiet", "HEAD")
        return done.out.decode().strip()

    async def begin(self, key: str, head_branch: str | None) -> Snapshot:  # noqa: ARG002 - works in place
        """What a task begins with: what the one before has just left, else the work tree as it is."""
        left, self._left = self._left, None
        return left or await self.snapshot()

    async def arrive(self, branches: Sequence[str], before: Snapshot) -> Snapshot:  # noqa: ARG002 - in place
        """What a launch has left: the work tree as it is now."""
        self._left = await self.snapshot()
        return self._left

    async def diff(self, base: str, head: str) -> str:
        """What changed between two commits, as a unified diff."""
        done = await self._run("diff", "--no-color", "--no-ext-diff", base or EMPTY_TREE, head)
        return done.out.decode("utf-8", "replace")

    @asynccontextmanager
    async def checkout(self, head: str) -> AsyncIterator[Path]:  # noqa: ARG002 - the work tree is at its head
        """A folder in which the commit can be looked at and tried out."""
        yield self.root

    async def find_commit(self, base: str, mark: str) -> str | None:
        """The commit after `base` whose message holds the mark."""
        if not await self.head():
            return None
        span = f"{base}..HEAD" if base else "HEAD"
        done = await self._run("log", "--format=%H", "--fixed-strings", f"--grep={mark}", span)
        found = done.out.decode().split()
        return found[0] if found else None

    async def has_branch(self, name: str) -> bool:
        """Whether there is a local branch of this name."""
        ref = f"refs/heads/{name}"
        return (await _git(self.root, "show-ref", "--verify", "--quiet", ref)).exit_code == 0

    async def git(self, *args: str) -> str:
        """Run any other git command and return what it says."""
        return (await self._run(*args)).out.decode("utf-8", "replace")

    async def setting(self, name: str) -> str:
        """A value of the repository's configuration; empty when it is not set."""
        done = await _git(self.root, "config", "--get", name)
        return done.out.decode("utf-8", "replace").strip()

    async def remote_url(self, name: str = "origin") -> str | None:
        """Where a remote lies; None when there is no such remote."""
        done = await _git(self.root, "remote", "get-url", name)
        return done.out.decode("utf-8", "replace").strip() or None

    async def _nothing_staged(self) -> bool:
        return (await _git(self.root, "diff", "--cached", "--quiet")).exit_code == 0

    async def _identity_options(self) -> tuple[str, ...]:
        if self._identity is None:
            known = await _git(self.root, "var", "GIT_COMMITTER_IDENT")
            self._identity = () if known.exit_code == 0 else _FALLBACK_IDENTITY
        return self._identity

    async def _run(self, *args: str, stdin: bytes = b"") -> Captured:
        """Run git; wait for an index lock that another git holds for a moment."""
        for pause in (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, None):
            done = await _git(self.root, *args, stdin=stdin)
            if done.exit_code == 0:
                return done
            if b"index.lock" not in done.err or pause is None:
                break
            await asyncio.sleep(pause)
        raise WorkspaceError(
            f"git {_verb(args)} failed in {self.root}: {_said(done)}",
            kept="The work tree is as git left it; nothing was deleted.",
            hint="Mend what git complains about, then: segue resume",
        )


async def new_repository(folder: Path) -> bool:
    """Make a folder that is missing or empty a repository with one empty commit; whether that was done."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        return False
    known = next(place for place in (folder, *folder.parents) if place.is_dir())
    if (await _git(known, "var", "GIT_AUTHOR_IDENT")).exit_code != 0:
        raise WorkspaceError(
            "git does not know who you are, so nothing can be committed.",
            kept="Nothing was made.",
            hint='git config --global user.name "Your Name"; git config --global user.email you@example.com',
        )
    folder.mkdir(parents=True, exist_ok=True)
    await _git(folder, "init", "--quiet")
    repo = await Repository.open(folder)
    if repo.root != Path(os.path.realpath(folder)):
        return False
    await repo.git("commit", "--quiet", "--allow-empty", "-m", "Start")
    return True


async def _git(where: Path, *args: str, stdin: bytes = b"") -> Captured:
    environment = child_environment(passed=_git_variables(), extra=_ENVIRONMENT)
    return await capture(["git", *args], cwd=where, env=environment, timeout=_TIMEOUT, stdin=stdin)


def _git_variables() -> list[str]:
    """Hooks and signing need what the user's own git has; but not a repository named from outside."""
    foreign = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"}
    wanted = ("GIT_", "GPG_", "GNUPG", "SSH_", "VIRTUAL_ENV")
    return [name for name in os.environ if name.startswith(wanted) and name not in foreign]


def _verb(args: tuple[str, ...]) -> str:
    return next((arg for arg in args if arg.isalpha()), "")


def _said(done: Captured) -> str:
    text = (done.err or done.out).decode("utf-8", "replace").strip()
    return text[-2000:] or f"exit code {done.exit_code}"


def _parse_status(root: Path, raw: bytes) -> Snapshot:
    head = branch = ""
    entries: list[bytes] = []
    paths: list[bytes] = []
    fields = iter(raw.split(b"\0"))
    for entry in fields:
        if entry.startswith(b"# branch.oid "):
            head = entry[13:].decode().replace("(initial)", "")
        elif entry.startswith(b"# branch.head "):
            branch = entry[14:].decode("utf-8", "replace").replace("(detached)", "")
        elif entry[:2] in (b"1 ", b"2 ", b"u ", b"? "):
            if entry[:2] == b"2 ":
                paths.append(next(fields))
            paths.append(_path_of(entry))
            entries.append(entry)
    return Snapshot(head, branch, _fingerprint(root, entries, paths), tuple(map(_shown, paths)))


def _path_of(entry: bytes) -> bytes:
    """The path is the last field: after 8 others for ordinary, 9 for renamed, 10 for unmerged entries."""
    count = {b"1": 8, b"2": 9, b"u": 10, b"?": 1}[entry[:1]]
    return entry.split(b" ", count)[count]


def _shown(path: bytes) -> str:
    return path.decode("utf-8", "replace")


def _fingerprint(root: Path, entries: list[bytes], paths: list[bytes]) -> str:
    if not entries:
        return ""
    digest = hashlib.sha256(b"\0".join(entries))
    for path in paths:
        try:
            stat = os.lstat(os.path.join(os.fsencode(root), path))  # noqa: PTH118 - bytes paths
            digest.update(b"%d %d %d\0" % (stat.st_mtime_ns, stat.st_size, stat.st_mode))
        except OSError:
            digest.update(b"gone\0")
    return digest.hexdigest()[:32]
