"""Repositories and trees that Segue makes: new ones, copies of another at a state it once was in, exports."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from segue.domain.errors import WorkspaceError
from segue.system.files import brief_folder, private_folder, read_start
from segue.system.git.folders import COMMIT, common_dir, read_refs
from segue.system.git.objects import EMPTY_TREE, Objects
from segue.system.git.outside import run_git
from segue.system.git.recovery import clear_stale_locks
from segue.system.git.repository import FALLBACK_IDENTITY, Repository
from segue.system.process.capture import Captured

_REMOTE_HEAD = "refs/remotes/origin/HEAD"
_SHA256 = 64


async def init_repository(folder: Path, *options: str) -> Repository:
    """Make a folder of Segue's a repository, without anything of a template."""
    real = Path(os.path.realpath(folder))
    done = await run_git(real, "init", "--quiet", "--template=", *options)
    if done.exit_code != 0:
        raise WorkspaceError(f"git init failed in {real}: {done.said}", kept="Nothing was changed.")
    return Repository(real, real / ".git")


async def clone_at(home: Repository, folder: Path, *, head: str, branch: str, tree: str) -> Repository:
    """Clone a repository with all its branches, on a branch as it was at a commit, with the files of a tree.

    What the tree has and the commit has not is there, not committed. Raises WorkspaceError if the repository
    no longer contains them.
    """
    for name in filter(None, (head, tree)):
        try:
            await home.git("cat-file", "-e", name)
        except WorkspaceError:
            raise WorkspaceError(
                f"The repository {home.root} no longer contains {name[:12]}, with which the launch began.",
                hint="Replay a newer run, or fetch it from where the repository was copied",
            ) from None
    private_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    common = common_dir(home.git_dir)
    shape = ("--object-format=sha256",) if len(head or tree) == _SHA256 else ()
    made = await init_repository(folder, *shape)
    await asyncio.to_thread(_copy, common, made.git_dir)
    for name, value in (await home.settings(r"^user\.(name|email)$")).items():
        await made.set(name, value)
    with contextlib.suppress(WorkspaceError):  # not every repository has a remote
        main = (await home.git("symbolic-ref", "--quiet", _REMOTE_HEAD)).strip()
        await made.git("symbolic-ref", _REMOTE_HEAD, main)
    if branch:
        await made.git("update-ref", f"refs/heads/{branch}", head)
        await made.git("symbolic-ref", "HEAD", f"refs/heads/{branch}")
    else:
        await made.git("update-ref", "--no-deref", "HEAD", head)
    await made.git("read-tree", "--reset", "-u", tree or head)
    await made.git("reset", "--quiet", "--mixed")
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


def _copy(common: Path, git_dir: Path) -> None:
    """Give a new repository the objects and refs of another, as data: git is not started in that one."""
    for place, _, names in os.walk(common / "objects"):
        target = git_dir / Path(place).relative_to(common)
        target.mkdir(exist_ok=True)
        for name in names:
            _link(Path(place) / name, target / name)
    lent = read_start(common / "objects/info/alternates").splitlines()
    named = (Path(os.fsdecode(line)) for line in lent if line[:1] not in (b"", b"#"))
    paths = [os.fsencode(common / "objects" / path) for path in named]
    (git_dir / "objects/info/alternates").write_bytes(b"".join(path + b"\n" for path in paths))
    refs = {name: commit for name, commit in read_refs(common, own=True).items() if COMMIT.fullmatch(commit)}
    lines = "".join(f"{commit} {name}\n" for name, commit in sorted(refs.items()))
    (git_dir / "packed-refs").write_text(f"# pack-refs with: sorted \n{lines}")
    if shallow := read_start(common / "shallow"):
        (git_dir / "shallow").write_bytes(shallow)


def _link(file: Path, target: Path) -> None:
    """Share a file, which git never changes, or copy it where that is not possible."""
    if not file.is_file() or file.is_symlink() or file.name.startswith("tmp_"):
        return
    try:
        target.hardlink_to(file)
    except OSError:
        shutil.copy2(file, target)


_TIMEOUT = 300.0


async def new_repository(folder: Path) -> bool:
    """Turn a missing or empty folder into a repository with one empty commit; return False for others."""
    if not is_new_place(folder):
        return False
    folder.mkdir(parents=True, exist_ok=True)
    await clear_stale_locks(folder, folder / ".git", folder / ".git", 0.0, _TIMEOUT)
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
    common = common_dir(repo.git_dir)
    before = read_refs(common, own=True) if wanted else {}
    try:
        yield
    except BaseException:
        for name in read_refs(common, own=True) if wanted else ():
            if name.startswith("refs/segue/") and name not in before:
                await repo.git("update-ref", "-d", name)
        raise


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
