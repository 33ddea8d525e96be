"""The keys of a simulator's script as the rows of a table in the documentation."""

from __future__ import annotations

from typing import Any

from segue.domain.options import options_schema


def describe_keys(kind: type[Any]) -> list[str]:
    """Write a row for every key, with the description from its type."""
    fields = options_schema(kind)["properties"]
    return [f"| `{name}` | {field['description']} |" for name, field in fields.items()]
