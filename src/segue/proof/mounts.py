"""Run a check on a tree that is mounted at the repository's own path."""

# Folders of somebody else cannot be looked into; pathlib would raise an error.
# ruff: noqa: PTH110, PTH112
from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from segue.proof.command import KEPT_OUTPUT, SHARED_OBJECTS, TreeCommand, run_bounded
from segue.proof.disguise import (
    Disguise,
    TreeCover,
    differing,
    last_pid,
    link_packages,
    note_files,
    shell,
    surround,
)
from segue.proof.git_copy import GitSource, copy_git, take_objects
from segue.proof.inputs import Trees, caches_within
from segue.proof.runners import Ended
from segue.system.files import private_folder
from segue.system.isolation.homes import PrivateParts
from segue.system.isolation.isolate import Means, SandboxChoice
from segue.system.isolation.mounting import (
    CONTAINED,
    capture_mounted,
    copy_masked,
    filtered,
    hide,
    mounter,
    proc_mounts,
)
from segue.system.isolation.places import SHARED, TOOLS, named_places, outermost, program_places
from segue.system.isolation.policy import GIT_FOLDER, TEMPORARY, git_link

_MOST_FILES = 300
"""Mounts cost more the more there are; beyond this, whole folders are made read-only."""
_NAMESPACES = (*CONTAINED, "--disable-userns", "--new-session", "--clearenv")


class Mounted(Struct, frozen=True):
    """Shows the tree at the repository's own path."""

    choice: SandboxChoice
    trees: Trees
    private: PrivateParts
    git: GitSource
    """Whose history a tree has that does not show the user's `.git`."""
    ordinary: SandboxChoice
    """What shows the tree to an ordinary run: our own sandbox where it works, which bubblewrap is not."""

    def seen_at(self, tree: Path) -> Path:  # noqa: ARG002 - wherever it is
        """Return the path of the user's work tree."""
        return self.trees.home

    async def run(self, order: TreeCommand) -> Ended:
        """Run a command in namespaces of its own."""
        if order.disguise is Disguise.ORDINARY:
            return await self._run_ordinary(order)
        git, inputs = None, dict(order.inputs)
        if order.objects is not None:
            private_folder(order.tree / SHARED_OBJECTS)
            inputs[SHARED_OBJECTS] = order.objects
        else:
            git = self._git_for(order.work)
            inputs = {**self._git_entry(order.work), **inputs}
        empty = private_folder(order.work / "empty")
        inputs |= dict.fromkeys(caches_within(order.inputs), empty)
        noted = order.guarded if order.is_open else ()
        before = await asyncio.to_thread(note_files, order.tree, noted)
        line = wrap(self.choice, Mounts(order, self.trees.home, self.private, inputs, git))
        # Its variables are in the line: what sets up the mounts is no check.
        running = capture_mounted(line, order.work, timeout=order.timeout, limit=KEPT_OUTPUT)
        ended = await run_bounded(running, order)
        after = await asyncio.to_thread(note_files, order.tree, noted)
        return replace(ended, changed=differing(before, after))

    async def _run_ordinary(self, order: TreeCommand) -> Ended:
        """Run a command on a tree that seems to be the user's: no mount leads there, and none guards it."""
        home = self.trees.home
        around = await asyncio.to_thread(surround, order.work, order.tree, home, hidden_places())
        guarded, order = order.guarded, replace(order, is_open=True)
        if around is not None:
            order = replace(order, tree=around.tree)
        packages, inputs = await asyncio.to_thread(_place_packages, order)
        git = None
        if order.objects is not None:
            if not await asyncio.to_thread(take_objects, order.tree / ".git", order.objects):
                private_folder(order.tree / SHARED_OBJECTS)
                inputs[SHARED_OBJECTS] = order.objects
        elif not await asyncio.to_thread(copy_git, order.tree / ".git", self.git):
            git = self._git_for(order.work)
            inputs |= self._git_entry(order.work)
        inputs |= dict.fromkeys(caches_within(inputs), private_folder(order.work / "empty"))
        before = note_files(order.tree, guarded)
        line = wrap(self.ordinary, Mounts(order, home, self.private, inputs, git, around, packages))
        running = capture_mounted(line, order.work, timeout=order.timeout, limit=KEPT_OUTPUT)
        ended = await run_bounded(running, order)
        return replace(ended, changed=differing(before, note_files(order.tree, guarded)))

    def _git_for(self, work: Path) -> Path | None:
        """Return git's folder, and write a `.git` that leads there, if the work tree is seen elsewhere."""
        if self.trees.root == self.trees.home or not (self.trees.root / ".git").is_file():
            return None
        common, text = git_link(self.trees.root)
        (work / "git-link").write_text(text)
        return common

    def _git_entry(self, work: Path) -> dict[str, Path]:
        link, own = work / "git-link", self.trees.home / ".git"
        return {".git": link if link.exists() else own} if own.exists() else {}


def _place_packages(order: TreeCommand) -> tuple[dict[Path, Path], dict[str, Path]]:
    """Fill the folders of Node's packages with links; return where these lead to, and the other inputs."""
    packages, inputs = {}, {}
    for number, (path, source) in enumerate(order.inputs.items()):
        if source.name == "node_modules":
            seen_at = Path(os.path.realpath(TEMPORARY[0]), order.work.name, str(number), source.name)
            packages[seen_at] = source
            link_packages(source, order.tree / path, seen_at)
        else:
            inputs[path] = source
    return packages, inputs


class Mounts(Struct, frozen=True):
    """What a check sees instead of the user's files."""

    order: TreeCommand
    root: Path
    """Where the tree is mounted."""
    private: PrivateParts
    """The user's credentials."""
    inputs: Mapping[str, Path]
    """Folders of dependencies, and git's, by their path in the tree; mounted read-only."""
    git: Path | None = None
    """Git's folder, where `.git` is a file that names it at another place."""
    around: TreeCover | None = None
    """What is around the tree, where it is no mount itself."""
    packages: Mapping[Path, Path] = {}
    """Folders of Node's packages by where they are seen outside of the tree."""


def wrap(choice: SandboxChoice, mounts: Mounts) -> list[str]:
    """Return the command that runs another one in the sandbox."""
    order = mounts.order
    is_bubblewrap = choice.means is Means.BWRAP
    line = filtered(mounter(is_bubblewrap), order.work)
    line += ["--ro-bind", "/", "/", "--dev", "/dev", *proc_mounts(choice.own_proc)]
    if not is_bubblewrap and choice.own_proc:
        line += ["--last-pid", str(last_pid())]
    for place in hidden_places():
        line += ["--tmpfs", str(place)]
    around = mounts.around
    if around is not None:
        line += ["--bind", str(around.source), str(around.cover)]
    rules = _rules(mounts)
    # From the outside in, so that the innermost rule about a place counts.
    for place in sorted(rules, key=lambda path: len(path.parts)):
        line += rules[place]
    line += ["--bind", str(order.tree), str(mounts.root)] if around is None else []
    line += _guards(mounts)
    for place in order.writable:
        line += ["--bind", str(place), str(place)]
    for seen_at, source in mounts.packages.items():
        line += ["--ro-bind", str(source), str(seen_at)]
    line += ["--ro-bind", str(mounts.git), str(GIT_FOLDER)] if mounts.git is not None else []
    line += _NAMESPACES
    line += [] if order.network else ["--unshare-net"]
    for name, value in order.env.items():
        line += ["--setenv", name, value]
    ordinary = order.disguise is Disguise.ORDINARY
    words = [*(shell(numbered=not is_bubblewrap) if ordinary else ()), *order.argv]
    return [*line, "--chdir", str(mounts.root), "--", *words]


def hidden_places() -> tuple[Path, ...]:
    """Return what checks do not see, outer places first: temporary files, sockets, the user's home."""
    home = Path(os.path.realpath(Path.home()))
    # /dev/shm is new with /dev.
    places = [
        *(place for place in SHARED if not place.is_relative_to("/dev")),
        Path(os.path.realpath("/run")),
    ]
    places += [home] if home != Path("/") else []
    found = dict.fromkeys(place for place in places if os.path.isdir(place))
    return tuple(sorted(found, key=lambda place: len(place.parts)))


def _rules(mounts: Mounts) -> dict[Path, list[str]]:
    """Return what is seen again although it is hidden, and what of the rest is a credential, by place."""
    private, covers = mounts.private, hidden_places()
    names = [Path(os.path.realpath("/etc/resolv.conf"))] if mounts.order.network else []
    shown = [*_visible(mounts), *names, *(mounts.around.beside if mounts.around is not None else ())]
    places = [(place, Path(os.path.realpath(place))) for place in shown]
    seen: dict[Path, list[str]] = {}
    masked: dict[Path, list[str]] = {}
    for place in private.hidden:
        seen |= {seen_at: hide(place, seen_at) for seen_at in _seen_at(place, places, covers, mounts.root)}
    for number, (place, text) in enumerate(private.masked):
        for seen_at in _seen_at(place, places, covers, mounts.root):
            masked[seen_at] = ["--ro-bind", str(copy_masked(mounts.order.work, number, text)), str(seen_at)]
    return {**seen, **{place: ["--ro-bind-try", str(place), str(place)] for place in shown}, **masked}


def _seen_at(
    place: Path, shown: Iterable[tuple[Path, Path]], covers: Iterable[Path], root: Path
) -> Iterator[Path]:
    """Yield where a place is seen: at its own path, and below what is shown, which may be links to it."""
    above = {place, *place.parents}
    if not os.path.lexists(place) or root in above:
        return
    if not any(cover in above for cover in covers):
        yield place
    for other, real in shown:
        if real in above:
            yield other / place.relative_to(real)


def _visible(mounts: Mounts) -> Iterator[Path]:
    """Yield what must be seen again although it is hidden: toolchains, and what the command names."""
    home, covers = Path(os.path.realpath(Path.home())), (*hidden_places(), *SHARED)
    order, private = mounts.order, set(mounts.private.hidden)
    wanted = [*(home / name for name in TOOLS), *program_places(order.argv, order.env), *order.readable]
    wanted += mounts.private.opened
    named = named_places(order.argv, order.env, (mounts.root, order.tree))
    # What the command only names is no reason to show a credential.
    wanted += [place for place in named if private.isdisjoint((place, *place.parents))]
    above = private.union(covers)
    hidden = [place for place in wanted if not above.isdisjoint(place.parents)]
    for place in outermost(hidden):
        if not place.is_relative_to(mounts.root) and os.path.exists(place):
            yield place


def _guards(mounts: Mounts) -> Iterator[str]:
    """Yield mounts that keep files from being written, removed, or renamed away with their folder."""
    tree, root = mounts.order.tree, mounts.root
    guarded = () if mounts.order.is_open else mounts.order.guarded
    files, sealed = _whole_folders(guarded) if len(guarded) > _MOST_FILES else (list(guarded), [])
    for folder in _ancestors([*files, *sealed]):
        yield from ("--bind", f"{tree}/{folder}", f"{root}/{folder}")
    for place in (*sealed, *files):
        yield from ("--ro-bind", f"{tree}/{place}", f"{root}/{place}")
    for place, source in mounts.inputs.items():
        yield from ("--ro-bind", str(source), f"{root}/{place}")


def _ancestors(paths: Iterable[str]) -> list[str]:
    """Return every folder above the paths, outer ones first."""
    found = {path[:at] for path in paths for at, letter in enumerate(path) if letter == "/"}
    return sorted(found, key=lambda folder: (folder.count("/"), folder))


def _whole_folders(paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return files at the root, and the outermost folders of the others."""
    files = [path for path in paths if "/" not in path]
    tops: dict[str, None] = {}
    for path in paths:
        parts = path.split("/")[:-1]
        if parts:
            named = [at for at, part in enumerate(parts) if part in _TEST_FOLDERS]
            tops["/".join(parts[: named[0] + 1] if named else parts)] = None
    outer = [top for top in tops if not any(top.startswith(f"{other}/") for other in tops)]
    return files, outer


_TEST_FOLDERS = frozenset(("tests", "test", "spec", "testdata", "__tests__", "__mocks__", "node_modules"))
