"""Repositories and trees that Segue makes: new ones, copies of another at a state it once was in, exports."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from segue.domain.errors import WorkspaceError
from segue.system.files import brief_folder, private_folder, read_start
from segue.system.git.folders import common_dir
from segue.system.git.objects import EMPTY_TREE, Objects
from segue.system.git.outside import TIMEOUT, run_git
from segue.system.git.recovery import clear_stale_locks
from segue.system.git.repository import FALLBACK_IDENTITY, Repository
from segue.system.process.capture import Captured

_SHA256 = 64


async def init_repository(folder: Path, *options: str) -> Repository:
    """Make a folder of Segue's a repository, without anything of a template."""
    real = Path(os.path.realpath(folder))
    done = await run_git(real, "init", "--quiet", "--template=", *options)
    if done.exit_code != 0:
        raise WorkspaceError(f"git init failed in {real}: {done.said}", kept="Nothing was changed.")
    return Repository(real, real / ".git")


async def clone_at(home: Repository, folder: Path, *, head: str, branch: str) -> Repository:
    """Make a repository with the branches of another, on a branch as it was at a commit.

    It borrows the other one's objects: git is not started there, and nothing is copied.
    """
    private_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    common = common_dir(home.git_dir)
    made = await init_repository(folder, *(("--object-format=sha256",) if len(head) == _SHA256 else ()))
    (made.git_dir / "objects/info/alternates").write_bytes(os.fsencode(f"{common}/objects\n"))
    if shallow := read_start(common / "shallow"):
        (made.git_dir / "shallow").write_bytes(shallow)
    for name, value in (await home.settings(r"^user\.(name|email)$")).items():
        await made.set(name, value)
    refs = await home.git("for-each-ref", "--format=create %(refname) %(objectname)")
    await made.git("update-ref", "--stdin", stdin=refs.encode("utf-8", "surrogateescape"))
    if branch:
        await made.git("update-ref", f"refs/heads/{branch}", head)
        await made.git("symbolic-ref", "HEAD", f"refs/heads/{branch}")
    else:
        await made.git("update-ref", "--no-deref", "HEAD", head)
    await made.git("reset", "--quiet", "--hard")
    return made


async def clone_whole(source: Path, folder: Path, *options: str) -> Repository:
    """Clone a repository as git does; it is read as data, and nothing that it names is started."""
    private_folder(folder.parent)
    done = await run_git(
        folder.parent, "clone", "--quiet", *options, "--", str(source.resolve()), str(folder)
    )
    if done.exit_code != 0:
        raise WorkspaceError(f"git cannot clone {source}: {done.said}", kept="Nothing was changed there.")
    return await Repository.open(folder)


async def new_repository(folder: Path) -> bool:
    """Turn a missing or empty folder into a repository with one empty commit; return False for others."""
    if not is_new_place(folder):
        return False
    folder.mkdir(parents=True, exist_ok=True)
    await clear_stale_locks(folder, folder / ".git", folder / ".git", 0.0, TIMEOUT)
    await run_git(folder, "init", "--quiet")
    repo = await Repository.open(folder)
    if repo.root != Path(os.path.realpath(folder)):
        return False
    identity = await repo.identity_options()
    await repo.git(*identity, "commit", "--quiet", "--allow-empty", "-m", "Start")
    return True


def undo_of(folder: Path) -> Callable[[], None]:
    """Return what removes a repository that is made there from now on, with the folders that are missing."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    had_git = (folder / ".git").exists()

    def remove() -> None:
        if not had_git:
            shutil.rmtree(folder / ".git", ignore_errors=True)
        with contextlib.suppress(OSError):  # somebody else has put something there
            for place in missing:
                place.rmdir()

    return remove


@asynccontextmanager
async def without_new_refs(repo: Repository, *, wanted: bool = True) -> AsyncIterator[None]:
    """Delete refs of ours that were made in the block, if it raises; unless `wanted`, there will be none."""
    before = await _own_refs(repo) if wanted else set()
    try:
        yield
    except BaseException:
        for name in await _own_refs(repo) - before if wanted else ():
            await repo.git("update-ref", "-d", name)
        raise


async def _own_refs(repo: Repository) -> set[str]:
    return set((await repo.git("for-each-ref", "--format=%(refname)", "refs/segue/")).split())


def is_new_place(folder: Path) -> bool:
    """Return whether a folder is missing, or has nothing in it but perhaps a repository without commits.

    That may be what is left of one whose making was killed.
    """
    if not folder.is_dir():
        return not folder.exists()
    git_dir, inside = folder / ".git", {path.name for path in folder.iterdir()}
    if inside != {".git"}:
        return not inside
    branches = (path for path in (git_dir / "refs").rglob("*") if path.is_file() and path.suffix != ".lock")
    return git_dir.is_dir() and not (git_dir / "packed-refs").exists() and not any(branches)


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
    with own_index() as extra:
        await repo.git("read-tree", commit or EMPTY_TREE, extra=extra)
        await repo.git("checkout-index", "--all", f"--prefix={draft}/", extra=extra)
    made = await init_repository(draft)
    await made.git("add", "--all")
    await made.git(*UNSIGNED, *FALLBACK_IDENTITY, "commit", "--quiet", "--allow-empty", "-m", "Start")
    draft.rename(folder)


async def keep_files(objects: Objects, files: Mapping[str, Path], message: str, over: str = "") -> str:
    """Make a commit of these files alone, or `over` those of another; no work tree and no ref is touched."""
    listed = "".join(f"{path}\n" for path in files.values()).encode("utf-8", "surrogateescape")
    found = await objects.git("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=listed)
    blobs = found.out.decode().split()
    lines = "".join(f"100644 {blob} 0\t{path}\0" for path, blob in zip(files, blobs, strict=True))
    with own_index() as extra:
        if over:
            await objects.git("read-tree", over, variables=extra)
        await objects.git("update-index", "-z", "--index-info", stdin=lines.encode(), variables=extra)
        tree = _word(await objects.git("write-tree", variables=extra))
    return _word(await objects.git(*FALLBACK_IDENTITY, "commit-tree", tree, "-m", message))


async def lay_over(
    objects: Objects, tree: str, commits: Sequence[str], left_out: Collection[str] = ()
) -> str:
    """Return the tree that has the files of some commits, except for some, over those of a tree."""
    with own_index() as extra:
        await objects.git("read-tree", tree or EMPTY_TREE, variables=extra)
        for commit in commits:
            listed = (await objects.git("ls-tree", "-r", "-z", "--full-tree", commit)).out.split(b"\0")
            entries = b"\0".join(
                one for one in listed if os.fsdecode(one.partition(b"\t")[2]) not in left_out
            )
            await objects.git("update-index", "-z", "--index-info", stdin=entries, variables=extra)
        return _word(await objects.git("write-tree", variables=extra))


def _word(said: Captured) -> str:
    return said.out.decode().strip()


@contextmanager
def own_index() -> Iterator[dict[str, str]]:
    """Yield the variables of an index that is not the user's."""
    with brief_folder() as folder:
        yield {"GIT_INDEX_FILE": str(folder / "index")}
