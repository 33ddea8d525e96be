"""Decide from configuration files which commands Cursor's `agent` runs without asking."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

_FIRST = {
    "version": 1,
    "approvalMode": "allowlist",
    "sandbox": {"mode": "disabled"},
    "permissions": {"allow": ["Shell(ls)"], "deny": []},
}


def write_defaults() -> None:
    """Write the configuration of a first start, but only to CURSOR_CONFIG_DIR, never to the home folder."""
    folder = os.environ.get("CURSOR_CONFIG_DIR")
    if folder and not (Path(folder) / "cli-config.json").exists():
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / "cli-config.json").write_text(json.dumps(_FIRST, indent=2))


def is_permitted(command: str, force: bool, root: Path) -> bool:
    """Return whether the command runs: a denied one never does, one not allowed does with --force."""
    rules = [_read(path).get("permissions", {}) for path in (_user_file(), root / ".cursor" / "cli.json")]
    words = command.split()
    rule = f"Shell({words[0] if words else ''})"
    if any(rule in found.get("deny", []) for found in rules):
        return False
    return force or any(rule in found.get("allow", []) for found in rules)


def _user_file() -> Path:
    if folder := os.environ.get("CURSOR_CONFIG_DIR"):
        return Path(folder) / "cli-config.json"
    if home := os.environ.get("XDG_CONFIG_HOME"):
        return Path(home) / "cursor" / "cli-config.json"
    return Path.home() / ".cursor" / "cli-config.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        loaded: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return loaded
