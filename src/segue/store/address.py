"""Addresses of databases: a Postgres URL, or the path of an SQLite file."""

from __future__ import annotations

import re
from pathlib import Path

from segue.domain.errors import UsageError

_POSTGRES = ("postgres://", "postgresql://")
_SQLITE = "sqlite://"
_FOREIGN = ("pgbouncer", "connection_limit", "pool_timeout", "supa", "schema")
"""Parameters that Supabase's pages add to a connection string for Prisma and others."""
_SCHEME = re.compile(r"\s*([A-Za-z][\w+.-]*)://")
_PAIR = re.compile(r"\s*(\w[\w ]*?)\s*=")
_HOST = r"(?:[\w.%~-]*|\[[0-9A-Fa-f:.%]*\])(?::\d{0,5})?"
_PLACE = re.compile(rf"({_HOST}(?:,{_HOST})*(?:/[^@?#:\s]*)?)(?:\?[^@#\s]*)?")


def is_postgres(address: str | Path) -> bool:
    """Return whether the address names a Postgres database."""
    return str(address).startswith(_POSTGRES)


def is_path(address: str) -> bool:
    """Return whether an address can only be the path of a file."""
    return not (_SCHEME.match(address) or _PAIR.match(address) or "\0" in address)


def check_address(address: str) -> str:
    """Return an address that can be one; what looks like another database is not taken for a file."""
    if is_path(address) or is_postgres(address) or address.startswith(_SQLITE):
        return address
    scheme, pair = _SCHEME.match(address), _PAIR.match(address)
    shown = f"{scheme[1]}://…" if scheme else f"{pair[1]}=…" if pair else "…"
    raise UsageError(
        f"The database address {shown} is neither a Postgres URL nor the path of a file.",
        hint="Give postgresql://user:password@host:port/name, or a path.",
    )


def sqlite_path(address: str | Path) -> Path:
    """Return the file of an SQLite address: a path, or `sqlite:///relative` and `sqlite:////absolute`."""
    text = str(address)
    if text.startswith(_SQLITE):
        text = text.removeprefix(_SQLITE).removeprefix("/")
    return Path(text).expanduser()


def is_pooled(address: str) -> bool:
    """Return whether a pooler hands out connections per transaction, as Supabase's does on port 6543."""
    return re.search(r":6543\b|pgbouncer=true", address.rpartition("@")[2]) is not None


def for_driver(address: str) -> str:
    """Return the address without parameters for other drivers, which ours would reject."""
    head, _, query = address.partition("?")
    kept = [pair for pair in query.split("&") if pair and pair.partition("=")[0] not in _FOREIGN]
    return f"{head}?{'&'.join(kept)}" if kept else head


def masked(address: str | Path) -> str:
    """Return the address as it can be shown: without password and parameters."""
    text = str(address)
    if not is_postgres(text):
        return text
    scheme, _, rest = text.partition("://")
    # A password may contain any character that its owner forgot to quote, so the last `@` ends it.
    user, at, place = rest.rpartition("@")
    name, colon, _ = user.partition(":")
    found = _PLACE.fullmatch(place)
    if not found or re.search(r"[/?#\s@]", name):
        return f"{scheme}://***"
    return f"{scheme}://{name}{':***' if colon else ''}{at}{found[1]}"
