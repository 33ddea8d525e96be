"""A Python that has nothing but Segue and what every command needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

import segue

NEEDED = ["click", "msgspec", "platformdirs", "typing_extensions.py"]


def bare_python(library: Path) -> list[str]:
    """A Python that finds only Segue and its dependencies."""
    site = Path(click.__file__).parent.parent
    for name in NEEDED:
        (library / name).symlink_to(site / name)
    (library / "segue").symlink_to(Path(segue.__file__).parent)
    code = f"import sys; sys.path.insert(0, {str(library)!r}); "
    return [sys.executable, "-I", "-S", "-c", code]


def run_bare(command: list[str], code: str, home: Path) -> subprocess.CompletedProcess[str]:
    *python, setup = command
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    return subprocess.run([*python, setup + code], env=env, cwd=home, capture_output=True, text=True)
