"""The words of a migration that the two databases say differently."""

from __future__ import annotations

import re
from collections.abc import Callable

_WORD = re.compile(r"\{(number|instant) ([\w.]+)([\w ]*)\}")


def words(statement: str, number: Callable[[str, list[str]], str], instant: Callable[[str], str]) -> str:
    """The statement with `{number column key …}` and `{instant column}` put into words."""

    def put(match: re.Match[str]) -> str:
        return instant(match[2]) if match[1] == "instant" else number(match[2], match[3].split())

    return _WORD.sub(put, statement)


def in_postgres(statement: str) -> str:
    """The statement in Postgres' words."""
    return words(statement, _number, lambda column: f"to_timestamp({column} / 1000.0)")


def _number(column: str, path: list[str]) -> str:
    place = "->".join([column, *(f"'{key}'" for key in path)])
    return f"CASE WHEN jsonb_typeof({place}) = 'number' THEN CAST({place} #>> '{{}}' AS numeric) END"
