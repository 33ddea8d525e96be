"""Addresses of databases: a Postgres URL or libpq's `key=value` form, or the path of an SQLite file.

Only what is needed to tell them apart and to show them is read here, without the driver. An address is shown
only as far as every part of it is understood: where a password might be, it is hidden.
"""

from __future__ import annotations

import re
from pathlib import Path

from segue.domain.errors import UsageError

_POSTGRES = ("postgres://", "postgresql://")
_SQLITE = "sqlite://"
_POOLER_PORT = 6543
"""The port on which Supabase's pooler hands out connections per transaction."""
_FOREIGN = ("pgbouncer", "connection_limit", "pool_timeout", "supa", "schema")
"""Parameters that Supabase's pages add to a connection string for Prisma and others."""

_SHOWN = (
    *("host", "hostaddr", "port", "dbname", "user", "service", "sslmode", "sslrootcert", "application_name"),
    *("connect_timeout", "target_session_attrs", "channel_binding", "gssencmode", "client_encoding"),
    *_FOREIGN,
)
_KEYS = (
    *_SHOWN,
    *("password", "passfile", "options", "sslcert", "sslkey", "sslpassword", "require_auth", "keepalives"),
)
"""What the `key=value` form may begin with; of these, only the values of `_SHOWN` are shown."""

_PAIR = re.compile(r"\s*(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s\\']|\\.)*)(?=\s|$)")
_FIRST_KEY = re.compile(r"\s*(\w[\w ]*?)\s*=")
_SCHEME = re.compile(r"\s*([A-Za-z][\w+.-]*)://")
_HOST = r"(?:[\w.%~-]*|\[[0-9A-Fa-f:.%]*\])(?::\d{0,5})?"
_PLACE = re.compile(rf"({_HOST}(?:,{_HOST})*(?:/[^@?#:\s]*)?)(?:\?([^@#\s]*))?")
_USER = re.compile(r"[^:/?#\s@]*")


def is_postgres(address: str | Path) -> bool:
    """Return whether the address names a Postgres database."""
    text = str(address)
    key = _FIRST_KEY.match(text)
    return text.startswith(_POSTGRES) or (key is not None and key[1].lower() in _KEYS)


def is_path(address: str) -> bool:
    """Return whether an address can only be the path of a file."""
    return not (_SCHEME.match(address) or _FIRST_KEY.match(address) or "\0" in address)


def check_address(address: str) -> str:
    """Return an address that can be one; what looks like another database is not taken for a file."""
    if is_path(address) or is_postgres(address) or address.startswith(_SQLITE):
        return address
    scheme, key = _SCHEME.match(address), _FIRST_KEY.match(address)
    shown = f"{key[1]}=…" if key else "…"
    if scheme:
        shown = f"{scheme[1]}://…"
    raise UsageError(
        f"The database address {shown} is neither a Postgres address nor the path of a file.",
        hint="Give postgresql://user:password@host:port/name, host=… dbname=… user=…, or a path.",
    )


def sqlite_path(address: str | Path) -> Path:
    """Return the file of an SQLite address: a path, or `sqlite:///relative` and `sqlite:////absolute`."""
    text = str(address)
    if text.startswith(_SQLITE):
        text = text.removeprefix(_SQLITE).removeprefix("/")
    return Path(text).expanduser()


def is_pooled(address: str) -> bool:
    """Return whether a pooler hands out connections per transaction: LISTEN does not work there."""
    place = address.rpartition("@")[2]
    return re.search(rf"(?::|port\s*=\s*'?){_POOLER_PORT}\b|pgbouncer=true", place) is not None


def for_driver(address: str) -> str:
    """Return the address without parameters for other drivers, which ours would reject."""
    if not address.startswith(_POSTGRES):
        return address
    head, question, query = address.partition("?")
    kept = [pair for pair in query.split("&") if pair.partition("=")[0] not in _FOREIGN]
    return f"{head}?{'&'.join(kept)}" if question and any(kept) else head


def masked(address: str | Path) -> str:
    """Return the address without its password, so that it can be shown."""
    text = str(address)
    if not is_postgres(text):
        return text
    scheme, found, rest = text.partition("://")
    return f"{scheme}://{_mask_url(rest)}" if found and text.startswith(_POSTGRES) else _mask_pairs(text)


def _mask_url(rest: str) -> str:
    # A password may contain any character that its owner forgot to quote, so the last `@` ends it.
    user, at, place = rest.rpartition("@")
    found, name = _PLACE.fullmatch(place), _USER.match(user)
    assert name is not None
    if not found or ("?" in user and "=" in user) or user[name.end() : name.end() + 1] not in ("", ":"):
        return "***"
    who = f"{name[0]}:***" if name.end() < len(user) else name[0]
    query = "&".join(_mask_pair(*pair.partition("=")) for pair in (found[2] or "").split("&") if pair)
    return f"{who}{at}{found[1]}" + (f"?{query}" if query else "")


def _mask_pairs(text: str) -> str:
    pairs = list(_PAIR.finditer(text))
    if "".join(pair[0] for pair in pairs) != text.rstrip():
        return "***"
    return " ".join(_mask_pair(pair[1], "=", pair[2]) for pair in pairs)


def _mask_pair(key: str, equals: str, value: str) -> str:
    if not equals:
        return "***"
    return f"{key}={value}" if key.lower() in _SHOWN else f"{key}=***"
