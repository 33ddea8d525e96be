"""The folder of one process, in which its agents run; folders left by killed processes are swept away."""

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

_OWNER = "owner.json"


@dataclass(frozen=True, slots=True)
class CallFolder:
    """`path` is for the supervisor, `work` for the agents' workspaces.

    Workspaces are among the temporary files, because agents also read the folders above their own.
    """

    path: Path
    work: Path

    @classmethod
    def make(cls, root: Path) -> CallFolder:
        """Create a folder that names its owner from the first moment it is visible."""
        name = secrets.token_hex(8)
        work = Path(tempfile.mkdtemp(prefix="segue-ask-"))
        new = private_folder(private_folder(root) / f".{name}")
        (new / _OWNER).write_text(json.dumps({"process": identity.me(), "work": str(work)}))
        return cls(new.rename(root / name), work)

    def make_workspace(self, token: str) -> Path:
        """Create an empty folder for one call."""
        path = self.work / token
        path.mkdir(mode=0o700)
        return path

    def clear(self) -> None:
        """Delete what agents share while they run: nothing is kept between calls."""
        shutil.rmtree(self.path / "agents", ignore_errors=True)

    def remove(self) -> None:
        """Delete everything."""
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.rmtree(self.path, ignore_errors=True)


async def sweep(root: Path) -> None:
    """Stop what killed processes left running, and delete their folders."""
    for path in root.glob("[0-9a-f]*"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            owner = json.loads((path / _OWNER).read_text())
            if identity.is_dead(owner["process"]):
                await end_orphans(path)
                CallFolder(path, Path(owner["work"])).remove()
