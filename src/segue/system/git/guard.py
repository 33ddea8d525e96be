"""What surrounds the commits of a repository, before and after an agent worked in it.

Refs, configuration, hooks, exclude files and flags of the index decide what git shows and does later. They
are read from files, so that looking costs no process and runs nothing.
"""

# Every launch looks twice, and pathlib would cost more than looking.
# ruff: noqa: PTH110, PTH113, PTH116, PTH208
from __future__ import annotations

import contextlib
import hashlib
import os
import re
from pathlib import Path

import msgspec

from segue.domain.errors import WorkspaceError
from segue.system.files import read_start, write_atomic
from segue.system.git.gitlinks import mark_modules
from segue.system.git.objects import Objects
from segue.system.git.refs import read_branch, read_head, read_refs
from segue.system.git.repository import Repository

_UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
}
_HARMLESS = re.compile(
    r"\s*\[(user|author|committer|branch|remote|color|advice|gc|maintenance|segue)\b", re.IGNORECASE
)
"""Sections of the configuration that change neither what git shows nor what it runs."""


class GitState(msgspec.Struct, frozen=True):
    """The surroundings of a repository's commits at one moment."""

    head: str = ""
    branch: str = ""
    refs: dict[str, str] = {}
    files: dict[str, str] = {}
    """Configuration, hooks, exclude and attribute files: path → digest of the content."""
    modules: dict[str, str] = {}
    """Submodules: path → digest of what their files' times and sizes tell."""
    index: tuple[int, ...] = ()
    """Identity, size and times of the index: where it is untouched, no flags were set in it."""
    under_way: tuple[str, ...] = ()


class GitViolation(msgspec.Struct, frozen=True):
    """Something that an agent must not do to a repository."""

    subject: str
    text: str
    fails: bool = True
    """Whether the attempt fails for it; otherwise it is only reported."""


class GitGuard:
    """Compares a repository's surroundings before and after a launch, and puts back what must not change."""

    def __init__(self, repo: Repository, common_dir: Path, folder: Path) -> None:
        """`folder` keeps the content of the guarded files, out of the agent's way."""
        self._repo = repo
        self._common = common_dir
        self._folder = folder
        self._objects = Objects(common_dir)
        self._kept: set[str] = set()

    @property
    def head(self) -> str:
        """The commit that is checked out now."""
        return read_head(self._repo.git_dir, self._common)

    def look(self) -> GitState:
        """Return what is there now; the guarded files are kept, so that they can be put back."""
        branch, head = read_branch(self._repo.git_dir, refs := read_refs(self._common))
        files = {path: self._keep(path) for path in self._guarded()}
        git_dir = str(self._repo.git_dir)
        under_way = tuple(name for name in _UNDER_WAY if os.path.exists(f"{git_dir}/{name}"))
        modules = mark_modules(self._repo.root, self._repo.git_dir)
        return GitState(head, branch, refs, files, modules, _signature(f"{git_dir}/index"), under_way)

    async def compare(self, before: GitState, label: str) -> list[GitViolation]:
        """Return what an agent did that it must not do; undone where nothing is lost by it."""
        now = self.look()
        found = [*self._restore(before, now), *await self._hidden(before, now)]
        for path in (path for path, mark in now.modules.items() if before.modules.get(path, mark) != mark):
            what = f"The agent changed files in the submodule {path}; Segue does not record changes there."
            found.append(GitViolation("submodule", what, fails=False))
        for name in now.under_way:
            if name not in before.under_way:
                what = f"The agent left {_UNDER_WAY[name]} under way. Finish or abort it."
                found.append(GitViolation("history", what))
        if before.head and now.head != before.head and now.branch == before.branch:
            found += await self._rewritten(before, now, label)
        return [*found, *await self._other_refs(before, now)]

    def _keep(self, path: str) -> str:
        """Return a digest of a file, and keep its content."""
        data = read_start(path)
        digest = hashlib.sha256(data).hexdigest()
        if digest not in self._kept:
            if not os.path.exists(kept := f"{self._folder}/{digest}"):
                self._folder.mkdir(parents=True, exist_ok=True)
                write_atomic(Path(kept), data)
            self._kept.add(digest)
        return digest

    def _guarded(self) -> list[str]:
        common = str(self._common)
        places = [f"{common}/config", f"{self._repo.git_dir}/config.worktree"]
        places += [f"{common}/info/{name}" for name in ("exclude", "attributes", "grafts")]
        places.append(f"{common}/objects/info/alternates")
        hooks = f"{common}/hooks"
        with contextlib.suppress(OSError):
            names = (name for name in os.listdir(hooks) if not name.endswith(".sample"))
            places += sorted(f"{hooks}/{name}" for name in names)
        return [place for place in places if os.path.isfile(place)]

    def _restore(self, before: GitState, now: GitState) -> list[GitViolation]:
        """Put guarded files back as they were."""
        found = []
        for name in sorted({*before.files, *now.files}):
            if before.files.get(name) == now.files.get(name):
                continue
            path = Path(name)
            shown = (
                path.relative_to(self._common.parent) if path.is_relative_to(self._common.parent) else path
            )
            old = read_start(self._folder / before.files[name]) if name in before.files else None
            new = read_start(path)
            if path.name == "config" and old is not None and _harmless(old, new):
                continue
            if old is None:
                path.unlink(missing_ok=True)
            else:
                write_atomic(path, old)
            subject = "git hooks" if path.parent.name == "hooks" else "git configuration"
            only_hooks_path = path.name == "config" and old is not None and _sets_only_hooks_path(old, new)
            text = f"The agent changed {shown}, which decides what git does. It was put back."
            found.append(GitViolation(subject, text, fails=not only_hooks_path))
        return found

    async def _hidden(self, before: GitState, now: GitState) -> list[GitViolation]:
        """Find files that were hidden from `git status` by flags of the index, and show them again."""
        if now.index == before.index:
            return []
        said = await self._repo.git("ls-files", "-v", "-z")
        entries = [entry for entry in said.split("\0") if entry]
        flagged = [entry[2:] for entry in entries if entry[0] == "S" or entry[0].islower()]
        hidden = [path for path in flagged if (self._repo.root / path).exists()]
        if not hidden:
            return []
        for flag in ("--no-assume-unchanged", "--no-skip-worktree"):
            await self._repo.git("update-index", flag, "--", *hidden[:1000])
        names = ", ".join(hidden[:5])
        return [GitViolation("hidden files", f"The agent hid files from git: {names}. They are shown again.")]

    async def _rewritten(self, before: GitState, now: GitState, label: str) -> list[GitViolation]:
        """Put the branch back when the commits it had are gone; the agent's own are kept under a ref."""
        if await self._objects.is_ancestor(before.head, now.head):
            return []
        kept = f"refs/segue/kept/{label}"
        what = f"The agent rewrote the history of {before.branch or 'HEAD'}: {before.head[:10]} was gone."
        try:
            await self._repo.git("update-ref", kept, now.head)
            await self._repo.git("reset", "--quiet", "--soft", before.head)
        except WorkspaceError as error:
            return [GitViolation("history", f"{what} It could not be put back: {error.message}")]
        text = (
            f"{what} It was put back; the agent's commits are kept as {kept}. Do not amend, reset or rebase."
        )
        return [GitViolation("history", text)]

    async def _other_refs(self, before: GitState, now: GitState) -> list[GitViolation]:
        """Name new branches, tags and stashes, and other branches whose history was rewritten."""
        shown = ("refs/heads/", "refs/tags/", "refs/stash", "refs/replace/")
        own = f"refs/heads/{before.branch}"
        fresh = [ref for ref in now.refs if ref.startswith(shown) and ref not in before.refs]
        stash = "refs/stash" in before.refs and now.refs.get("refs/stash") != before.refs["refs/stash"]
        named = [*fresh, *(["refs/stash"] if stash else [])]
        found = []
        if named:
            text = f"The agent made {', '.join(ref.removeprefix('refs/') for ref in named[:5])}."
            found.append(
                GitViolation("refs", text, fails=any(ref.startswith("refs/replace/") for ref in named))
            )
        for ref, old in before.refs.items():
            new = now.refs.get(ref)
            if ref == own or new == old or not ref.startswith("refs/heads/"):
                continue
            if new is None or not await self._objects.is_ancestor(old, new):
                text = f"Branch {ref.removeprefix('refs/heads/')} no longer contains {old[:10]}."
                found.append(GitViolation("refs", text, fails=False))
        return found


def _signature(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _harmless(before: bytes, after: bytes) -> bool:
    """Return whether two configurations differ only in sections that matter to nobody else."""
    return _essence(before) == _essence(after)


def _sets_only_hooks_path(before: bytes, after: bytes) -> bool:
    """Return whether only the folder of hooks was set, as tools such as husky do when they are installed."""
    kept = [line for line in _essence(after) if not line.lower().startswith("hookspath")]
    return kept == [line for line in _essence(before) if not line.lower().startswith("hookspath")]


def _essence(config: bytes) -> list[str]:
    lines, counts = [], True
    for line in config.decode("utf-8", "replace").splitlines():
        if line.lstrip().startswith("["):
            counts = not _HARMLESS.match(line)
        if counts and line.strip():
            lines.append(line.strip())
    return lines
