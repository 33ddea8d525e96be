"""What a database is called: a Postgres URL or the path of an SQLite file."""

from __future__ import annotations

import re
from pathlib import Path

_POSTGRES = ("postgres://", "postgresql://")
_SQLITE = "sqlite://"


def is_postgres(address: str | Path) -> bool:
    """Whether the address names a Postgres database."""
    return str(address).startswith(_POSTGRES)


def sqlite_path(address: str | Path) -> Path:
    """The file an SQLite address names: a path, or `sqlite:///relative` and `sqlite:////absolute`."""
    text = str(address)
    if text.startswith(_SQLITE):
        text = text.removeprefix(_SQLITE).removeprefix("/")
    return Path(text).expanduser()


def masked(address: str | Path) -> str:
    """The address as it may be shown: without its password."""
    text = str(address)
    if not is_postgres(text):
        return text
    scheme, _, rest = text.partition("://")
    # A password may hold any character that its owner forgot to quote, so the last `@` ends it.
    user, at, host = rest.rpartition("@")
    if at:
        name, colon, _ = user.partition(":")
        user = f"{name}:***" if colon else name
    host = re.sub(r"(?i)(password=)[^&]*", r"\1***", host)
    return f"{scheme}://{user}{at}{host}"
