"""Looks at a work tree whose configuration nobody has read: git runs nothing that the repository names.

`git status` may run programs: a file system monitor, filters, hooks, a transport that fetches what is
missing, and git itself in submodules, all of them named by the repository's configuration. So git gets a
folder made for this one call. It has the repository's head, refs, index and objects, but of its configuration
only what says how files compare.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from segue.domain.errors import WorkspaceError
from segue.domain.workspace import Snapshot
from segue.system.git.objects import Objects
from segue.system.git.repository import Repository, common_dir
from segue.system.git.status import parse_status
from segue.system.process.capture import Captured, capture, child_environment
from segue.system.reading import UnsafeFile, read_file, work_tree

_TIMEOUT = 120.0
_LARGEST_NOTE = 64 * 1024
_NEVER = ("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", "-c", "submodule.recurse=false")
_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
}
_COMPARING = frozenset(
    (
        *("core.autocrlf", "core.checkstat", "core.eol", "core.filemode", "core.ignorecase"),
        *("core.precomposeunicode", "core.sparsecheckout", "core.sparsecheckoutcone", "core.symlinks"),
        "core.trustctime",
    )
)
"""Settings that decide whether files count as changed."""


async def look(path: Path) -> tuple[Repository, Snapshot]:
    """Return the repository around a path and a snapshot of it; raises WorkspaceError if that fails."""
    repo = await Repository.open(path, _TIMEOUT)
    here = work_tree(Path(os.path.realpath(path)))
    if os.path.realpath(repo.root) != str(here):
        raise WorkspaceError(
            f"The configuration of git in {here} says that the work tree is {repo.root}.",
            kept="Nothing was read there.",
            hint="See: git config core.worktree",
        )
    return repo, await take_snapshot(repo)


async def take_snapshot(repo: Repository) -> Snapshot:
    """Return a snapshot of the work tree."""
    with tempfile.TemporaryDirectory(prefix="segue-look-") as name:
        folder, shared = Path(name), common_dir(repo.git_dir)
        try:
            _prepare(folder, repo.git_dir, shared)
        except (OSError, UnsafeFile) as error:
            raise WorkspaceError(f"{repo.git_dir} cannot be read: {error}") from None
        extra = {**_ENVIRONMENT, "GIT_DIR": name, "GIT_OBJECT_DIRECTORY": str(shared / "objects")}
        reading = ("config", "--no-includes", "-z", "--list", "--file", shared / "config")
        listed = await _git(folder, {"GIT_DIR": name}, *reading)
        extra |= {"GIT_INDEX_FILE": str(repo.git_dir / "index"), "GIT_WORK_TREE": str(repo.root)}
        extra |= _as_variables(listed.out.decode("utf-8", "replace"))
        arguments = ("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all")
        done = await _git(repo.root, extra, *_NEVER, *arguments, "--ignore-submodules=dirty")
    if done.exit_code != 0:
        said = done.err.decode("utf-8", "replace").strip()[-300:]
        raise WorkspaceError(f"git cannot say what has changed in {repo.root}: {said}")
    return parse_status(repo.root, done.out)


def _prepare(folder: Path, git_dir: Path, shared: Path) -> None:
    """Make a git folder with the head, the refs and the exclusions of the repository."""
    (folder / "HEAD").write_bytes(read_file(git_dir / "HEAD", limit=_LARGEST_NOTE))
    (folder / "config").write_text(Objects(shared).format())
    for kept in ("refs", "packed-refs", "info", "shallow"):
        (folder / kept).symlink_to(shared / kept)


def _as_variables(listed: str) -> dict[str, str]:
    """Return the settings that decide how files compare, as git reads them from its environment."""
    found = [entry.partition("\n") for entry in listed.split("\0")]
    kept = [(name, value) for name, _, value in found if name.lower() in _COMPARING]
    variables = {"GIT_CONFIG_COUNT": str(len(kept))}
    for number, (name, value) in enumerate(kept):
        variables |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return variables


async def _git(where: Path, extra: dict[str, str], *arguments: str | Path) -> Captured:
    argv = ["git", *map(str, arguments)]
    try:
        return await capture(argv, where, child_environment(extra=extra), _TIMEOUT)
    except TimeoutError as error:
        raise WorkspaceError(
            f"git did not answer in {where}: {error}.",
            kept="Nothing was changed.",
            hint="Look whether a file that git reads there is a pipe or a device.",
        ) from None
