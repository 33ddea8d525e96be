"""List the files of a tree, and write trees to folders, from git's objects alone.

What LFS keeps beside git's objects is filled in as data: no program is started, nothing is downloaded.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import shutil
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from posixpath import dirname, join, normpath

from msgspec import Struct

from segue.system.files import brief_folder, read_start
from segue.system.git.objects import GITLINK, Objects

_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-.*\n)*oid sha256:([0-9a-f]{64})\nsize (\d+)\n"
)
_LONGEST = 1024
"""LFS reads no longer file as a pointer."""


def find_pointers(common: Path, folder: Path, paths: Iterable[str]) -> dict[str, Path]:
    """Return the files of a tree that are pointers, with what was fetched for them."""
    kept = common / "lfs" / "objects"
    if not kept.is_dir():
        return {}
    found = {}
    for path in paths:
        facts = (folder / path).lstat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _LONGEST:
            continue
        if pointer := _POINTER.fullmatch(read_start(folder / path, _LONGEST)):
            name = pointer[1].decode()
            content = kept / name[:2] / name[2:4] / name
            if _is_content(content, name, int(pointer[2])):
                found[path] = content
    return found


def fill_pointer(place: Path, content: Path) -> None:
    """Write the content in the place of its pointer; the mode stays."""
    with content.open("rb") as source, place.open("wb") as target:
        shutil.copyfileobj(source, target)


def _is_content(place: Path, name: str, size: int) -> bool:
    """Return whether a file is what its name says: an agent may have written it."""
    try:
        facts = place.lstat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size != size:
            return False
        with place.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == name
    except OSError:
        return False


_LINK = "120000"
_FEW = 16
_MOST_READ = 32 * 1024**2
_BESIDE = 100
"""Bytes by which git's answer about a file is longer than the file."""
_read: dict[str, bytes] = {}
"""Content by its id, as it was last read ahead."""


class TreeEntry(Struct, frozen=True):
    """One file of a tree."""

    mode: str
    id: str

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return self.mode == _LINK

    @property
    def is_module(self) -> bool:
        """Whether it is a submodule, whose files are in another repository."""
        return self.mode == GITLINK


async def list_tree(objects: Objects, tree: str) -> dict[str, TreeEntry]:
    """Return the files and submodules of a commit or tree; an empty name stands for none."""
    if not tree:
        return {}
    done = await objects.git("ls-tree", "-r", "-z", "--full-tree", tree)
    found = {}
    for line in done.out.split(b"\0"):
        facts, _, path = line.partition(b"\t")
        if path:
            mode, _, ident = facts.decode().split(" ")
            found[path.decode("utf-8", "surrogateescape")] = TreeEntry(mode, ident)
    return found


async def read_ahead(objects: Objects, *trees: Mapping[str, TreeEntry]) -> None:
    """Read the small files in which trees differ, with two processes instead of one for each of them."""
    files = [
        {path: one for path, one in tree.items() if not (one.is_link or one.is_module)} for tree in trees
    ]
    paths = {path for tree in files for path in tree if any(tree[path] != one.get(path) for one in trees)}
    wanted = {tree[path].id for tree in files for path in paths & tree.keys()}
    ids = wanted - _read.keys()
    if len(paths) < _FEW or not ids:
        return
    asked = "".join(f"{one}\n" for one in sorted(ids)).encode()
    said = await objects.git("cat-file", "--batch-check=%(objectname) %(objectsize)", stdin=asked)
    known = (line.decode().split() for line in said.out.splitlines() if not line.endswith(b" missing"))
    sizes = {ident: int(size) for ident, size in known}
    room, small = _MOST_READ - sum(len(_read[ident]) + _BESIDE for ident in wanted & _read.keys()), []
    for ident, size in sorted(sizes.items(), key=lambda pair: pair[1]):
        room -= size + _BESIDE
        small += [ident] if room > 0 else []
    raw = (await objects.git("cat-file", "--batch", stdin="".join(f"{one}\n" for one in small).encode())).out
    for ident in _read.keys() - wanted:
        del _read[ident]
    start = 0
    for ident in small:
        begin = raw.index(b"\n", start) + 1
        start = begin + sizes[ident] + 1
        _read[ident] = raw[begin : start - 1]


async def read_text(objects: Objects, entries: Mapping[str, TreeEntry], path: str) -> str:
    """Return a file as text; empty if it does not exist, or is a link or a submodule."""
    entry = entries.get(path)
    if entry is None or entry.is_link or entry.is_module:
        return ""
    if entry.id in _read:
        return _read[entry.id].decode("utf-8", "replace")
    return (await objects.git("cat-file", "blob", entry.id)).out.decode("utf-8", "replace")


async def read_link(objects: Objects, entries: Mapping[str, TreeEntry], path: str) -> str:
    """Return where in the tree a symbolic link leads; what is outside begins with `..` or a slash."""
    target = (await objects.git("cat-file", "blob", entries[path].id)).out.decode("utf-8", "surrogateescape")
    return normpath(join(dirname(path), target))


async def write_tree(
    objects: Objects, entries: Mapping[str, TreeEntry], folder: Path, filters: Mapping[str, str] | None = None
) -> None:
    """Write files to a new folder; only `filters` of the repository have a say, and no hook has."""
    folder.mkdir(parents=True, exist_ok=True)
    if not entries:
        return
    index = folder.with_name(f"{folder.name}.index")
    variables = {"GIT_INDEX_FILE": str(index), "GIT_WORK_TREE": str(folder)}
    await write_index(objects, entries, variables)
    prefix = f"--prefix={folder}/"
    # Writing 100,000 files takes one processor many seconds.
    parallel = ("-c", "checkout.workers=0")
    await objects.git(
        *parallel,
        "checkout-index",
        "--all",
        "--force",
        "--quiet",
        prefix,
        variables={**variables, **(filters or {})},
    )
    if filters is not None:
        await _fill_pointers(
            objects, [path for path in entries if not entries[path].is_module], folder, variables
        )
    index.unlink()
    for path in (path for path, entry in entries.items() if entry.is_module):
        await _write_module(objects, path, entries[path].id, folder / path, filters)


async def find_mentions(
    objects: Objects, entries: Mapping[str, TreeEntry], words: Collection[str]
) -> list[str]:
    """Return the files that contain one of these words."""
    with brief_folder() as folder:
        variables = {"GIT_INDEX_FILE": str(folder / "index")}
        await write_index(objects, entries, variables)
        asked = [part for word in sorted(words) for part in ("-e", word)]
        options = ("grep", "--cached", "-l", "-z", "-w", "-F", *asked)
        done = await objects.git(*options, variables=variables, codes=(0, 1))
    return [path.decode("utf-8", "surrogateescape") for path in done.out.split(b"\0") if path]


async def grep_words(
    objects: Objects, entries: Mapping[str, TreeEntry], words: Collection[str]
) -> list[tuple[str, str]]:
    """Return the lines of text files that have one of these words, each with its file."""
    if not words or not entries:
        return []
    with brief_folder() as folder:
        variables = {"GIT_INDEX_FILE": str(folder / "index")}
        await write_index(objects, entries, variables)
        patterns = folder / "words"
        patterns.write_text("\n".join(sorted(words)))
        options = ("grep", "--cached", "-I", "-z", "-n", "-w", "-F", "-f", str(patterns))
        done = await objects.git(*options, variables=variables, codes=(0, 1))
    found = []
    for line in done.out.decode("utf-8", "surrogateescape").split("\n"):
        path, _, rest = line.partition("\0")
        found.append((path, rest.partition("\0")[2]))
    return [(path, text) for path, text in found if path]


async def write_index(
    objects: Objects, entries: Mapping[str, TreeEntry], variables: Mapping[str, str]
) -> None:
    """Write git's index, which `variables` name, with these files."""
    lines = b"".join(
        f"{entry.mode} {entry.id} 0\t{path}".encode("utf-8", "surrogateescape") + b"\0"
        for path, entry in entries.items()
        if not entry.is_module
    )
    await objects.fetch_missing({entry.id for entry in entries.values() if not entry.is_module})
    await objects.git("update-index", "-z", "--index-info", stdin=lines, variables=variables)


async def _fill_pointers(
    objects: Objects, paths: Sequence[str], folder: Path, variables: Mapping[str, str]
) -> None:
    """Put LFS's content in the place of its pointers, where the tree's attributes ask for that."""
    found = await asyncio.to_thread(find_pointers, objects.common_dir, folder, paths)
    if not found:
        return
    listed = b"\0".join(path.encode("utf-8", "surrogateescape") for path in found)
    asked = await objects.git(
        "check-attr",
        "--cached",
        "-z",
        "--stdin",
        "filter",
        stdin=listed,
        variables=variables,
        where=folder,
    )
    fields = asked.out.decode("utf-8", "surrogateescape").split("\0")
    for path, value in zip(fields[::3], fields[2::3], strict=False):
        if value == "lfs":
            await asyncio.to_thread(fill_pointer, folder / path, found[path])


async def _write_module(
    objects: Objects, path: str, commit: str, folder: Path, filters: Mapping[str, str] | None
) -> None:
    """Write the files of a submodule that was fetched; of others there is an empty folder, as in a clone."""
    own = Objects(objects.common_dir / "modules" / path)
    if (own.common_dir / "objects").is_dir() and await own.has(commit):
        await write_tree(own, await list_tree(own, commit), folder, filters)
    else:
        folder.mkdir(parents=True)
