"""List the files of a tree, and write trees to folders, from git's objects alone."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from segue.system.files import brief_folder
from segue.system.git.objects import GITLINK, Objects
from segue.system.git.pointers import fill_pointer, find_pointers

_LINK = "120000"


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


async def read_text(objects: Objects, entries: Mapping[str, TreeEntry], path: str) -> str:
    """Return a file as text; empty if it does not exist, or is a link or a submodule."""
    entry = entries.get(path)
    if entry is None or entry.is_link or entry.is_module:
        return ""
    return (await objects.git("cat-file", "blob", entry.id)).out.decode("utf-8", "replace")


async def write_tree(
    objects: Objects, entries: Mapping[str, TreeEntry], folder: Path, filters: Mapping[str, str] | None = None
) -> None:
    """Write files to a new folder; only `filters` of the repository have a say, and no hook has."""
    folder.mkdir(parents=True, exist_ok=True)
    if not entries:
        return
    index = folder.with_name(f"{folder.name}.index")
    variables = {"GIT_INDEX_FILE": str(index), "GIT_WORK_TREE": str(folder)}
    await _write_index(objects, entries, variables)
    prefix = f"--prefix={folder}/"
    # Writing 100,000 files takes one processor many seconds.
    parallel = ("-c", "checkout.workers=0")
    await objects.git(
        *(*parallel, "checkout-index", "--all", "--force", "--quiet", prefix),
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
        await _write_index(objects, entries, variables)
        asked = [part for word in sorted(words) for part in ("-e", word)]
        options = ("grep", "--cached", "-l", "-z", "-w", "-F", *asked)
        done = await objects.git(*options, variables=variables, codes=(0, 1))
    return [path.decode("utf-8", "surrogateescape") for path in done.out.split(b"\0") if path]


async def _write_index(
    objects: Objects, entries: Mapping[str, TreeEntry], variables: Mapping[str, str]
) -> None:
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
        *("check-attr", "--cached", "-z", "--stdin", "filter"),
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
