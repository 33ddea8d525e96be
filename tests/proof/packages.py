"""Test runners from npm, installed once into a folder that git ignores."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import time
from functools import cache
from pathlib import Path

import pytest

PLACE = Path(__file__).resolve().parents[2] / ".e2e" / "runners"
PACKAGES = {"jest": "29.7.0", "vitest": "2.1.9", "mocha": "11.7.4"}
_QUIET = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
_SECONDS = 300


def node_modules() -> Path:
    """Return the folder with all of the packages, or skip the test."""
    reason = _install()
    if reason:
        pytest.skip(f"the runners cannot be installed from npm: {reason}")
    return PLACE / "node_modules"


@cache
def _install() -> str:
    """Install what is missing; return why that failed, or nothing. Test processes take turns."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        return "npm is not installed"
    PLACE.mkdir(parents=True, exist_ok=True)
    refused = PLACE / "refused"
    with (PLACE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if all(_version(name) == version for name, version in PACKAGES.items()):
            return ""
        if refused.exists() and time.time() - refused.stat().st_mtime < _SECONDS:
            return refused.read_text()
        reason = _ask_npm()
        if reason:
            refused.write_text(reason)
        return reason


def _ask_npm() -> str:
    named = [f"{name}@{version}" for name, version in PACKAGES.items()]
    (PLACE / "package.json").write_text('{"private": true}\n')
    line = ["npm", "install", *_QUIET, *named]
    try:
        done = subprocess.run(line, cwd=PLACE, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"no answer within {_SECONDS} seconds"
    return "" if done.returncode == 0 else done.stderr.strip()[-300:]


def _version(name: str) -> str:
    try:
        found: dict[str, str] = json.loads((PLACE / "node_modules" / name / "package.json").read_text())
    except (OSError, ValueError):
        return ""
    return found["version"]
