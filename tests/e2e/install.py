"""Installs the real command lines that the tests in this folder drive, into a folder that git ignores."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parents[2] / ".e2e"
PACKAGES = {"@anthropic-ai/claude-code": "2.1.325", "@openai/codex": "0.166.0"}
"""Pinned: npm would choose an older Claude Code on an older node, though the program needs no node at all."""


def installed() -> list[str]:
    """The packages that are there in the version these tests were written for."""
    return [name for name, version in PACKAGES.items() if _version(name) == version]


def _version(package: str) -> str | None:
    try:
        found: str = json.loads((HERE / "node_modules" / package / "package.json").read_text())["version"]
    except (OSError, ValueError, KeyError):
        return None
    return found


def main() -> None:
    """Install what is missing."""
    missing = [f"{name}@{version}" for name, version in PACKAGES.items() if _version(name) != version]
    if missing:
        HERE.mkdir(exist_ok=True)
        quiet = ["--no-audit", "--no-fund", "--no-save", "--loglevel=error"]
        wanted = [f"{name}@{version}" for name, version in PACKAGES.items()]
        subprocess.run(["npm", "install", "--prefix", str(HERE), *quiet, *wanted], check=True)


if __name__ == "__main__":
    main()
