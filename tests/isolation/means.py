"""The sandboxes that tests are tried with; those that do not work on this machine are skipped."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from segue.system.sandbox.isolation import Isolation, SandboxKind
from segue.system.sandbox.places import is_temporary
from tests.cli.place import Place

MOUNTER = Isolation().mounter.kind
"""What mounts here: bubblewrap, or nothing."""


NAMED_IN_FILES = pytest.mark.skipif(
    is_temporary(Path(sys.executable)),
    reason="a private /tmp hides a Python that only files of the check name, as it does in this clone",
)
"""For checks whose Makefile or script names our Python."""

_NO_LANDLOCK = (
    "import ctypes, os, struct, sys;"
    " lines = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (6, 0, 0, 0x50026), (6, 0, 0, 0x7FFF0000)];"
    " code = ctypes.create_string_buffer(b''.join(struct.pack('=HBBI', *line) for line in lines));"
    " library = ctypes.CDLL(None); library.prctl(38, 1, 0, 0, 0);"
    " library.prctl(22, 2, struct.pack('@HP', 4, ctypes.addressof(code)), 0, 0);"
    " os.execvp(sys.argv[1], sys.argv[1:])"
)
"""A filter of system calls by which the kernel has no Landlock."""


def needs(kind: str) -> pytest.MarkDecorator:
    """Skip a test where this sandbox does not work, and say why."""
    is_there = kind in ("none", "copy")
    choice = None if is_there else Isolation().try_kind(SandboxKind(kind))
    missing = choice is not None and choice.kind is SandboxKind.NONE
    return pytest.mark.skipif(missing, reason=choice.why if choice else "")


def each(*names: str) -> list[ParameterSet]:
    """Return the names of sandboxes as parameters of a test."""
    return [pytest.param(name, marks=needs(name.split()[0])) for name in names]


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


def run_without_bubblewrap(place: Place, *args: str) -> subprocess.CompletedProcess[str]:
    """Run Segue where bubblewrap is not installed."""
    path = without_program("bwrap", place.env["PATH"], place.root / "path")
    env = {**place.env, "PATH": path}
    return subprocess.run(
        place.command(*args), cwd=place.repo, env=env, capture_output=True, text=True, check=False
    )


def without_landlock(argv: Sequence[str]) -> list[str]:
    """Return a command that runs another one as on a machine whose kernel has no Landlock."""
    return [sys.executable, "-c", _NO_LANDLOCK, *argv]
