"""What git obeys in a repository: kept before an agent works there, put back and named afterwards.

An agent whose sandbox keeps git's folder as it is can change none of it. Then only HEAD is compared, to
notice a person who switches branches meanwhile.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from segue.domain.amounts import list_some
from segue.domain.errors import Unfinished, WorkspaceError
from segue.system.files import read_start, signature
from segue.system.git.folders import GitPlace, read_head
from segue.system.git.outside import ask_git
from segue.system.git.repository import Repository

_FILES = ("config", "config.worktree", "commondir", "gitdir", "HEAD", "shallow", "objects/info/alternates")
_FOLDERS = ("hooks", "info")
_WRITTEN = ("info/refs", "info/sparse-checkout")
"""What daily work with git writes there."""
_MOST_FILES, _LARGEST = 1000, 1024**2
_ODD = (0, stat.S_IFLNK)
"""Modes of what is no plain file: a pipe or the like, and a link."""
_NAMED = 5
_REPLACE, _HOOKS, _SETTINGS = "refs/replace/", "/hooks", "git configuration"
_BEGUN = {
    "MERGE_HEAD": ("A merge", "merge"),
    "CHERRY_PICK_HEAD": ("A cherry-pick", "cherry-pick"),
    "REVERT_HEAD": ("A revert", "revert"),
    "rebase-merge": ("A rebase", "rebase"),
    "rebase-apply": ("A rebase", "rebase"),
}
"""What git has not finished, by the file that says so, and the command that ends it."""


class GitViolation(msgspec.Struct, frozen=True):
    """Something that an agent must not do to a repository."""

    subject: str
    text: str
    fails: bool = True
    """Whether the attempt fails for it; otherwise it is only reported."""


class ObeyedFile(msgspec.Struct, frozen=True):
    """The content of a file that git obeys, as base64, and its mode; for a link, where it leads."""

    content: str
    mode: int


class GitState(msgspec.Struct, frozen=True):
    """What git obeys in a repository at one moment."""

    root: str = ""
    own: str = ""
    """The git folder of the work tree, and the one that all its work trees share."""
    common: str = ""
    head: str = ""
    branch: str = ""
    begun: tuple[str, ...] = ()
    files: dict[str, ObeyedFile] | None = None
    """By their paths; None: the sandbox keeps them."""
    refs: dict[str, str] = {}
    index: tuple[int, ...] = ()
    """Identity, size and times of the index: where it is untouched, no flags were set in it."""
    hidden: tuple[str, ...] = ()
    """Files that the user hides from `git status` by flags of the index."""


class GitGuard:
    """Compares what git obeys before and after a launch, and puts back what must not change."""

    def __init__(self, repo: Repository, *, sealed: bool = False) -> None:
        """`sealed` agents cannot write to git's folder."""
        self._repo, self._sealed = repo, sealed
        self._place = repo.place
        self._hidden: tuple[str, ...] = ()

    @property
    def root(self) -> Path:
        """The work tree."""
        return self._repo.root

    @property
    def head(self) -> str:
        """The commit that is checked out now."""
        return self._read_head()[1]

    async def prepare(self) -> None:
        """Learn which files the user hides from git, before the first agent works."""
        self._hidden = () if self._sealed else await self._list_hidden()

    def look(self) -> GitState:
        """Return what is there now; its content is kept, so that it can be put back."""
        branch, head = self._read_head()
        place = self._place
        return GitState(
            *(
                str(place.root),
                str(place.git_dir),
                str(place.common),
                head,
                branch,
                list_begun(self._place.git_dir),
            ),
            index=signature(place.git_dir / "index") or (),
            files=None if self._sealed else dict(_read_files(place)),
            refs={} if self._sealed else _list_refs(place),
            hidden=self._hidden,
        )

    async def compare(self, before: GitState, label: str) -> list[GitViolation]:
        """Return what an agent did that it must not do; undone where nothing is lost by it.

        Raises Unfinished where HEAD was moved, perhaps by somebody else, so that what the agent did cannot be
        seen before it is back.
        """
        if _is_replaced(self._place):
            what = f"The agent put something else in place of {self._place.common}"
            kept = "Nothing was changed there."
            raise Unfinished(f"{what}.", reason=what, kept=kept, hint="Put it back, then: segue resume")
        # Files come first: they decide what git does.
        texts = settle_surroundings(before)
        found = [
            GitViolation("git hooks" if _HOOKS in text else _SETTINGS, text, fails=False) for text in texts
        ]
        branch, head = self._read_head()
        begun = [name for name in list_begun(self._place.git_dir) if name not in before.begun]
        rewritten = bool(before.head) and not await self._repo.objects().is_ancestor(before.head, head)
        if branch != before.branch or (self._sealed and (begun or rewritten)):
            raise _moved(self._place, before, (branch, head), begun)
        if self._sealed:
            return found
        found += [await self._end(name) for name in begun]
        if rewritten:
            found.append(await self._put_history_back(before, head, label))
        found += await self._compare_refs(before, label)
        same_index = signature(self._place.git_dir / "index") == before.index
        return found if same_index else [*found, *await self._show_again(before)]

    def _read_head(self) -> tuple[str, str]:
        branch, head = read_head(self._place)
        return branch, head or ask_git(
            self._place, "rev-parse", "--verify", "--quiet", "HEAD"
        ).decode().strip()

    async def _end(self, name: str) -> GitViolation:
        """End a merge that was left open: its files stay; what is unresolved fails the attempt."""
        what, command = _BEGUN[name]
        unmerged = (await self._repo.snapshot()).unmerged
        if unmerged:
            return GitViolation("history", f"{what} was begun while the agent worked. Finish or abort it.")
        with contextlib.suppress(WorkspaceError):
            await self._repo.git(command, "--quit")
        text = f"{what} was begun while the agent worked. It was ended; its files stay as they were left."
        return GitViolation("history", text, fails=False)

    async def _put_history_back(self, before: GitState, made: str, label: str) -> GitViolation:
        """Put a branch back to its old tip; the new one is kept under a ref, and files stay as they are.

        Only files that are again as they were before the dropped commits get the work of those back. The
        attempt fails if nothing else is left of it.
        """
        kept, name = f"refs/segue/kept/{label}", before.branch or "HEAD"
        what = f"The history of {name} was rewritten while the agent worked: {before.head[:10]} was gone."
        try:
            if made:
                await self._repo.git("update-ref", kept, made)
            await self._repo.git("reset", "--quiet", "--soft", before.head)
            undone = await self._find_undone(before.head, made)
            if undone:
                listed = b"".join(os.fsencode(path) + b"\0" for path in undone)
                files = ("--pathspec-from-file=-", "--pathspec-file-nul")
                restore = ("restore", "--quiet", "--source=HEAD", "--staged", "--worktree", *files)
                await self._repo.git("--literal-pathspecs", *restore, stdin=listed)
            works = not undone or bool((await self._repo.snapshot()).dirty)
        except WorkspaceError as error:
            return GitViolation("history", f"{what} It could not be put back: {error.message}")
        lost = f" So were the files that it had undone: {list_some(undone, _NAMED)}." if undone else ""
        text = f"{what} It was put back; what it was made is kept as {kept}.{lost}"
        return GitViolation("history", f"{text} Do not amend, reset or rebase.", fails=not works)

    async def _find_undone(self, head: str, made: str) -> list[str]:
        """Return the files that are as they were before commits which a rewritten history dropped."""
        objects = self._repo.objects()
        asked = await objects.git("merge-base", head, made, codes=(0, 1)) if made else None
        fork = asked.out.decode().strip() if asked is not None else ""
        now = await self._repo.tree(await self._repo.snapshot())
        differ = {one.path for one in await objects.changes(fork, now)}
        return [one.path for one in await objects.changes(fork, head) if one.path not in differ]

    async def _compare_refs(self, before: GitState, label: str) -> list[GitViolation]:
        """Put back what replaces commits; name other refs that were made, deleted or rewritten.

        Those may be a person's doing, so they stay; what they no longer contain is kept under a ref.
        """
        own, now, objects = f"refs/heads/{before.branch}", _list_refs(self._place), self._repo.objects()
        found, lines, lost = [], [], []
        for name in {**before.refs, **now}:
            old, new = before.refs.get(name, ""), now.get(name, "")
            if name == own or old == new:
                continue
            if name.startswith(_REPLACE):
                lines.append(f"update {name} {old}\n" if old else f"delete {name}\n")
            elif old and not (new and await objects.is_ancestor(old, new)):
                lines.append(f"update refs/segue/kept/{label}/{name.removeprefix('refs/')} {old}\n")
                lost.append(name.removeprefix("refs/"))
        if lines:
            await self._repo.git("update-ref", "--stdin", stdin="".join(lines).encode())
        if len(lines) > len(lost):
            text = "The agent changed refs/replace, with which git shows other commits. It was put back."
            found.append(GitViolation("refs", text, fails=False))
        if lost:
            text = (
                f"While the agent worked, commits were dropped from {list_some(lost, _NAMED)}. They are kept"
            )
            found.append(GitViolation("refs", f"{text} under refs/segue/kept/{label}.", fails=False))
        fresh = [name.removeprefix("refs/") for name in now if name not in (*before.refs, own)]
        if fresh := [name for name in fresh if not name.startswith("replace/")]:
            made = f"{list_some(fresh, _NAMED)} {'was' if len(fresh) == 1 else 'were'} made"
            text = f"While the agent worked, {made}."
            found.append(GitViolation("refs", text, fails=False))
        return found

    async def _show_again(self, before: GitState) -> list[GitViolation]:
        """Show files again that an agent hid from `git status` by flags of the index."""
        known = frozenset(before.hidden)
        hidden = [path for path in await self._list_hidden() if path not in known]
        if not hidden:
            return []
        for flag in ("--no-assume-unchanged", "--no-skip-worktree"):
            listed = b"\0".join(map(os.fsencode, hidden))
            await self._repo.git("update-index", flag, "-z", "--stdin", stdin=listed)
        text = f"The agent hid files from git: {list_some(hidden, _NAMED)}. They are shown again."
        return [GitViolation("hidden files", text)]

    async def _list_hidden(self) -> tuple[str, ...]:
        entries = os.fsdecode((await self._repo.run("ls-files", "-v", "-z")).out).split("\0")
        flagged = [entry[2:] for entry in entries if entry and (entry[0] == "S" or entry[0].islower())]
        return tuple(path for path in flagged if (self._repo.root / path).exists())


def list_begun(git_dir: Path) -> tuple[str, ...]:
    """Return what git has not finished in a work tree: merges, rebases and the like, by their files."""
    return tuple(name for name in _BEGUN if os.path.lexists(git_dir / name))


def settle_surroundings(before: GitState) -> list[str]:
    """Put the files back that git obeys, if they differ; say what was done."""
    if before.files is None or not Path(before.root).is_dir():
        return []
    place = GitPlace(Path(before.root), Path(before.own), Path(before.common))
    if _is_replaced(place):
        return [f"The agent put something else in place of {place.common}: put it back."]
    now, said = dict(_read_files(place)), []
    for name in sorted({**before.files, **now}):
        old, new = before.files.get(name), now.get(name)
        # Git writes into these by itself; only what takes their place is put back.
        is_written = name.endswith(("/HEAD", "/shallow")) and old and new and new.mode not in _ODD
        if old == new or is_written:
            continue
        try:
            _write(Path(name), old)
            said.append(
                f"The agent changed {_shown(place, name)}, which decides what git does. It was put back."
            )
        except OSError as error:
            said.append(f"The agent changed {name}, and it could not be put back: {error.strerror}.")
    return said


def _is_replaced(place: GitPlace) -> bool:
    """Return whether a link or a file took the place of git's own folder: nothing in it is read then."""
    return place.common.is_symlink() or not place.common.is_dir()


def way_back(place: GitPlace, branch: str, head: str) -> str:
    """Return the command that checks out a branch again, also if it was deleted; for none, the commit.

    It takes along what is not committed, which `git rebase --abort` would delete.
    """
    rebasing = any((place.git_dir / name).exists() for name in ("rebase-merge", "rebase-apply"))
    first = "git rebase --quit && " if rebasing else ""
    if not branch:
        return f"{first}git switch --detach {head[:10]}"
    if head and not ask_git(place, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}"):
        return f"{first}git switch -c {branch} {head[:10]}"
    return f"{first}git switch {branch}"


def _moved(place: GitPlace, before: GitState, now: tuple[str, str], begun: list[str]) -> Unfinished:
    branch, head = now
    if branch != before.branch:
        what = f"The branch was switched from {before.branch or before.head[:10]} to {branch or head[:10]}"
        back = way_back(place, before.branch, before.head)
    elif begun:
        what, back = f"{_BEGUN[begun[0]][0]} was begun", "Finish or abort it"
    else:
        what = f"The history of {before.branch or 'HEAD'} was rewritten, without {before.head[:10]},"
        back = f"git branch kept-{head[:10]} && git reset --keep {before.head[:10]}"
    who = "while the agent worked"
    if before.files is None:
        who += ", but not by the agent, whose sandbox cannot write to git's folder"
    return Unfinished(
        f"{what} {who}.",
        reason=f"{what} {who}",
        kept="What the agent did is kept; on resume only the look at it is repeated.",
        hint=f"{back}, then: segue resume",
    )


def _list_refs(place: GitPlace) -> dict[str, str]:
    """Return branches, tags and what else shows commits, but not Segue's own refs."""
    said = ask_git(place, "for-each-ref", "--format=%(objectname) %(refname)").decode(
        "utf-8", "surrogateescape"
    )
    pairs = (line.split(" ", 1) for line in said.splitlines())
    own = ("refs/segue/", "refs/remotes/")
    return {name: commit for commit, name in pairs if not name.startswith(own)}


def _read_files(place: GitPlace) -> Iterator[tuple[str, ObeyedFile]]:
    """Yield each file that decides what git believes or starts."""
    paths = [place.root / ".git"] if place.git_dir != place.root / ".git" else []
    for folder in dict.fromkeys((place.git_dir, place.common)):
        paths += (folder / name for name in _FILES)
        for name in _FOLDERS:
            paths.append(folder / name)
            if (folder / name).is_symlink():
                continue
            inside = sorted(path for path in (folder / name).rglob("*") if not path.name.endswith(".sample"))
            paths += [path for path in inside[:_MOST_FILES] if str(path.relative_to(folder)) not in _WRITTEN]
    for path in paths:
        with contextlib.suppress(OSError):
            if path.is_symlink():
                yield (
                    str(path),
                    ObeyedFile(base64.b64encode(os.fsencode(path.readlink())).decode(), stat.S_IFLNK),
                )
            elif path.is_file() and not path.name.endswith((".lock", ".pack", ".idx")):
                data = read_start(path, _LARGEST)
                yield str(path), ObeyedFile(base64.b64encode(data).decode(), path.stat().st_mode & 0o777)
            elif not path.is_dir() and path.exists():
                yield str(path), ObeyedFile("", 0)  # a pipe, for which git would wait


def _write(path: Path, kept: ObeyedFile | None) -> None:
    """Give a path what it was; no link in its place or on the way is followed."""
    if os.path.realpath(path.parent) != str(path.parent):
        raise OSError(errno.ELOOP, "a folder above it is a link")
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    if kept is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    content = base64.b64decode(kept.content)
    if kept.mode == stat.S_IFLNK:
        path.symlink_to(os.fsdecode(content))
        return
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    path.chmod(kept.mode)


def _shown(place: GitPlace, name: str) -> str:
    for folder in (place.root, place.common.parent):
        if Path(name).is_relative_to(folder):
            return str(Path(name).relative_to(folder))
    return name
