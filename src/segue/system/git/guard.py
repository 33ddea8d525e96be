"""What surrounds the commits of a repository, before and after an agent worked in it.

Refs, configuration, hooks, exclude files and flags of the index decide what git shows and does later. They
are read from files, so that looking costs no process and runs nothing.
"""

# Every launch looks twice, and pathlib would cost more than looking.
# ruff: noqa: PTH110, PTH116
from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from segue.domain.errors import WorkspaceError
from segue.system.beneath import Beneath
from segue.system.files import read_start, signature
from segue.system.git.folders import read_branch, read_head, read_refs
from segue.system.git.history import judge_begun, put_history_back
from segue.system.git.index import STAY_INSIDE, is_moved, mark_modules
from segue.system.git.moves import UNDER_WAY, refuse_moved
from segue.system.git.nested import (
    LARGEST,
    POINTERS,
    GitViolation,
    Nested,
    NestedGuard,
    Settings,
    control_files,
    find_odd,
    without_hooks,
)
from segue.system.git.objects import Objects
from segue.system.git.outside import included_files
from segue.system.git.ref_guard import forget_graph, mark_graph, put_refs_back, restore_replaced
from segue.system.git.repository import Repository
from segue.system.originals import (
    FILE,
    FOLDER,
    Original,
    Originals,
    find_replaced,
    find_unreadable,
    nothing_at,
)

_HARMLESS = re.compile(
    r"(user|author|committer)\.(name|email)|branch\..*\.(merge|description)|color\..*|advice\..*"
    r"|gc\.(auto|autodetach|autopacklimit|packrefs)|maintenance\.(auto|strategy)|segue\..*",
    re.IGNORECASE | re.DOTALL,
)
"""Settings that change neither what git shows nor what it runs, nor whom it talks to."""
_UPSTREAM = re.compile(r"branch\..*\.remote", re.IGNORECASE | re.DOTALL)
_NAME = re.compile(r"[\w.-]+")
"""A remote by its name; an address would lead elsewhere."""
_REPOSITORY = "git folder"
_LONGEST_NAME = 4096
_FOR_TREE = ("config.worktree", *POINTERS)
_WRITTEN = ("HEAD", "packed-refs")
"""What working with git changes: only what takes its place is put back."""


class GitState(msgspec.Struct, frozen=True):
    """The surroundings of a repository's commits at one moment."""

    head: str = ""
    branch: str = ""
    refs: dict[str, str] = {}
    files: dict[str, Original] = {}
    """Configuration, hooks, exclude and attribute files, and what else must stay the kind of thing it is."""
    modules: dict[str, str] = {}
    """Submodules: path → digest of what their files' times and sizes tell."""
    index: tuple[int, ...] = ()
    """Identity, size and times of the index: where it is untouched, no flags were set in it."""
    under_way: tuple[str, ...] = ()
    own: str = ""
    """The git folder of the work tree, and the one that all its work trees share."""
    common: str = ""
    place: tuple[int, ...] = ()
    """Which folder the former is, whatever it is called."""
    inner: Nested | None = None
    """Repositories within the work tree and within its git folder; None: an older Segue has looked."""
    graph: tuple[int, ...] = ()
    hidden: tuple[str, ...] = ()
    """Files that the user hides from `git status` by flags of the index."""


class GitGuard:
    """Compares a repository's surroundings before and after a launch, and puts back what must not change."""

    def __init__(self, repo: Repository, common_dir: Path, folder: Path, *, sealed: bool = False) -> None:
        """`folder` keeps the content of the guarded files, out of the agent's way.

        `sealed` agents cannot write to git's folder, so that whoever moved HEAD or a branch is somebody else.
        """
        self._repo = repo
        self._sealed = sealed
        self._own = repo.git_dir
        self._common = common_dir
        self._originals = Originals(folder, LARGEST)
        self._objects = Objects(common_dir)
        self._inner = NestedGuard(str(repo.root), self._originals, self._read_settings)
        self._hidden: tuple[str, ...] = ()

    @property
    def root(self) -> Path:
        """The work tree."""
        return self._repo.root

    @property
    def head(self) -> str:
        """The commit that is checked out now."""
        return read_head(self._own, self._common)

    async def prepare(self) -> None:
        """Learn which files the user hides from git, before the first agent works."""
        self._hidden = await self._list_hidden()

    def look(self, before: GitState | None = None) -> GitState:
        """Return what is there now; the guarded files are kept, so that they can be put back.

        What is not what it was `before` is not followed.
        """
        known = before.files if before is not None else {}
        files = {path: self._originals.look(path, known.get(path)) for path in self._guarded(known)}
        inner = self._inner.look(str(self._own), str(self._common)) if before is None else before.inner
        branch, head = read_branch(self._own, refs := read_refs(self._common))
        under_way = tuple(name for name in UNDER_WAY if os.path.exists(f"{self._own}/{name}"))
        there = {path: one for path, one in files.items() if one.kind or one.links}
        own, common, index = str(self._own), str(self._common), signature(f"{self._own}/index") or ()
        place, modules = os.stat(own), mark_modules(self._repo.root, self._own)
        identity = place.st_dev, place.st_ino
        graph = mark_graph(common)
        return GitState(
            head,
            branch,
            refs,
            files=there,
            modules=modules,
            index=index,
            under_way=under_way,
            own=own,
            common=common,
            place=identity,
            inner=inner,
            graph=graph,
            hidden=self._hidden if before is None else before.hidden,
        )

    async def compare(self, before: GitState, label: str, ended: float | None = None) -> list[GitViolation]:
        """Return what an agent did that it must not do; undone where nothing is lost by it.

        `ended` is when it ended. Raises Unfinished where HEAD was moved, perhaps by somebody else, so that
        what the agent did cannot be seen before it is back.
        """
        # Where git's folders are is what it was before, whatever files say that an agent could write.
        if before.common:
            self._own, self._common = Path(before.own), Path(before.common)
            self._objects = Objects(self._common)
        found = self._restore_folder(before)
        if any(one.subject == _REPOSITORY for one in found):
            return found
        found += [GitViolation("git configuration", text) for text in _heal_index(before.own)]
        # Files come first: whatever asks git would wait for a pipe that is in place of one.
        found += await self._restore(before)
        hooks = {one.digest for name, one in before.files.items() if self._subject(name) == "git hooks"} - {
            None
        }
        if before.inner is not None:
            found += await self._inner.restore(before.own, before.common, before.inner, hooks)
        if mark_graph(before.common) != before.graph:
            forget_graph(before.common)
        found += await restore_replaced(self._repo, self._common, before.refs)
        now = self.look(before)
        rewritten = bool(before.head) and not await self._contains(before.head, now.head)
        refuse_moved(self._repo.place, before, now, rewritten, self._sealed, ended)
        found += await self._show_again(before, now)
        for path in (path for path, mark in now.modules.items() if before.modules.get(path, mark) != mark):
            if is_moved(self._repo.root, self._own, path):
                continue  # which is recorded
            what = f"The agent changed files in the submodule {path}. {STAY_INSIDE}"
            found.append(GitViolation("submodule", what, fails=False))
        return found if self._sealed else [*found, *await self._moved(before, now, label)]

    async def _moved(self, before: GitState, now: GitState, label: str) -> list[GitViolation]:
        """Name what became of refs and HEAD, where agents could have done it."""
        begun = [name for name in now.under_way if name not in before.under_way]
        found = [await judge_begun(self._repo, name) for name in begun]
        if before.head and not await self._contains(before.head, now.head):
            heads = before.head, now.head
            found.append(await put_history_back(self._repo, before.branch or "HEAD", heads, label))
        return [*found, *await self._other_refs(before, now)]

    async def _contains(self, old: str, new: str) -> bool:
        return old == new or (bool(new) and await self._objects.is_ancestor(old, new))

    def _guarded(self, known: Mapping[str, Original]) -> list[str]:
        """Return the paths to look at: those that decide what git does, and whatever is no file."""
        common, own = str(self._common), str(self._own)
        places = [f"{self._repo.root}/.git", f"{common}/packed-refs", f"{own}/HEAD"]
        places += control_files(common, lambda path: self._originals.look(path, known.get(path)))
        places += [f"{own}/{name}" for name in _FOR_TREE]
        places += included_files(self._repo.place)
        for place in {common, own}:
            places += find_odd(place)
        return sorted({*places, *known})

    async def _restore(self, before: GitState) -> list[GitViolation]:
        """Put guarded files back as they were; a folder comes before what is in it."""
        found, blocked = [], []
        for name in self._guarded(before.files):
            old = before.files.get(name) or nothing_at(name)
            new = self._originals.look(name, old)
            replaced = find_replaced(old, new) or find_unreadable(old, new)
            made_folder = not old.kind and new.kind == FOLDER  # which git does not look at
            if replaced is None and (made_folder or self._is_written(name) or _is_unchanged(old, new)):
                continue
            if replaced is not None:
                self._originals.put_back(old)
                text = f"The agent put {replaced[1]} in place of {self._shown(name)}. It was put back."
                found.append(GitViolation(self._subject(name), text))
                blocked.append(name)
            elif (one := await self._put_back(name, old, new)) is not None:
                found.append(one)
        return found + await put_refs_back(self._common, before.refs, blocked, before.branch)

    def _is_written(self, name: str) -> bool:
        """Return whether working with git changes it."""
        folder, _, last = name.rpartition("/")
        return last in _WRITTEN and folder in (str(self._own), str(self._common))

    def _restore_folder(self, before: GitState) -> list[GitViolation]:
        """Put the git folder itself back, if it was moved and something leads to it."""
        name = f"{self._repo.root}/.git"
        old = before.files.get(name)
        if old is None or old.kind != FOLDER:
            return []
        new = self._originals.look(name, old)
        replaced = find_replaced(old, new) if new.kind or new.links != old.links else (name, "nothing")
        if replaced is None:
            return []
        text = f"The agent put {replaced[1]} in place of .git."
        if self._bring_back(old, new, before.place):
            return [GitViolation("git configuration", f"{text} It was put back.")]
        return [GitViolation(_REPOSITORY, f"{text} The repository could not be put back: look for it.")]

    def _bring_back(self, old: Original, new: Original, place: tuple[int, ...]) -> bool:
        """Move the git folder back from where a link or a file leads that took its place."""
        moved = new.real
        if not new.links.keys() - old.links.keys():
            named = os.fsdecode(read_start(new.real, _LONGEST_NAME)).removeprefix("gitdir:").strip()
            moved = os.path.realpath(self._repo.root / named)
        with Beneath(Path(moved).anchor) as disk:
            below, back = (str(Path(one).relative_to(Path(one).anchor)) for one in (moved, old.real))
            found = disk.status(below)
            if found is None or (found.st_dev, found.st_ino) != place:
                return False
            disk.remove(back)
            disk.rename(below, back)
            return True

    async def _put_back(self, name: str, old: Original, new: Original) -> GitViolation | None:
        """Put a file back that was changed, made or removed, unless it matters to nobody else."""
        fails = True
        if old.digest and new.digest and name == f"{self._common}/config":
            before, after = await self._settings(old.digest), await self._settings(new.digest)
            if before is not None and before == after:
                return None
            fails = before is None or without_hooks(before) != without_hooks(after)
        elif name == f"{self._common}/shallow":
            fails = not old.kind  # where it is, fetching changes it
        self._originals.put_back(old)
        text = f"The agent changed {self._shown(name)}, which decides what git does. It was put back."
        return GitViolation(self._subject(name), text, fails)

    async def _settings(self, digest: str) -> Settings | None:
        """Return the settings that matter in a configuration, as git reads it; None if it cannot."""
        found = await self._read_settings(digest)
        return found if found is None else _essence(found)

    async def _read_settings(self, digest: str) -> Settings | None:
        place = str(self._originals.place(digest))
        try:
            said = await self._repo.git("config", "--file", place, "--no-includes", "--list", "-z")
        except WorkspaceError:
            return None
        entries = (entry.partition("\n") for entry in said.split("\0") if entry)
        # A name without a value is switched on.
        return [(key, value if has_value else "true") for key, has_value, value in entries]

    def _subject(self, name: str) -> str:
        if name.startswith(f"{self._common}/refs/"):
            return "refs"
        return "git hooks" if f"{name}/".startswith(f"{self._common}/hooks/") else "git configuration"

    def _shown(self, name: str) -> str:
        path = Path(name)
        for folder in (self._repo.root, self._common.parent):
            if path.is_relative_to(folder):
                return str(path.relative_to(folder))
        return name

    async def _show_again(self, before: GitState, now: GitState) -> list[GitViolation]:
        """Find files that an agent hid from `git status` by flags of the index, and show them again."""
        if now.index == before.index:
            return []
        known = frozenset(before.hidden)
        hidden = [path for path in await self._list_hidden() if path not in known]
        if not hidden:
            return []
        for flag in ("--no-assume-unchanged", "--no-skip-worktree"):
            await self._repo.git("update-index", flag, "-z", "--stdin", stdin=os.fsencode("\0".join(hidden)))
        names = ", ".join(hidden[:5])
        return [GitViolation("hidden files", f"The agent hid files from git: {names}. They are shown again.")]

    async def _list_hidden(self) -> tuple[str, ...]:
        said = os.fsdecode((await self._repo.run("ls-files", "-v", "-z")).out)
        entries = [entry for entry in said.split("\0") if entry]
        flagged = [entry[2:] for entry in entries if entry[0] == "S" or entry[0].islower()]
        return tuple(path for path in flagged if (self._repo.root / path).exists())

    async def _other_refs(self, before: GitState, now: GitState) -> list[GitViolation]:
        """Name new branches, tags and stashes, and other branches whose history was rewritten."""
        shown = ("refs/heads/", "refs/tags/", "refs/stash")
        own = f"refs/heads/{before.branch}"
        fresh = [ref for ref in now.refs if ref.startswith(shown) and ref not in before.refs]
        stash = "refs/stash" in before.refs and now.refs.get("refs/stash") != before.refs["refs/stash"]
        named = [*fresh, *(["refs/stash"] if stash else [])]
        found = []
        if named:
            made = ", ".join(ref.removeprefix("refs/") for ref in named[:5])
            text = f"While the agent worked, {made} {'was' if len(named) == 1 else 'were'} made."
            found.append(GitViolation("refs", text, fails=False))
        for ref, old in before.refs.items():
            new = now.refs.get(ref)
            if ref == own or new == old or not ref.startswith("refs/heads/"):
                continue
            if new is None or not await self._objects.is_ancestor(old, new):
                text = f"Branch {ref.removeprefix('refs/heads/')} no longer contains {old[:10]}."
                found.append(GitViolation("refs", text, fails=False))
        return found


def settle_surroundings(before: GitState, folder: Path) -> list[str]:
    """Put back what keeps git from being started, after a launch that nobody concluded; say what was done.

    That is what says where git's folders are, and whatever something else took the place of.
    """
    originals, said = Originals(folder, LARGEST), []
    files = [name for name, one in before.files.items() if name.endswith("/.git") and one.kind == FILE]
    for name in (*files, *(f"{before.own}/{one}" for one in POINTERS if before.own)):
        old = before.files.get(name) or nothing_at(name)
        if not originals.look(name, old).is_like(old):
            originals.put_back(old)
            said.append(f"The agent changed {name}, which says where git's folder is. It was put back.")
    said += _heal_index(before.own)
    places = {place for place in (before.own, before.common) if place and Path(place).is_dir()}
    odd = {name for place in places for name in find_odd(place)}
    for name in sorted(odd | before.files.keys()):
        old = before.files.get(name) or nothing_at(name)
        new = originals.look(name, old)
        replaced = find_replaced(old, new) or find_unreadable(old, new)
        if replaced is not None and not name.endswith("/.git"):
            originals.put_back(old)
            _write_refs(before, name)
            said.append(f"The agent put {replaced[1]} in place of {name}. What was there was put back.")
    return said


def _write_refs(before: GitState, gone: str) -> None:
    """Write the refs again that were at a place, or below it; no commit of Segue's has followed them."""
    ref = os.path.relpath(gone, before.common)
    lost = [name for name in before.refs if name == ref or name.startswith(f"{ref}/")]
    with Beneath(before.common) as folder:
        for name in lost:
            folder.make_folders(name.rpartition("/")[0])
            folder.write(name, f"{before.refs[name]}\n".encode(), 0o644)


def _heal_index(own: str) -> list[str]:
    """Remove an index that git cannot read: it makes another one; returns what to say."""
    if not own or not Path(own).is_dir():
        return []
    with Beneath(own) as place:
        found = place.status("index")
        is_file = found is not None and stat.S_ISREG(found.st_mode)
        if found is None or (is_file and read_start(f"{own}/index", 4) == b"DIRC"):
            return []
        place.remove("index")
    return ["The agent made git's index unreadable. It was removed; git makes another one."]


def _is_unchanged(old: Original, new: Original) -> bool:
    """Return whether a file says the same, and can be started as before if it is a hook."""
    return new.is_like(old) and (old.mode ^ new.mode) & 0o111 == 0


def _essence(settings: Settings) -> Settings:
    """Return the settings that matter, in their order: of several values the last one counts."""
    return [
        (key, value)
        for key, value in settings
        if not _HARMLESS.fullmatch(key) and not (_UPSTREAM.fullmatch(key) and _NAME.fullmatch(value))
    ]
