"""List the files of a tree, and write trees to folders, from git's objects alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from segue.system.git.objects import GITLINK, Objects

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


async def write_tree(objects: Objects, entries: Mapping[str, TreeEntry], folder: Path) -> None:
    """Write files to a new folder; no filter and no hook of the repository has a say."""
    folder.mkdir(parents=True, exist_ok=True)
    if not entries:
        return
    index = folder.with_name(f"{folder.name}.index")
    variables = {"GIT_INDEX_FILE": str(index), "GIT_WORK_TREE": str(folder)}
    lines = b"".join(
        f"{entry.mode} {entry.id} 0\t{path}".encode("utf-8", "surrogateescape") + b"\0"
        for path, entry in entries.items()
        if not entry.is_module
    )
    await objects.git("update-index", "-z", "--index-info", stdin=lines, variables=variables)
    prefix = f"--prefix={folder}/"
    # Writing 100,000 files takes one processor many seconds.
    parallel = ("-c", "checkout.workers=0")
    await objects.git(*parallel, "checkout-index", "--all", "--force", "--quiet", prefix, variables=variables)
    index.unlink()
    for path in (path for path, entry in entries.items() if entry.is_module):
        await _write_module(objects, path, entries[path].id, folder / path)


async def _write_module(objects: Objects, path: str, commit: str, folder: Path) -> None:
    """Write the files of a submodule that was fetched; of others there is an empty folder, as in a clone."""
    own = Objects(objects.common_dir / "modules" / path)
    if (own.common_dir / "objects").is_dir() and await own.has(commit):
        await write_tree(own, await list_tree(own, commit), folder)
    else:
        folder.mkdir(parents=True)
