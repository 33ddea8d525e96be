"""Installs the real programs that the tests in this folder drive, into a folder that git ignores.

What cannot be installed is named and skipped; the others are tested all the same.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[3] / ".e2e"
BIN = HERE / "node_modules" / ".bin"
SKIPPED = HERE / "skipped.json"
AXE = HERE / "axe" / "node_modules" / "axe-core" / "axe.min.js"
"""The rules of accessibility that the page keeps."""
_AXE = "axe-core@4.14.0"

AGENTS = {
    "claude": "@anthropic-ai/claude-code",
    "codex": "@openai/codex",
    "gemini": "@google/gemini-cli",
    "opencode": "opencode-ai",
    "copilot": "@github/copilot",
    "qwen": "@qwen-code/qwen-code",
}
_VERSIONS = {
    "claude": "2.1.325",
    "codex": "0.166.0",
    "gemini": "0.61.0",
    "opencode": "1.18.18",
    "copilot": "1.0.102",
    "qwen": "0.15.10",
}
"""Pinned: npm would choose an older Claude Code on an older node, though the program needs no node at all."""
_NODE, _NODE_NEEDED = "node@24", 20
_QUIET = ("--no-audit", "--no-fund", "--no-save", "--loglevel=error")
_PROBE_SECONDS = 60


def installed() -> set[str]:
    """Return the agents that are there in the version these tests were written for."""
    return {name for name, package in AGENTS.items() if _version(package) == _VERSIONS[name]}


def skipped() -> dict[str, str]:
    """Return the agents that cannot be tested here, and why."""
    try:
        known: dict[str, str] = json.loads(SKIPPED.read_text())
    except (OSError, ValueError):
        known = {}
    missing = dict.fromkeys(AGENTS.keys() - installed(), "it is not installed")
    lacks_node = dict.fromkeys(filter(_lacks_node, AGENTS.keys() - missing.keys()), "it needs node")
    return missing | known | lacks_node


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
    reasons = _install() if AGENTS.keys() - installed() else {}
    reasons |= {name: said for name in AGENTS.keys() - reasons.keys() if (said := _broken(name))}
    SKIPPED.write_text(json.dumps(reasons))
    reasons |= install_axe()
    for name, reason in sorted(reasons.items()):
        sys.stderr.write(f"Not installed, so not tested: {name}: {reason}\n")


def _install() -> dict[str, str]:
    """Have npm install everything at once or else one by one; the agents it did not work for, and why."""
    npm = shutil.which("npm")
    if npm is None:
        return dict.fromkeys(AGENTS, "npm was not found, which installs it")
    good = [] if _node_version() >= _NODE_NEEDED else [_NODE]
    wanted = {name: f"{package}@{_VERSIONS[name]}" for name, package in AGENTS.items()}
    if _npm(npm, [*good, *wanted.values()]) is None:
        return {}
    reasons = {}
    for agent, one in wanted.items():
        # npm removes what it is not told of, so it is told again of those that went well.
        error = _npm(npm, [*good, one], "--fetch-retries=0")
        if error is None:
            good.append(one)
        else:
            reasons[agent] = f"npm cannot install {one}: {error}"
    return reasons


def install_axe() -> dict[str, str]:
    """Have npm install axe; why that did not work, if it did not."""
    npm = shutil.which("npm")
    if npm is None or AXE.is_file():
        return {}
    error = _npm(npm, [_AXE], "--fetch-retries=0", folder=HERE / "axe")
    return {"axe": f"npm cannot install {_AXE}: {error}"} if error else {}


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
    if node is None:
        return 0
    found = re.match(r"v(\d+)\.", subprocess.run([node, "--version"], capture_output=True, text=True).stdout)
    return int(found[1]) if found else 0


def _broken(agent: str) -> str | None:
    """Why the program does not work, if it does not."""
    argv, env = [str(BIN / agent), "--version"], _environment()
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_PROBE_SECONDS, env=env)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if _VERSIONS[agent] in done.stdout else f"it says {(done.stdout + done.stderr).strip()[:200]}"


def _version(package: str) -> str:
    try:
        known: dict[str, str] = json.loads((HERE / "node_modules" / package / "package.json").read_text())
    except (OSError, ValueError):
        return ""
    return known["version"]


if __name__ == "__main__":
    main()
