"""Change one setting in a file, and leave every other line as it is."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Sequence
from typing import Any

from segue.domain.pattern import pattern

_HEADER = pattern(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?")


def set_value(text: str, path: Sequence[str], literal: str) -> str | None:
    """Return TOML in which a setting has another value, written as TOML; None: that takes a person."""
    *table, key = path
    lines = text.splitlines()
    line = f"{key} = {literal}"
    at = _find_line(lines, table, key)
    if at is not None:
        lines[at] = line
    elif (start := _find_table(lines, table)) is not None:
        lines.insert(start, line)
    else:
        lines += [*([""] if lines else []), f"[{'.'.join(table)}]", line]
    new = "\n".join(lines) + "\n"
    return new if _is_wanted(text, new, path, literal) else None


def _find_line(lines: Sequence[str], table: Sequence[str], key: str) -> int | None:
    """Return the line that has a setting, if its value is in that line alone."""
    here: list[str] = []
    for number, line in enumerate(lines):
        if header := _HEADER.fullmatch(line):
            here = [part.strip() for part in header[1].split(".")]
        elif here == list(table) and line.partition("=")[0].strip() == key:
            return number
    return None


def _find_table(lines: Sequence[str], table: Sequence[str]) -> int | None:
    """Return the line before which a setting of a table is written; None: the table is not there."""
    headers = [(number, found[1]) for number, line in enumerate(lines) if (found := _HEADER.fullmatch(line))]
    if not table:
        return headers[0][0] if headers else len(lines)
    wanted = list(table)
    return next(
        (number + 1 for number, name in headers if [part.strip() for part in name.split(".")] == wanted), None
    )


def _is_wanted(old: str, new: str, path: Sequence[str], literal: str) -> bool:
    """Return whether nothing but the setting is different."""
    try:
        wanted: dict[str, Any] = copy.deepcopy(tomllib.loads(old))
        value = tomllib.loads(f"value = {literal}")["value"]
        place = wanted
        for name in path[:-1]:
            place = place.setdefault(name, {})
        place[path[-1]] = value
        return tomllib.loads(new) == wanted
    except (tomllib.TOMLDecodeError, AttributeError, TypeError):
        return False
