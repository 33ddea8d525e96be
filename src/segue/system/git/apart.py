"""Trees beside the work: exported for somebody else, kept under refs of our own, laid over the work."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from segue.system.files import brief_folder, private_folder
from segue.system.git.objects import EMPTY_TREE
from segue.system.git.repository import FALLBACK_IDENTITY, Repository, init_repository

UNSIGNED = ("-c", "commit.gpgSign=false")
"""For commits in folders of our own."""


async def export(repo: Repository, commit: str, folder: Path) -> None:
    """Write the files of a commit to a folder that becomes a repository of its own, without any history.

    A folder that exists is left as it is.
    """
    if folder.exists():
        return
    private_folder(folder.parent)
    draft = folder.with_name(f"{folder.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=0o700)
    with _index() as extra:
        await repo.git("read-tree", commit or EMPTY_TREE, extra=extra)
        await repo.git("checkout-index", "--all", f"--prefix={draft}/", extra=extra)
    made = await init_repository(draft)
    await made.git("add", "--all")
    await made.git(*UNSIGNED, *FALLBACK_IDENTITY, "commit", "--quiet", "--allow-empty", "-m", "Start")
    draft.rename(folder)


async def keep_files(repo: Repository, files: Mapping[str, Path], ref: str, message: str) -> str:
    """Make a commit of these files alone and keep it under a ref; the work tree is not touched."""
    listed = "".join(f"{path}\n" for path in files.values()).encode("utf-8", "surrogateescape")
    found = await repo.git("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=listed)
    lines = "".join(f"100644 {blob} 0\t{path}\0" for path, blob in zip(files, found.split(), strict=True))
    with _index() as extra:
        await repo.git("update-index", "-z", "--index-info", stdin=lines.encode(), extra=extra)
        tree = (await repo.git("write-tree", extra=extra)).strip()
    commit = (await repo.git(*FALLBACK_IDENTITY, "commit-tree", tree, "-m", message)).strip()
    await repo.git("update-ref", ref, commit)
    return commit


async def lay_over(repo: Repository, tree: str, commits: Sequence[str]) -> str:
    """Return the tree that has the files of some commits over those of a tree."""
    with _index() as extra:
        await repo.git("read-tree", tree or EMPTY_TREE, extra=extra)
        for commit in commits:
            entries = await repo.git("ls-tree", "-r", "-z", "--full-tree", commit)
            await repo.git("update-index", "-z", "--index-info", stdin=entries.encode(), extra=extra)
        return (await repo.git("write-tree", extra=extra)).strip()


@contextmanager
def _index() -> Iterator[dict[str, str]]:
    """Yield the variables of an index that is not the user's."""
    with brief_folder() as folder:
        yield {"GIT_INDEX_FILE": str(folder / "index")}
