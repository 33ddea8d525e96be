"""What a check needs and git does not have: dependencies, generated files, local settings.

They are listed before an agent starts, because an agent could leave some behind. Folders of dependencies are
used where they are, read-only, and compared with the list; small files are copied at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from glob import escape, glob
from pathlib import Path
from typing import TypeVar

import msgspec

from segue.proof.venvs import find_environments
from segue.system.beneath import Beneath
from segue.system.files import private_folder, read_start, write_atomic
from segue.system.git.folders import find_place
from segue.system.git.outside import run_outside
from segue.system.isolation.places import follow, prefixes
from segue.system.lane import has_content, is_dependency

T = TypeVar("T")


def encode_note(value: object) -> bytes:
    """Return a value as JSON, in ASCII: bytes of a path that are no text survive as escapes."""
    return json.dumps(msgspec.to_builtins(value)).encode()


def decode_note(data: bytes, kind: type[T]) -> T:
    """Return the value; raises msgspec.MsgspecError if it is not of this kind."""
    try:
        found = json.loads(data)
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from None
    return msgspec.convert(found, kind)


_CACHES_AND_RESULTS = """
    __pycache__ .pytest_cache .mypy_cache .ruff_cache .hypothesis .tox .nox .cache target coverage htmlcov
    .coverage .nyc_output .next .nuxt .turbo .parcel-cache .gradle .idea .vscode .DS_Store .segue .git
    coverage.xml junit.xml .eslintcache
"""
_LEFT_OUT = frozenset(_CACHES_AND_RESULTS.split())
_DATABASES = (".db", ".sqlite", ".sqlite3", ".pyc", ".pyo", ".log", ".o", ".a", ".tsbuildinfo", ".swp")
_LARGEST = 1024**2
_MOST_COPIED = 5000
_CACHES = frozenset(("__pycache__", ".cache", ".vite", ".vite-temp"))
"""Folders within dependencies that tools write to; checks do not see them, or do not believe them."""


BOOKKEEPING = frozenset((".package-lock.json", ".yarn-integrity", ".modules.yaml", ".yarn-state.yml"))
"""Files in which package managers note what they installed."""


class Inputs(msgspec.Struct, frozen=True):
    """What was there before an agent started."""

    folders: dict[str, dict[str, str]]
    """Folders of dependencies (in the user's home: their whole paths), with facts of every file in them."""
    copied: list[str]
    compiled: str = ""
    """A digest of Python's compiled files in these folders, which honest programs write as well."""
    user_site: str = ""
    """A digest of the packages in the user's home; empty: there are none."""
    shared: list[str] = []
    """Which of these folders are the user's, because the work tree has none of its own."""


class Dependencies(msgspec.Struct, frozen=True):
    """How folders of dependencies differ from what was there before an agent started."""

    visible: tuple[str, ...]
    """What checks see."""
    extended: tuple[str, ...] = ()
    """Folders to which files were added, and new folders."""
    rewritten: tuple[str, ...] = ()
    """Files that were changed or removed, or that Python runs whenever it starts."""
    compiled: bool = False
    """Whether compiled files differ."""
    user_site: bool = False
    """Whether the packages in the user's home are as they were."""
    linked: tuple[Path, ...] = ()
    """Places outside of the repository that environments lead to."""


class Trees(msgspec.Struct, frozen=True):
    """Where inputs are: in the work tree, and what it does not have itself in the user's."""

    root: Path
    home: Path
    """The user's work tree, at whose path checks run; the same unless Segue has made one beside it."""

    def find(self, path: str) -> Path:
        """Return where an input is."""
        return self.home / path if self.is_shared(path) else self.root / path

    def is_shared(self, path: str) -> bool:
        """Return whether an input is the user's."""
        return self.home != self.root and not has_content(self.root / path)


async def list_inputs(trees: Trees, scratch: Path) -> Inputs:
    """List and copy what git ignores; a list that was made before is believed."""
    record = scratch / "inputs.json"
    if record.exists():
        return decode_note(record.read_bytes(), Inputs)
    private_folder(scratch)
    ignored = [path for place in dict.fromkeys((trees.root, trees.home)) for path in await _ignored(place)]
    found = await asyncio.to_thread(_sort, trees, list(dict.fromkeys(ignored)), scratch / "inputs")
    write_atomic(record, encode_note(found))
    return found


async def _ignored(root: Path) -> list[str]:
    place = find_place(root)
    if place is None:
        return []
    listing = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
    done = await run_outside(place, *listing)
    return [path for path in done.out.decode("utf-8", "surrogateescape").split("\0") if path]


def _sort(trees: Trees, ignored: list[str], copies: Path) -> Inputs:
    folders: dict[str, dict[str, str]] = {}
    copied: list[str] = []
    shutil.rmtree(copies, ignore_errors=True)
    for name in ignored:
        path = name.rstrip("/")
        if _is_left_out(path):
            continue
        if is_dependency(trees.find(path)):
            folders[path] = manifest(trees.find(path))
            continue
        for file in _files_below(trees, path):
            if is_dependency(trees.find(file)):
                folders[file] = manifest(trees.find(file))
            elif len(copied) < _MOST_COPIED and _copy(trees.find(file), copies / file):
                copied.append(file)
    shared = [path for path in folders if trees.is_shared(path)]
    folders |= {str(place): manifest(place) for place in find_environments(trees.home)}
    return Inputs(folders, copied, compiled_digest(trees, folders), user_site_digest(), shared)


def _is_left_out(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name in _LEFT_OUT or name.endswith(_DATABASES)


def _files_below(trees: Trees, path: str) -> Iterator[str]:
    """Yield files, and folders of dependencies, without caches."""
    place = trees.find(path)
    if not place.is_dir() or place.is_symlink():
        yield path
        return
    root = trees.home if trees.is_shared(path) else trees.root
    for folder, names, files in os.walk(place):
        here = Path(folder)
        inner = [name for name in names if is_dependency(here / name)]
        yield from (str((here / name).relative_to(root)) for name in inner)
        names[:] = [name for name in names if name not in inner and not _is_left_out(name)]
        yield from (str((here / name).relative_to(root)) for name in files if not _is_left_out(name))


def _copy(source: Path, target: Path) -> bool:
    try:
        if not source.is_symlink() and (not source.is_file() or source.stat().st_size > _LARGEST):
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)
    except OSError:
        return False
    return True


def manifest(folder: Path) -> dict[str, str]:
    """Return the facts of every file; no program can set the time of change."""
    return {
        os.path.relpath(entry.path, folder): _facts(entry)
        for entry in walk_files(folder, _CACHES)
        if entry.name not in BOOKKEEPING
    }


def user_site_digest() -> str:
    """Return a digest of the packages in the user's home; empty if there are none."""
    found = hashlib.sha256()
    places = sorted(Path.home().glob(".local/lib/python*/site-packages"))
    for place in places:
        for entry in walk_files(place, _CACHES):
            found.update(f"{entry.path}\0{_facts(entry)}\n".encode("utf-8", "surrogateescape"))
    return found.hexdigest() if places else ""


def compiled_digest(trees: Trees, folders: Collection[str]) -> str:
    """Return a digest of the compiled Python files in some folders."""
    found = hashlib.sha256()
    for folder in sorted(folders):
        for entry in walk_files(trees.find(folder), frozenset()):
            if entry.name.endswith(".pyc"):
                found.update(f"{entry.path}\0{_facts(entry)}\n".encode("utf-8", "surrogateescape"))
    return found.hexdigest()


def walk_files(folder: Path, left_out: Collection[str]) -> Iterator[os.DirEntry[str]]:
    pending = [str(folder)]
    while pending:
        try:
            entries = sorted(os.scandir(pending.pop()), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                pending += [entry.path] if entry.name not in left_out else []
            else:
                yield entry


def _facts(entry: os.DirEntry[str]) -> str:
    facts = entry.stat(follow_symlinks=False)
    return f"{facts.st_size} {facts.st_ctime_ns} {facts.st_ino} {facts.st_mode}"


def compare_inputs(trees: Trees, inputs: Inputs, tracked: Collection[str]) -> Dependencies:
    """Return how the dependencies differ from what they were."""
    fresh = new_folders(trees.root, inputs, tracked)
    # A folder of its own instead of the user's was installed since, as a whole.
    own = [path for path in inputs.shared if not trees.is_shared(path)]
    extended, rewritten = [*fresh, *own], []
    for folder, before in inputs.folders.items():
        if folder in own:
            continue
        now = manifest(trees.find(folder))
        rewritten += [f"{folder}/{name}" for name in before if now.get(name) != before[name]]
        added = [name for name in now if name not in before]
        rewritten += [f"{folder}/{name}" for name in added if runs_at_start(name)]
        extended += [folder] if added else []
    return Dependencies(
        (*inputs.folders, *fresh),
        tuple(extended),
        tuple(sorted(rewritten)),
        compiled_digest(trees, inputs.folders) != inputs.compiled,
        bool(inputs.user_site) and user_site_digest() == inputs.user_site,
        tuple(place for folder in inputs.folders for place in _linked(trees.find(folder))),
    )


def user_site_places(dependencies: Dependencies) -> list[Path]:
    """Return where the packages in the user's home are, if checks may see them."""
    return [Path.home() / ".local/lib"] if dependencies.user_site else []


def _linked(folder: Path) -> Iterator[Path]:
    """Yield where a virtual environment leads: to its Python, and to packages installed as editable."""
    if not (folder / "pyvenv.cfg").is_file():
        return
    yield Path(os.path.realpath(folder))
    for place in follow(folder / "bin/python"):
        yield from prefixes(place.parent)
    for file in folder.glob("lib/python*/site-packages/*.pth"):
        lines = read_start(file).decode("utf-8", "replace").splitlines()
        yield from (
            place for line in lines if line.startswith("/") and (place := Path(line.strip())).is_dir()
        )


def runs_at_start(name: str) -> bool:
    return name.endswith(".pth") or name.rpartition("/")[2] in ("sitecustomize.py", "usercustomize.py")


def new_folders(root: Path, inputs: Inputs, tracked: Collection[str]) -> tuple[str, ...]:
    """Return folders of dependencies that were installed since: at the root and beside a package.json."""
    places = {
        f"{path[: -len('package.json')]}node_modules" for path in tracked if path.endswith("package.json")
    }
    places |= {".venv", "venv", "node_modules"}
    committed = {path[: path.find("node_modules/") + 12] for path in tracked if "node_modules/" in path}
    fresh = sorted(places.difference(tracked, committed, inputs.folders))
    return tuple(path for path in fresh if is_dependency(root / path) and not (root / path).is_symlink())


def caches_within(folders: Mapping[str, Path]) -> tuple[str, ...]:
    """Return caches inside of dependencies, which an agent's own runs may have filled."""
    return tuple(f"{path}/{name}" for path in folders for name in CACHES if (folders[path] / name).is_dir())


CACHES = (".cache", ".vite", ".vite-temp")
"""What tools write into folders of dependencies."""


def place_copies(inputs: Inputs, scratch: Path, tree: Path) -> None:
    """Copy small inputs into a tree, where it has no such file."""
    with Beneath(tree) as folder:
        for path in inputs.copied:
            # A link that an agent committed in place of a folder is not followed.
            with suppress(OSError):
                if folder.status(path) is None:
                    folder.make_folders(os.path.dirname(path), clear=False)  # noqa: PTH120 - a text
                    folder.copy(path, scratch / "inputs" / path)


_OF_THE_SESSION = ("TERM", "COLORTERM", "XDG_SE", "XDG_VTNR")
"""Beginnings of variables that differ from terminal to terminal."""
_INSTALLED = ("lib/python*/site-packages", "lib/python3/dist-packages", "lib/node_modules")
"""Where packages are installed beside a folder of programs; the folder's time changes with them."""


def input_facts(inputs: Inputs, scratch: Path) -> list[object]:
    """Return what tells these dependencies and copied files from others.

    Compiled files are left out: programs write them as they run, and they say the same.
    """
    return [inputs.folders, copy_facts(inputs, scratch), inputs.user_site]


def copy_facts(inputs: Inputs, scratch: Path) -> list[object]:
    """Return what tells the copied files from others."""
    return [(name, *_place_facts(scratch / "inputs" / name)) for name in inputs.copied]


def machine_facts(env: Mapping[str, str]) -> list[object]:
    """Return what tells this machine's programs and variables from what they were at another time."""
    variables = {name: env[name] for name in sorted(env) if not name.startswith(_OF_THE_SESSION)}
    folders = [Path(name) for name in dict.fromkeys(env.get("PATH", "").split(os.pathsep)) if name]
    beside = [
        Path(place)
        for folder in folders
        for pattern in _INSTALLED
        # Unlike that of Path, it passes over folders that this user may not enter.
        for place in sorted(glob(f"{escape(str(folder.parent))}/{pattern}"))  # noqa: PTH207
    ]
    return [variables, [(str(place), *_place_facts(place)) for place in (*folders, *dict.fromkeys(beside))]]


def _place_facts(place: Path) -> tuple[int, int]:
    try:
        found = place.stat()
    except OSError:
        return 0, 0
    return (0 if place.is_dir() else found.st_size), found.st_mtime_ns
