"""The tables that features add to the settings: fields of a class that is made when they are used."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec

from segue.config.settings import Settings
from segue.domain.options import OptionField, option_fields
from segue.plugins import TABLES, import_name


def settings_kind(names: Iterable[str]) -> type[Settings]:
    """Return the settings with those tables of features that are named; other names are left out."""
    return _extend(tuple(name for name in names if name in TABLES))


def all_settings() -> type[Settings]:
    """Return the settings with the tables of every feature; slow."""
    return _extend(tuple(TABLES))


def list_settings(kind: type[Any] | None = None, prefix: str = "") -> list[tuple[str, OptionField]]:
    """Return every setting with its full name, those of features included."""
    found: list[tuple[str, OptionField]] = []
    for field in option_fields(kind or all_settings()):
        name = f"{prefix}{field.name}"
        found += list_settings(field.type, f"{name}.") if field.is_table else [(name, field)]
    return found


@cache
def _extend(tables: tuple[str, ...]) -> type[Settings]:
    fields = []
    for name in tables:
        kind = import_name(TABLES[name].where)
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
