"""The repository's own hooks for commits, kept as they were before an agent worked."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
from msgspec import Struct

from segue.system.files import private_folder, write_atomic

COMMIT_HOOKS = ("pre-commit", "prepare-commit-msg", "commit-msg")
"""Those that decide about a commit before it is made, in the order in which git runs them."""
GIT_HOOKS = ".git/hooks"
_LARGEST = 8 * 1024**2
_MOST = 500


class KeptHooks(Struct, frozen=True):
    """Where the hooks of a repository are."""

    place: str
    """Their folder, from the top of the work tree; those from elsewhere run as if they were git's own."""
    kept: str | None = None
    """The copy; None: the folder is in the work tree, and the tree that a task began with has it."""
    source: str | None = None
    """The folder itself, if it is neither git's own nor in the work tree."""

    @property
    def is_empty(self) -> bool:
        """Whether there is none, for all that is known without looking into a tree."""
        return self.kept is not None and not any(
            os.path.lexists(f"{self.kept}/{name}") for name in COMMIT_HOOKS
        )


def keep_hooks(root: Path, common_dir: Path, configured: str, folder: Path) -> KeptHooks:
    """Copy the hooks; `configured` is what git's setting `core.hooksPath` says, if it says anything."""
    shutil.rmtree(folder, ignore_errors=True)
    real, place = os.path.realpath(root), os.path.realpath(common_dir / "hooks")
    source = None
    if configured:
        place = os.path.realpath(root / Path(configured).expanduser())
        if place.startswith(f"{real}{os.sep}") and not place.startswith(f"{real}{os.sep}.git{os.sep}"):
            found = KeptHooks(os.path.relpath(place, real).replace(os.sep, "/"))
            return _note(folder, found)
        source = place
    kept = private_folder(folder / "files")
    _copy(Path(place), kept, real)
    return _note(folder, KeptHooks(GIT_HOOKS, str(kept), source))


def kept_hooks(folder: Path) -> KeptHooks | None:
    """Return what was kept before; None if nothing was."""
    try:
        return msgspec.json.decode((folder / "hooks.json").read_bytes(), type=KeptHooks)
    except (OSError, msgspec.MsgspecError):
        return None


def _note(folder: Path, found: KeptHooks) -> KeptHooks:
    write_atomic(private_folder(folder) / "hooks.json", msgspec.json.encode(found))
    return found


def _copy(source: Path, target: Path, root: str) -> None:
    """Copy files, with the folders that they are in; a link into the work tree stays one."""
    count = 0
    for here, _, files in os.walk(source):
        inside = os.path.relpath(here, source)
        (target / inside).mkdir(parents=True, exist_ok=True)
        for name in sorted(files):
            file, copy = Path(here, name), target / inside / name
            leads = Path(os.path.realpath(file))
            if name.endswith(".sample") or count >= _MOST:
                continue
            if file.is_symlink() and leads.is_relative_to(root) and not leads.is_relative_to(source.parent):
                copy.symlink_to(os.path.relpath(leads, Path(root, GIT_HOOKS, inside)))
            elif leads.is_file() and leads.stat().st_size <= _LARGEST:
                shutil.copy2(leads, copy)
            count += 1
