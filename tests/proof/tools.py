"""Programs that people start checks with, installed once into a folder that git ignores."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

PLACE = Path(__file__).resolve().parents[2] / ".e2e" / "launchers"
PYTHON = ("tox==4.30.3", "nox", "poetry", "hatch", "pdm", "pipenv", "uv", "behave", "rust-just", "setuptools")
PLUGINS = ("pytest", "pytest-xdist", "pytest-randomly", "pytest-cov", "pytest-asyncio")
NODE = ("pnpm@10", "yarn@1", "bun@1")
_SECONDS = 300


@cache
def launchers() -> Path:
    """Return the folder of programs for Python projects, or skip the test."""
    PLACE.mkdir(parents=True, exist_ok=True)
    done = PLACE / "done"
    with (PLACE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", PLACE / "venv"], check=True)
            line = [str(PLACE / "venv/bin/pip"), "install", "--quiet", *PYTHON, *PLUGINS]
            asked = subprocess.run(line, capture_output=True, text=True, timeout=_SECONDS, check=False)
            if asked.returncode != 0:
                pytest.skip(f"the launchers cannot be installed: {asked.stderr.strip()[-300:]}")
            done.touch()
    return PLACE / "venv/bin"


@cache
def js_launchers() -> Path:
    """Return the folder of programs for JavaScript projects, or skip the test."""
    place = PLACE / "js"
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "done").exists():
            line = [program("npm"), "install", "--silent", "--prefix", str(place), *NODE]
            asked = subprocess.run(line, capture_output=True, text=True, timeout=_SECONDS, check=False)
            if asked.returncode != 0:
                pytest.skip(f"the launchers cannot be installed: {asked.stderr.strip()[-300:]}")
            (place / "done").touch()
    return place / "node_modules/.bin"


def program(name: str) -> str:
    """Return where a program is, or skip the test."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def python_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the launchers and plug-ins of Python be found first."""
    _prepend(launchers(), monkeypatch)


def js_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the launchers of JavaScript be found first."""
    _prepend(js_launchers(), monkeypatch)


def _prepend(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
