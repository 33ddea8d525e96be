"""The tables that parts add to the settings: fields of a class that is made when they are used."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec

from segue.config.settings import Settings
from segue.domain.installed import find_table, import_name, installed_parts
from segue.domain.options import OptionField, option_fields


def settings_kind(names: Iterable[str]) -> type[Settings]:
    """Return the settings with those tables of parts that are named.

    A name that nobody has is left out; raises UsageError for the table of a part that is not installed.
    """
    known = Settings.__struct_encode_fields__
    return _extend(tuple(name for name in names if name not in known and find_table(name) is not None))


def all_settings() -> type[Settings]:
    """Return the settings with the tables of every part that is installed; slow."""
    return _extend(tuple(dict.fromkeys(name for part in installed_parts() for name in part.tables)))


def list_settings(kind: type[Any] | None = None, prefix: str = "") -> list[tuple[str, OptionField]]:
    """Return every setting with its full name, those of parts included."""
    found: list[tuple[str, OptionField]] = []
    for field in option_fields(kind or all_settings()):
        name = f"{prefix}{field.name}"
        found += list_settings(field.type, f"{name}.") if field.is_table else [(name, field)]
    return found


@cache
def _extend(tables: tuple[str, ...]) -> type[Settings]:
    fields = []
    for name in tables:
        table = find_table(name)
        assert table is not None
        kind = import_name(table.where)
        fields.append((name, kind, msgspec.field(default_factory=kind)))
    if not fields:
        return Settings
    module = Settings.__module__  # where the descriptions of the other settings are read from
    made: type[Any] = msgspec.defstruct(
        "Settings",
        fields,
        bases=(Settings,),
        module=module,
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )
    assert issubclass(made, Settings)
    return made
