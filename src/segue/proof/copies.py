"""Run a check on a copy of the tree in another folder, where nothing can be mounted.

Programs find what they need by paths, and many of these name the user's work tree: scripts of an environment,
packages that are installed as editable, links of a workspace, variables, the command itself. In the copy they
all name the copy. Landlock, where the kernel has it, keeps the check from reading and changing the rest.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from segue.proof.command import KEPT_OUTPUT, SHARED_OBJECTS, TreeCommand, run_bounded
from segue.proof.disguise import Disguise, differing, note_files, shell
from segue.proof.git_copy import GitSource, make_git
from segue.proof.inputs import Trees
from segue.proof.runners import Ended
from segue.system.files import private_folder, read_start
from segue.system.isolation.commands import DEVICES, landlocked
from segue.system.isolation.homes import PrivateParts
from segue.system.isolation.landlock import landlock_abi
from segue.system.isolation.places import SHARED, TOOLS, program_places
from segue.system.process.capture import capture

_LARGEST_TEXT = 1024**2
_NOT_LINKED = frozenset(("__pycache__", ".cache", ".vite", ".vite-temp"))
_SITES = ("lib/python*/site-packages", "lib/python*/dist-packages", "local/lib/python*/dist-packages")
_SITES_OF_DEBIAN = Path("/usr/lib/python3/dist-packages")
_EDITABLE = ("*.pth", "*.egg-link", "__editable__*.py")


class Renamed(Struct, frozen=True):
    """Folders that have another path in the copy."""

    pairs: tuple[tuple[str, str], ...]

    def text(self, text: str) -> str:
        """Return a text that names the new paths."""
        for old, new in self.pairs:
            text = re.sub(rf"{re.escape(old)}(?![\w.-])", new.replace("\\", "\\\\"), text)
        return text

    def concerns(self, data: bytes) -> bool:
        """Return whether the data names an old path."""
        return any(old.encode("utf-8", "surrogateescape") in data for old, _ in self.pairs)


class CopiedTree(Struct, frozen=True):
    """A composed tree in a folder of its own, and what belongs to it."""

    order: TreeCommand
    renamed: Renamed
    shown: tuple[Path, ...]
    """What the check reads of places that are hidden."""
    private: PrivateParts
    """The user's credentials."""

    def command(self) -> tuple[list[str], dict[str, str]]:
        """Return the command and its environment as they are in the copy."""
        words = [self.renamed.text(word) for word in self.order.argv]
        variables = {name: self.renamed.text(value) for name, value in self.order.env.items()}
        variables |= {"HOME": str(self._home()), "TMPDIR": str(private_folder(self.order.work / "tmp"))}
        before = shell(numbered=True) if self.order.disguise is Disguise.ORDINARY else ()
        rules = self._rules(words, variables)
        words = [*before, *words]
        return landlocked({"rules": rules}, words) if landlock_abi() else words, variables

    def _home(self) -> Path:
        """Make a home that is empty but for toolchains, and what the user shows."""
        real, home = Path(os.path.realpath(Path.home())), self.order.work / "home"
        if not home.exists():
            seen = (*self.private.opened, *self.order.readable)
            opened = [place.relative_to(real) for place in seen if place.is_relative_to(real)]
            for name in (*TOOLS, ".local/lib", *map(str, opened)):
                if (real / name).exists() and not (home / name).exists():
                    (home / name).parent.mkdir(parents=True, exist_ok=True)
                    (home / name).symlink_to(real / name)
        return private_folder(home)

    def _rules(self, argv: Sequence[str], env: Mapping[str, str]) -> dict[str, list[str]]:
        real = Path(os.path.realpath(Path.home()))
        roots = [Path(old) for old, _ in self.renamed.pairs]
        # Nothing can be seen in the place of a file, so one with a secret is hidden.
        hidden = [*roots, real, *self.private.hidden, *(place for place, _ in self.private.masked)]
        own = (self.order.work, self.order.tree)
        opened = (*self.private.opened, *own)
        shown = [*(real / name for name in TOOLS), *self.shown, *program_places(argv, env), *opened]
        closed = (*roots, real)
        # What is writable is so as a whole.
        open_to_all = [place for place in SHARED if not any(one.is_relative_to(place) for one in closed)]
        writable = [*own, *open_to_all, *(Path("/dev", name) for name in DEVICES)]
        return {
            "hidden": [str(place) for place in dict.fromkeys(hidden)],
            "shown": [os.path.realpath(place) for place in shown if place.exists()],
            "write": [os.path.realpath(place) for place in writable],
        }


class Copied(Struct, frozen=True):
    """Runs commands where the tree is, in a folder of its own."""

    trees: Trees
    git: GitSource
    private: PrivateParts

    def seen_at(self, tree: Path) -> Path:
        """Return where the tree is."""
        return tree

    async def run(self, order: TreeCommand) -> Ended:
        """Run a command on the tree, once what names the user's work tree names the tree instead."""
        if order.disguise is Disguise.ORDINARY:  # in a folder that has the name of the user's
            folder = private_folder(order.work / "projects")
            order = replace(order, tree=order.tree.rename(folder / self.trees.home.name))
        copied = await asyncio.to_thread(self._prepare, order)
        if order.objects is not None:  # now, because links that name the work tree were made to name the copy
            (order.tree / SHARED_OBJECTS).symlink_to(order.objects)
        argv, env = copied.command()
        if paths := _editable_paths(order, copied.renamed):
            env["PYTHONPATH"] = os.pathsep.join(filter(None, (env.get("PYTHONPATH"), *paths)))
        before = await asyncio.to_thread(note_files, order.tree, order.guarded)
        running = capture(argv, order.tree, env, order.timeout, limit=KEPT_OUTPUT)
        ended = await run_bounded(running, order)
        after = await asyncio.to_thread(note_files, order.tree, order.guarded)
        return replace(ended, changed=differing(before, after))

    def _prepare(self, order: TreeCommand) -> CopiedTree:
        """Give a tree its dependencies and a git folder, and return it.

        What names the paths where it seems to be names the copy then.
        """
        tree = order.tree
        roots = [self.trees.home, self.trees.root, *([order.built_at] if order.built_at else [])]
        renamed = Renamed(tuple((str(root), str(tree)) for root in dict.fromkeys(roots)))
        environments = list(_environments(order, renamed))
        clones = [order.work / "environments" / str(at) for at in range(len(environments))]
        pairs = [(str(place), str(clone)) for place, clone in zip(environments, clones, strict=True)]
        renamed = Renamed((*pairs, *renamed.pairs))
        _rename_within(tree, renamed)  # before there are links to what is not copied
        for environment, clone in zip(environments, clones, strict=True):
            _mirror(environment, clone, renamed)
        for path, source in order.inputs.items():
            if source.is_dir() and not os.path.lexists(tree / path):
                _mirror(source, tree / path, renamed)
        if not os.path.lexists(tree / ".git"):
            make_git(tree / ".git", self.git)
        shown = (*order.inputs.values(), *environments, self.git.objects.common_dir / "objects")
        return CopiedTree(order, renamed, shown, self.private)


def _editable_paths(order: TreeCommand, renamed: Renamed) -> list[str]:
    """Return where the copy has what is installed as editable in a Python that is no virtual environment."""
    found: dict[str, None] = {}
    for prefix in program_places(order.argv, order.env):
        if not (prefix / "pyvenv.cfg").exists():
            for site in _sites(prefix):
                found |= dict.fromkeys(_editable(site, renamed))
    return list(found)


def _environments(order: TreeCommand, renamed: Renamed) -> Iterator[Path]:
    """Yield virtual environments elsewhere in which something of the work tree is installed as editable."""
    for prefix in program_places(order.argv, order.env):
        is_inside = renamed.text(str(prefix)) != str(prefix) or prefix.is_relative_to(order.tree)
        is_apart = not is_inside and (prefix / "pyvenv.cfg").is_file()
        if is_apart and any(True for site in _sites(prefix) for _ in _editable(site, renamed)):
            yield prefix


def _sites(prefix: Path) -> Iterator[Path]:
    for glob in _SITES:
        yield from prefix.glob(glob)
    if prefix in (Path("/usr"), Path("/usr/bin")):
        yield _SITES_OF_DEBIAN
    yield from Path.home().glob(".local/lib/python*/site-packages")


def _editable(site: Path, renamed: Renamed) -> Iterator[str]:
    """Yield the paths in the copy that a folder of packages would add to Python's for the work tree."""
    for file in (file for glob in _EDITABLE for file in site.glob(glob)):
        data = read_start(file, _LARGEST_TEXT)
        if not renamed.concerns(data):
            continue
        text = renamed.text(data.decode("utf-8", "replace"))
        if file.suffix == ".py":  # a finder, which names packages
            for _, new in renamed.pairs:
                packages = re.findall(rf"['\"]({re.escape(new)}[^'\"]*)['\"]", text)
                yield from (os.path.dirname(package) for package in packages)  # noqa: PTH120 - texts
        else:
            yield from (line.strip() for line in text.splitlines() if line.startswith("/"))


def _mirror(source: Path, target: Path, renamed: Renamed, inside: str = "") -> None:
    """Make a folder like another, of links; what names the old paths is written again with the new ones."""
    target.mkdir(parents=True, exist_ok=True)
    for entry in os.scandir(source):
        path, place = f"{inside}{entry.name}", target / entry.name
        if entry.name in _NOT_LINKED or os.path.lexists(place):
            continue
        if entry.is_symlink():
            place.symlink_to(_lead(entry, renamed))
        elif entry.is_dir():
            if _is_looked_into(path):
                _mirror(Path(entry.path), place, renamed, f"{path}/")
            else:
                place.symlink_to(entry.path)
        else:
            _link_file(entry, place, renamed)


def _rename_within(tree: Path, renamed: Renamed) -> None:
    """Let all that names the old paths name the new ones: a program finds itself where it says it is."""
    for folder, folders, files in os.walk(tree):
        for entry in (Path(folder, name) for name in (*folders, *files)):
            if entry.is_symlink():
                if (link := renamed.text(str(entry.readlink()))) != str(entry.readlink()):
                    entry.unlink()
                    entry.symlink_to(link)
            elif entry.is_file() and (text := _renamed_text(entry, renamed)) is not None:
                entry.write_bytes(text)


def _renamed_text(place: str | Path, renamed: Renamed) -> bytes | None:
    """Return what a file says with the new paths; None: it names none, or is no text."""
    data = read_start(place, _LARGEST_TEXT + 1)
    if len(data) > _LARGEST_TEXT or not renamed.concerns(data) or b"\0" in data:
        return None
    return renamed.text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _is_looked_into(path: str) -> bool:
    """Return whether a folder of dependencies has files or links that may name paths."""
    return bool(re.fullmatch(r"@[^/]+|bin|\.bin|Scripts|lib|lib/python[^/]*(/site-packages)?", path))


def _lead(entry: os.DirEntry[str], renamed: Renamed) -> str:
    """Return where a link leads in the copy: a relative one stays one, if it stays within the tree."""
    link = os.readlink(entry.path)  # noqa: PTH115 - the text as it is
    if not link.startswith("/"):
        there = os.path.normpath(os.path.join(os.path.dirname(entry.path), link))  # noqa: PTH118, PTH120
        return link if renamed.text(there) != there else there
    return renamed.text(link)


def _link_file(entry: os.DirEntry[str], place: Path, renamed: Renamed) -> None:
    if (text := _renamed_text(entry.path, renamed)) is not None:
        place.write_bytes(text)
        place.chmod(entry.stat().st_mode & 0o777)
        return
    place.symlink_to(entry.path)
