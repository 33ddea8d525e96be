"""Where the agents of one process live while they answer; what a killed process left is swept away."""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from segue.system import identity
from segue.system.files import private_folder
from segue.system.process.processes import end_orphans

_NOTE = "owner.json"


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder of one process: `path` for the supervisor, `work` for the agents' workspaces.

    Workspaces lie among the temporary files: agents also look at the folders above theirs.
    """

    path: Path
    work: Path

    @classmethod
    def make(cls, root: Path) -> Folder:
        """A new folder; it says whose it is from its first moment on."""
        name = secrets.token_hex(8)
        work = Path(tempfile.mkdtemp(prefix="segue-ask-"))
        new = private_folder(private_folder(root) / f".{name}")
        (new / _NOTE).write_text(json.dumps({"process": identity.me(), "work": str(work)}))
        return cls(new.rename(root / name), work)

    def workspace(self, token: str) -> Path:
        """A fresh, empty folder for one call."""
        path = self.work / token
        path.mkdir(mode=0o700)
        return path

    def clear(self) -> None:
        """Nothing is kept between calls: what agents share while they work goes when none does."""
        shutil.rmtree(self.path / "agents", ignore_errors=True)

    def remove(self) -> None:
        """Leave nothing."""
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.rmtree(self.path, ignore_errors=True)


async def sweep(root: Path) -> None:
    """End what killed processes left running, and delete their folders."""
    for path in root.glob("[0-9a-f]*"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            note = json.loads((path / _NOTE).read_text())
            if identity.is_dead(note["process"]):
                await end_orphans(path)
                Folder(path, Path(note["work"])).remove()
