"""Programs in the work tree that tell when somebody starts them."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

import segue
from tests.cli.place import PLAN, Place

NAMES = ("git", "bwrap", "sh", "ssh", "python3", "gh", "cp", "less", "claude", "codex", "docker")


FAKE = '#!/bin/sh\necho "$0 $*" >> {marker}\nexit {code}\n'


class Trap(Place):
    """A place with an activated environment in the work tree, full of programs that note their start."""

    @property
    def marker(self) -> Path:
        """Agents and checks cannot write it: it is beside the work tree."""
        return self.root / "started-outside"

    def plant(self, folder: Path, *names: str, code: int = 0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            (folder / name).write_text(FAKE.format(marker=self.marker, code=code))
            (folder / name).chmod(0o755)

    def activate(self) -> None:
        self.plant(self.repo / ".venv/bin", *NAMES)
        (self.repo / ".git/info/exclude").write_text(".venv\nnode_modules\n")
        self.env["PATH"] = f"{self.repo}/.venv/bin{os.pathsep}{self.env['PATH']}"
        for name in ("GIT_SSH", "EDITOR", "PAGER", "SHELL", "BROWSER"):
            self.env[name] = f"{self.repo}/.venv/bin/ssh"


@pytest.fixture
def place(tmp_path: Path) -> Trap:
    made = Place.make(tmp_path, PLAN)
    place = Trap(made.root, made.env)
    place.use_sandbox()
    return place


def started(place: Trap) -> str:
    return place.marker.read_text() if place.marker.exists() else ""


def install_in(tree: Path) -> Path:
    """Install Segue into an environment in the work tree, and return its Python."""
    venv.create(tree / ".venv", symlinks=True, with_pip=False)
    python = tree / ".venv/bin/python"
    said = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    )
    packages = Path(said.stdout.strip())
    (packages / "segue").symlink_to(Path(segue.__file__).parent)
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    return python
