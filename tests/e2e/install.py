"""Installs the real command lines that the tests in this folder drive, into a folder that git ignores.

What cannot be installed is named and skipped; the others are tested all the same. SEGUE_E2E=oldest
means the oldest versions that Segue supports, SEGUE_E2E=latest whatever npm has today.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

WHICH = os.environ.get("SEGUE_E2E", "")
HERE = Path(__file__).resolve().parents[2] / ".e2e" / WHICH
BIN = HERE / "node_modules" / ".bin"
SKIPPED = HERE / "skipped.json"

JULES_SDK = HERE / "sdk" / "node_modules" / "@google" / "jules-sdk" / "dist" / "index.mjs"
AXE = HERE / "axe" / "node_modules" / "axe-core" / "axe.min.js"
_OTHERS = {"sdk": ("@google/jules-sdk@0.2.0", JULES_SDK), "axe": ("axe-core@4.14.0", AXE)}
"""Packages that are no agents, each in a folder of its own, with the file that shows that it is there."""

OLDEST = {"@anthropic-ai/claude-code": "2.1.197", "@openai/codex": "0.142.3"}
_PINNED = {
    "@anthropic-ai/claude-code": "2.1.325",
    "@openai/codex": "0.166.0",
    "@google/gemini-cli": "0.61.0",
    "opencode-ai": "1.18.18",
    "@github/copilot": "1.0.102",
    "@qwen-code/qwen-code": "0.15.10",
}
PACKAGES = {"": _PINNED, "oldest": OLDEST, "latest": dict.fromkeys(_PINNED, "latest")}[WHICH]
"""Pinned: npm would choose an older Claude Code on an older node, though the program needs no node at all."""

_NAMES = {
    "claude": "@anthropic-ai/claude-code",
    "codex": "@openai/codex",
    "gemini": "@google/gemini-cli",
    "opencode": "opencode-ai",
    "copilot": "@github/copilot",
    "qwen": "@qwen-code/qwen-code",
}
AGENTS = {name: package for name, package in _NAMES.items() if package in PACKAGES}
MATRIX = [name for name in AGENTS if name not in ("copilot", "qwen")]
"""Those that every test is made with; the others have a file of their own."""
_NODE, _NODE_NEEDED = "node@24", 20
_QUIET = ("--no-audit", "--no-fund", "--no-save", "--loglevel=error")
_PROBE_SECONDS = 60


def installed() -> list[str]:
    """The packages that are there in the version these tests were written for."""
    there = {name: _version(name) for name in PACKAGES}
    return [name for name, version in PACKAGES.items() if there[name] and version in (there[name], "latest")]


def skipped() -> dict[str, str]:
    """The agents that cannot be tested here, and why."""
    try:
        known: dict[str, str] = json.loads(SKIPPED.read_text())
    except (OSError, ValueError):
        known = {}
    there = installed()
    missing = {name: "it is not installed" for name in AGENTS if AGENTS[name] not in there}
    return missing | known | {name: "it needs node" for name in AGENTS.keys() - missing if _lacks_node(name)}


def _lacks_node(agent: str) -> bool:
    """Return whether the program is a script of node, and there is none."""
    if shutil.which("node", path=_environment()["PATH"]):
        return False
    with (BIN / agent).open("rb") as program:
        return b"node" in program.readline(80)


def main() -> None:
    """Install what is missing, try it, and write down what does not work."""
    HERE.mkdir(parents=True, exist_ok=True)
    SKIPPED.unlink(missing_ok=True)
    reasons = _install() if WHICH == "latest" or PACKAGES.keys() - installed() else {}
    reasons |= {name: said for name in AGENTS.keys() - reasons.keys() if (said := _broken(name))}
    SKIPPED.write_text(json.dumps(reasons))
    reasons |= install_others()
    for name, reason in sorted(reasons.items()):
        sys.stderr.write(f"Not installed, so not tested: {name}: {reason}\n")


def _install() -> dict[str, str]:
    """Have npm install everything at once or else one by one; the agents it did not work for, and why."""
    npm = shutil.which("npm")
    if npm is None:
        return dict.fromkeys(AGENTS, "npm was not found, which installs it")
    node = [] if _node_version() >= _NODE_NEEDED else [_NODE]
    wanted = [f"{name}@{version}" for name, version in PACKAGES.items()]
    if _npm(npm, [*node, *wanted]) is None:
        return {}
    good, reasons = list(node), {}
    for agent, package in AGENTS.items():
        one = f"{package}@{PACKAGES[package]}"
        # npm removes what it is not told of, so it is told again of those that went well.
        error = _npm(npm, [*good, one], "--fetch-retries=0")
        if error is None:
            good.append(one)
        else:
            reasons[agent] = f"npm cannot install {one}: {error}"
    return reasons


def install_others(names: Collection[str] = _OTHERS) -> dict[str, str]:
    """Have npm install Jules' SDK and axe; which of them it did not work for, and why."""
    npm, reasons = shutil.which("npm"), dict[str, str]()
    for name in names:
        package, shown = _OTHERS[name]
        if npm is not None and not shown.is_file():
            error = _npm(npm, [package], "--fetch-retries=0", folder=HERE / name)
            reasons |= {name: f"npm cannot install {package}: {error}"} if error else {}
    return reasons


def _npm(npm: str, packages: list[str], *more: str, folder: Path = HERE) -> str | None:
    """Install the packages; why that failed, if it did."""
    argv = [npm, "install", "--prefix", str(folder), *_QUIET, *more, *packages]
    done = subprocess.run(argv, capture_output=True, text=True, env=_environment(), check=False)
    if done.returncode == 0:
        return None
    said = [line for line in done.stderr.splitlines() if " error " in line or "ERR!" in line]
    return (said[0] if said else f"exit code {done.returncode}").strip()


def _environment() -> dict[str, str]:
    return os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"}


def _node_version() -> int:
    node = shutil.which("node")
    said = (
        subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
        if node
        else ""
    )
    found = re.match(r"v(\d+)\.", said)
    return int(found[1]) if found else 0


def _broken(agent: str) -> str | None:
    """Why the program does not work, if it does not."""
    version = _version(AGENTS[agent]) or PACKAGES[AGENTS[agent]]
    try:
        done = subprocess.run(
            [BIN / agent, "--version"],
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            env=_environment(),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it does not start: {error}"
    if version in done.stdout:
        return None
    said = (done.stdout + done.stderr).strip().splitlines()
    return f"asked for its version, it did not say {version} but: {said[-1] if said else 'nothing'}"


def _version(package: str) -> str | None:
    try:
        found: str = json.loads((HERE / "node_modules" / package / "package.json").read_text())["version"]
    except (OSError, ValueError, KeyError):
        return None
    return found


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.stderr.writelines(f"{reason}\n" for reason in install_others(sys.argv[1:]).values())
    else:
        main()
