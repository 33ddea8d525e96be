"""What surrounds the commits of a repository, before and after an agent worked in it.

Refs, configuration, hooks, exclude files and flags of the index decide what git shows and does later. They
are read from files, so that looking costs no process and runs nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import msgspec

from segue.domain.errors import WorkspaceError
from segue.system.files import write_atomic
from segue.system.git.objects import Objects
from segue.system.git.repository import Repository

_UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
}
_KEPT_BYTES = 1024 * 1024
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
    index: tuple[int, int, int] = (0, 0, 0)
    """Identity, size and time of the index: who did not touch it set no flags in it."""
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

    @property
    def head(self) -> str:
        """The commit that is checked out now."""
        return _read_head(self._repo.git_dir, _read_refs(self._common))[1]

    def look(self) -> GitState:
        """Return what is there now; the guarded files are kept, so that they can be put back."""
        branch, head = _read_head(self._repo.git_dir, refs := _read_refs(self._common))
        files = {}
        for path in self._guarded():
            data = _read(path)
            digest = files[str(path)] = hashlib.sha256(data).hexdigest()
            if not (kept := self._folder / digest).exists():
                self._folder.mkdir(parents=True, exist_ok=True)
                write_atomic(kept, data)
        under_way = tuple(name for name in _UNDER_WAY if (self._repo.git_dir / name).exists())
        return GitState(head, branch, refs, files, _signature(self._repo.git_dir / "index"), under_way)

    async def compare(self, before: GitState, label: str) -> list[GitViolation]:
        """Return what an agent did that it must not do; undone where nothing is lost by it."""
        now = self.look()
        found = [*self._restore(before, now), *await self._hidden(before, now)]
        for name in now.under_way:
            if name not in before.under_way:
                what = f"The agent left {_UNDER_WAY[name]} under way. Finish or abort it."
                found.append(GitViolation("history", what))
        if before.head and now.head != before.head and now.branch == before.branch:
            found += await self._rewritten(before, now, label)
        return [*found, *await self._other_refs(before, now)]

    def _guarded(self) -> list[Path]:
        places = [self._common / "config", self._repo.git_dir / "config.worktree"]
        places += [self._common / "info" / name for name in ("exclude", "attributes", "grafts")]
        places.append(self._common / "objects" / "info" / "alternates")
        hooks = self._common / "hooks"
        if hooks.is_dir():
            places += sorted(path for path in hooks.iterdir() if path.suffix != ".sample")
        return [path for path in places if path.is_file()]

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
            old = _read(self._folder / before.files[name]) if name in before.files else None
            new = _read(path)
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


def _read_head(git_dir: Path, refs: dict[str, str]) -> tuple[str, str]:
    """Return the branch (empty when detached) and the commit of HEAD."""
    said = _read(git_dir / "HEAD").decode("utf-8", "replace").strip()
    if not said.startswith("ref: "):
        return "", said
    ref = said.removeprefix("ref: ")
    return ref.removeprefix("refs/heads/"), refs.get(ref, "")


def _read_refs(common: Path) -> dict[str, str]:
    refs = {}
    for line in _read(common / "packed-refs", 64 * _KEPT_BYTES).decode("utf-8", "replace").splitlines():
        if line[:1] not in ("#", "^", ""):
            value, _, name = line.partition(" ")
            refs[name] = value
    for folder, folders, names in os.walk(common / "refs"):
        if "segue" in folders and Path(folder) == common / "refs":
            folders.remove("segue")
        for name in names:
            path = Path(folder) / name
            if not name.endswith(".lock"):
                refs[path.relative_to(common).as_posix()] = _read(path).decode("utf-8", "replace").strip()
    return refs


def _read(path: Path, limit: int = _KEPT_BYTES) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(limit)
    except OSError:
        return b""


def _signature(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0, 0
    return found.st_ino, found.st_size, found.st_mtime_ns


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
