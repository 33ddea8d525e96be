"""Merge files that are product and control at once: the head's file with the base's control sections."""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

_HEADER = re.compile(r"^\[\[?\s*(.+?)\s*\]?\]\s*(?:[#;].*)?$")
_PYPROJECT = re.compile(
    r"tool\.(?:pytest|coverage|tox|nox)\b.*|project\.entry-points\.[\"']?pytest11[\"']?(?:\..*)?"
    r"|tool\.poetry\.plugins\.[\"']?pytest11[\"']?(?:\..*)?"
)
_CARGO = re.compile(r"(?:lib|test|bench|patch|profile)(?:\..*)?")
_INI = re.compile(r"tool:pytest|pytest|coverage:.*|tox:.*|options\.entry_points")
_KEYS = (
    *("scripts", "jest", "babel", "imports", "config", "workspaces", "mocha", "ava", "c8", "nyc", "tap"),
    *("vitest", "husky", "lint-staged", "simple-git-hooks", "commitlint"),
)


def merge_control(path: str, base: str, head: str) -> str | None:
    """Return the head's text with the base's control sections; None if they cannot be distinguished.

    An empty text stands for a file that does not exist.
    """
    name = path.rpartition("/")[2]
    try:
        return _MERGERS[name](base, head)
    except (ValueError, configparser.Error, RecursionError):
        return None


def _tables(
    base: str, head: str, control: re.Pattern[str], read: Callable[[str], Mapping[str, Any]]
) -> str | None:
    """Merge files that consist of tables; `read` returns their values by name, to see that it worked."""
    merged = _sections(base, head, control)
    wanted = {name: value for name, value in read(head).items() if not control.fullmatch(name)}
    wanted |= {name: value for name, value in read(base).items() if control.fullmatch(name)}
    return merged if read(merged) == wanted else None


def _toml(text: str) -> dict[str, Any]:
    return _flatten(tomllib.loads(text))


def _flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the values of a document by dotted names; empty tables count."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            flat |= _flatten(value, f"{name}.")
        else:
            flat[name] = value
    return flat


def _ini(text: str) -> dict[str, dict[str, str]]:
    parser = configparser.RawConfigParser(strict=False, default_section="\0")
    parser.read_string(text)
    return {name: dict(parser.items(name)) for name in parser.sections()}


def _sections(base: str, head: str, control: re.Pattern[str]) -> str:
    kept = [text for name, text in _split(head) if not control.fullmatch(name)]
    ours = [text for name, text in _split(base) if control.fullmatch(name)]
    return "\n".join((*kept, *ours)) + "\n"


def _split(text: str) -> list[tuple[str, str]]:
    """Return the sections of a TOML or INI file with their names; the part before the first has none."""
    parts: list[tuple[str, list[str]]] = [("", [])]
    for line in text.splitlines():
        if match := _HEADER.match(line):
            parts.append((match[1], []))
        parts[-1][1].append(line)
    return [(name, "\n".join(lines)) for name, lines in parts]


def _package(base: str, head: str) -> str | None:
    before, after = json.loads(base or "{}"), json.loads(head or "{}")
    if not isinstance(before, dict) or not isinstance(after, dict):
        return None
    kept = {key: value for key, value in after.items() if key not in _KEYS}
    kept |= {key: before[key] for key in _KEYS if key in before}
    return json.dumps(kept, indent=2, ensure_ascii=False) + "\n" if kept else ""


def _go_mod(base: str, head: str) -> str | None:
    kept = [line for line, replaces in _go_lines(head) if not replaces]
    ours = [line for line, replaces in _go_lines(base) if replaces]
    return "\n".join((*kept, *ours)) + "\n"


def _go_lines(text: str) -> list[tuple[str, bool]]:
    """Return the lines of a go.mod, and whether each belongs to a replace directive."""
    found, inside = [], False
    for line in text.splitlines():
        word = line.split("//")[0].strip()
        starts = word.startswith("replace") and word[7:8] in ("", " ", "\t", "(")
        found.append((line, starts or inside))
        inside = (starts and word.endswith("(")) or (inside and word != ")")
    return found


_MERGERS: dict[str, Callable[[str, str], str | None]] = {
    "pyproject.toml": partial(_tables, control=_PYPROJECT, read=_toml),
    "setup.cfg": partial(_tables, control=_INI, read=_ini),
    "Cargo.toml": partial(_tables, control=_CARGO, read=_toml),
    "package.json": _package,
    "go.mod": _go_mod,
}
