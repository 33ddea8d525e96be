"""A repository of its own with everything that another one has, at a state it once was in."""

from __future__ import annotations

import contextlib
from pathlib import Path

from segue.domain.errors import WorkspaceError
from segue.system.files import private_folder
from segue.system.git.apart import QUIET
from segue.system.git.repository import Repository, common_dir

_REMOTE_HEAD = "refs/remotes/origin/HEAD"


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
    source, git = str(common_dir(home.git_dir)), folder / ".git"
    mirror = ("clone", "--quiet", "--mirror", "--local", "--template=", source, str(git))
    await home.git(*QUIET, *mirror)
    made = ("--git-dir", str(git), "--work-tree", str(folder), *QUIET)
    await home.git(*made, "config", "core.bare", "false")
    await home.git(*made, "config", "--remove-section", "remote.origin")
    for name, value in (await home.settings(r"^user\.(name|email)$")).items():
        await home.git(*made, "config", name, value)
    with contextlib.suppress(WorkspaceError):  # not every repository has a remote
        main = (await home.git("symbolic-ref", "--quiet", _REMOTE_HEAD)).strip()
        await home.git(*made, "symbolic-ref", _REMOTE_HEAD, main)
    if branch:
        await home.git(*made, "update-ref", f"refs/heads/{branch}", head)
        await home.git(*made, "symbolic-ref", "HEAD", f"refs/heads/{branch}")
    else:
        await home.git(*made, "update-ref", "--no-deref", "HEAD", head)
    await home.git(*made, "read-tree", "--reset", "-u", tree or head)
    await home.git(*made, "reset", "--quiet", "--mixed")
    return await Repository.open(folder)
