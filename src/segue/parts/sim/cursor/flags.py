"""Read the command line of Cursor's `agent`, and the files that say which commands it may run."""

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


_SWITCHES: dict[str, tuple[str, Any]] = {
    "-p": ("print_mode", True),
    "--print": ("print_mode", True),
    "-f": ("force", True),
    "--force": ("force", True),
    "--yolo": ("force", True),
    "--trust": ("trust", True),
    "--stream-partial-output": ("partial", True),
    "--plan": ("mode", "plan"),
    "--continue": ("resume", "-1"),
    "-v": ("version", True),
    "--version": ("version", True),
    "--approve-mcps": ("ignored", ""),
    "--auto-review": ("ignored", ""),
    "--list-models": ("words", ["models"]),
}
_VALUES = {
    "--output-format": ("output_format", ("text", "json", "stream-json")),
    "--format": ("status_format", ("text", "json")),
    "--mode": ("mode", ("plan", "ask")),
    "--sandbox": ("ignored", ("enabled", "disabled")),
    "--model": ("model", ()),
    "--workspace": ("workspace", ()),
    "--api-key": ("api_key", ()),
    "--add-dir": ("ignored", ()),
    "--header": ("ignored", ()),
    "-H": ("ignored", ()),
}


class CursorRefusal(Exception):
    """The program prints the reason on stderr and ends with exit code 1."""


class CursorFlags:
    """The options and words of one command line."""

    print_mode: bool = False
    force: bool = False
    trust: bool = False
    partial: bool = False
    version: bool = False
    output_format: str = "text"
    status_format: str = "text"
    mode: str = ""
    model: str = ""
    workspace: str = ""
    resume: str = ""
    ignored: str = ""

    def __init__(self, argv: list[str], api_key: str) -> None:
        self.argv = argv
        self.words: list[str] = []
        self.api_key = api_key


def read_flags(argv: list[str]) -> CursorFlags:
    """Read the command line; refuse unknown options as the real one does."""
    flags = CursorFlags(argv, api_key=os.environ.get("CURSOR_API_KEY", ""))
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            flags.words += rest
            break
        _read_one(flags, word, rest)
    return flags


def _read_one(flags: CursorFlags, word: str, rest: list[str]) -> None:
    name, attached, value = word.partition("=")
    if name == "--resume":
        # Its value is optional: without `=` it swallows the next word, even if that is the prompt.
        takes_next = not attached and bool(rest) and not rest[0].startswith("-")
        unnamed = rest.pop(0) if takes_next else "-1"
        flags.resume = value if attached else unnamed
    elif name in _VALUES:
        field_name, choices = _VALUES[name]
        if not attached and not rest:
            raise CursorRefusal(f"error: option '{name}' argument missing")
        value = value if attached else rest.pop(0)
        if choices and value not in choices:
            raise CursorRefusal(f"error: option '{name}' argument '{value}' is invalid.")
        setattr(flags, field_name, value)
    elif word in _SWITCHES:
        setattr(flags, *_SWITCHES[word])
    elif word.startswith("-") and word != "-":
        raise CursorRefusal(f"error: unknown option '{word}'")
    else:
        flags.words.append(word)
