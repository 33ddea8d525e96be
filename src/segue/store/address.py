"""Addresses of databases: a Postgres URL or the path of an SQLite file."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

_POSTGRES = ("postgres://", "postgresql://")
_SQLITE = "sqlite://"
_POOLER_PORT = 6543
"""The port on which Supabase's pooler hands out connections per transaction."""
_FOREIGN = ("pgbouncer", "connection_limit", "pool_timeout", "supa", "schema")
"""Parameters that Supabase's pages add to a connection string for Prisma and others."""


def is_postgres(address: str | Path) -> bool:
    """Return whether the address names a Postgres database."""
    return str(address).startswith(_POSTGRES)


def sqlite_path(address: str | Path) -> Path:
    """Return the file of an SQLite address: a path, or `sqlite:///relative` and `sqlite:////absolute`."""
    text = str(address)
    if text.startswith(_SQLITE):
        text = text.removeprefix(_SQLITE).removeprefix("/")
    return Path(text).expanduser()


def is_pooled(url: str) -> bool:
    """Return whether a pooler hands out connections per transaction: LISTEN does not work there."""
    parts = urlsplit(url)
    return f":{_POOLER_PORT}" in parts.netloc.rpartition("@")[2] or "pgbouncer=true" in parts.query


def for_driver(url: str) -> str:
    """Return the URL without parameters for other drivers, which ours would reject."""
    head, question, query = url.partition("?")
    kept = [pair for pair in query.split("&") if pair.partition("=")[0] not in _FOREIGN]
    return f"{head}?{'&'.join(kept)}" if question and any(kept) else head


def masked(address: str | Path) -> str:
    """Return the address without its password, so that it can be shown."""
    text = str(address)
    if not is_postgres(text):
        return text
    scheme, _, rest = text.partition("://")
    # A password may contain any character that its owner forgot to quote, so the last `@` ends it.
    user, at, host = rest.rpartition("@")
    if at:
        name, colon, _ = user.partition(":")
        user = f"{name}:***" if colon else name
    host = re.sub(r"(?i)(password=)[^&]*", r"\1***", host)
    return f"{scheme}://{user}{at}{host}"
