"""The means of isolation that tests are tried with; those that do not work on this machine are skipped."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from segue.system.isolation.isolate import Isolation, Means

MOUNTER = Isolation().mounter.means
"""What mounts here: bubblewrap, or namespaces of our own."""


def needs(means: str) -> pytest.MarkDecorator:
    """Skip a test where these means do not work, and say why."""
    is_there = means in ("none", "copy")
    found = None if is_there else Isolation().try_means(Means(means))
    missing = found is not None and found.means is Means.NONE
    return pytest.mark.skipif(missing, reason=found.why if found else "")


def each(*names: str) -> list[ParameterSet]:
    """Return the names of means as parameters of a test."""
    return [pytest.param(name, marks=needs(name.split()[0])) for name in names]


def without_namespaces(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command as on a machine whose kernel gives no namespaces to anybody."""
    become = (
        "import os, sys; from segue.system.isolation.namespaces import Plan, enter;"
        " enter(Plan(['--unshare-user', '--disable-userns', '--'])); os.execvp(sys.argv[1], sys.argv[1:])"
    )
    return subprocess.run(
        [sys.executable, "-c", become, *argv], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
