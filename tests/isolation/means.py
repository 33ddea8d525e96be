"""The means of isolation that tests are tried with; those that do not work on this machine are skipped."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from segue.system.isolation.isolate import Isolation, Means
from segue.system.isolation.places import is_temporary
from tests.cli.place import Place

MOUNTER = Isolation().mounter.means
"""What mounts here: bubblewrap, or namespaces of our own."""


NAMED_IN_FILES = pytest.mark.skipif(
    is_temporary(Path(sys.executable)),
    reason="a private /tmp hides a Python that only files of the check name, as it does in this clone",
)
"""For checks whose Makefile or script names our Python."""


def needs(means: str) -> pytest.MarkDecorator:
    """Skip a test where these means do not work, and say why."""
    is_there = means in ("none", "copy")
    found = None if is_there else Isolation().try_means(Means(means))
    missing = found is not None and found.means is Means.NONE
    return pytest.mark.skipif(missing, reason=found.why if found else "")


def each(*names: str) -> list[ParameterSet]:
    """Return the names of means as parameters of a test."""
    return [pytest.param(name, marks=needs(name.split()[0])) for name in names]


def without_namespaces(argv: Sequence[str]) -> list[str]:
    """Return a command that runs another one as on a machine whose kernel gives no namespaces to anybody."""
    become = (
        "import os, sys; from segue.system.isolation.namespaces import NamespacePlan as Plan, enter;"
        " enter(Plan(['--unshare-user', '--disable-userns', '--'])); os.execvp(sys.argv[1], sys.argv[1:])"
    )
    return [sys.executable, "-c", become, *argv]


def without_program(name: str, path: str, folder: Path) -> str:
    """Return a PATH with everything but one program; the folder is made for it."""
    if shutil.which(name, path=path) is None:
        return path
    folder.mkdir()
    for directory in reversed(path.split(os.pathsep)):
        for program in Path(directory).iterdir() if Path(directory).is_dir() else ():
            link = folder / program.name
            if program.name != name and os.access(program, os.X_OK):
                link.unlink(missing_ok=True)
                link.symlink_to(program)
    return str(folder)


def run_by(means: str, place: Place, *args: str) -> subprocess.CompletedProcess[str]:
    """Run Segue where checks can be sealed by these means and by nothing stronger."""
    command, env = place.command(*args), dict(place.env)
    if means == "namespaces":  # without namespaces bubblewrap does not work either
        env["PATH"] = without_program("bwrap", env["PATH"], place.root / f"path-{secrets.token_hex(4)}")
    if means == "copy":
        command = without_namespaces(command)
    return subprocess.run(command, cwd=place.repo, env=env, capture_output=True, text=True, check=False)


def without_means(argv: Sequence[str]) -> list[str]:
    """Return a command that runs another one as on a machine that can isolate nothing: no Landlock either."""
    become = (
        "import ctypes, os, struct, sys; from segue.system.isolation.landlock import lay_filter as lay;"
        " ctypes.CDLL(None).prctl(38, 1, 0, 0, 0);"
        " lines = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (6, 0, 0, 0x50026), (6, 0, 0, 0x7FFF0000)];"
        " lay(b''.join(struct.pack('=HBBI', *line) for line in lines)); os.execvp(sys.argv[1], sys.argv[1:])"
    )
    return without_namespaces([sys.executable, "-c", become, *argv])
