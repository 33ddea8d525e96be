"""A repository of its own with everything that another one has, at a state it once was in."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from pathlib import Path

from segue.domain.errors import WorkspaceError
from segue.system.files import private_folder, read_start
from segue.system.git.folders import common_dir
from segue.system.git.outside import run_git
from segue.system.git.refs import COMMIT, read_refs
from segue.system.git.repository import Repository, init_repository

_REMOTE_HEAD = "refs/remotes/origin/HEAD"
_SHA256 = 64


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
        said = done.err.decode("utf-8", "replace").strip()[-2000:]
        raise WorkspaceError(f"git cannot clone {source}: {said}", kept="Nothing was changed there.")
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
