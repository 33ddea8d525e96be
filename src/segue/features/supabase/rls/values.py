"""Guesses values that a column takes: by its type, its checks, and whose row it is."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence

from segue.features.supabase.rls.catalog import CatalogTable, Column, Constraint

_OWNERS = """
    user_id userid user uid user_uuid owner owner_id owner_uuid created_by creator creator_id author author_id
    profile_id account_id member_id sender_id auth_id auth_user_id auth_uid customer_id uploaded_by
    inserted_by added_by
"""
OWNER_NAMES = frozenset(_OWNERS.split())
"""Columns that say whose a row is, although no foreign key does."""

PEOPLE = frozenset({"profiles", "profile", "users", "user_profiles", "accounts", "people"})
"""Tables whose own `id` is the user's."""

_OPEN = re.compile(r"public|publish|open|shared|everyone|anyone|visible|active", re.IGNORECASE)
_POWER = re.compile(r"admin|super|moderator|owner|staff|system", re.IGNORECASE)
_LEFT_EMPTY = re.compile(r"token|share|public|publish|delet|archiv|hidden|path", re.IGNORECASE)
_NUMBERS = {"A": "20047", "B": "30053"}

_TENANT = re.compile(r"(org|organi[sz]ation|team|workspace|tenant|company)_?id")

_LITERAL = re.compile(r"'((?:[^']|'')*)'")
_NUMBER = re.compile(r"(?<![\w.'])-?\d+(?:\.\d+)?(?![\w.'])")
_LENGTH = re.compile(r"\((\d+)\)")

_BY_TYPE: dict[str, tuple[str, ...]] = {
    "boolean": ("false", "true"),
    "uuid": (),
    "json": ("{}", "[]", '""'),
    "jsonb": ("{}", "[]", '""'),
    "bytea": ("\\x00",),
    "inet": ("127.0.0.1",),
    "cidr": ("127.0.0.0/8",),
    "macaddr": ("08:00:2b:01:02:03",),
    "interval": ("1 day", "1 hour"),
    "time without time zone": ("09:00", "17:00", "12:00"),
    "time with time zone": ("09:00+00", "17:00+00"),
    "point": ("(0,0)",),
    "tsvector": ("",),
    "xml": ("<a/>",),
    "int4range": ("[1,2)",),
    "int8range": ("[1,2)",),
    "numrange": ("[1,2)",),
    "tsrange": ("[2030-01-01,2030-01-02)",),
    "tstzrange": ("[2030-01-01,2030-01-02)",),
    "daterange": ("[2030-01-01,2030-01-02)",),
    "money": ("1",),
    "bit": ("0",),
    "hstore": ("",),
    "ltree": ("a",),
    "geometry": ("POINT(0 0)",),
    "geography": ("POINT(0 0)",),
}


def is_owner(table: CatalogTable, column: Column) -> bool:
    """Return whether the column contains a user's id, judging by its name if it has no foreign key."""
    if column.base not in ("uuid", "text", "character varying"):
        return False
    own_id = table.name in PEOPLE and column.name == "id" and column.base == "uuid" and not column.has_default
    return own_id or is_owner_name(column.name)


def candidates(column: Column, checks: Sequence[Constraint], tag: str) -> list[str]:
    """Values worth trying, best first; `tag` tells the rows of the users apart."""
    if column.labels:
        return _least_first(column.labels)
    named = [check.definition for check in checks if column.name in check.columns]
    if column.base.startswith("vector"):
        size = _LENGTH.search(column.type)
        return ["[" + ",".join(["0"] * int(size.group(1) if size else 1)) + "]"]
    if column.base.endswith("[]"):
        return ["{}", *(f"{{{value}}}" for value in (*_literals(named), tag, "1"))]
    if column.base in _BY_TYPE:
        return [*_BY_TYPE[column.base]] or [str(uuid.uuid4())]
    return _by_category(column, named, tag)


def hides(column: Column, checks: Sequence[Constraint]) -> bool:
    """Return whether one of the column's values keeps a row private, and another makes it public."""
    if column.base == "boolean":
        return bool(_OPEN.search(column.name)) and "active" not in column.name
    labels = column.labels or _literals([c.definition for c in checks if column.name in c.columns])
    return any(label.lower() in ("public", "published") for label in labels)


def telling(column: Column, value: str | None, label: str) -> str | None:
    """A value that shows whose row it was, for a column that says nothing yet; None if there is none."""
    if column.labels or column.base.endswith("[]") or is_owner_name(column.name):
        return None
    if column.category == "N" and value in (None, "0", "0.0", "0.00"):
        return _NUMBERS[label]
    if column.category == "S" and value is None and not _LEFT_EMPTY.search(column.name):
        return f"segue-{label.lower() * 6}-{column.name}"
    return None


def names_tenant(column: Column) -> bool:
    """Return whether the column contains a team's id, judging by its name."""
    return column.base in ("uuid", "text") and bool(_TENANT.fullmatch(column.name.lower()))


def tenant_of(user: str) -> str:
    """The id of the only team of a user where teams have no table."""
    return str(uuid.uuid5(uuid.UUID(user), "team"))


def is_owner_name(name: str) -> bool:
    """Return whether columns of this name usually hold a user's id."""
    return name.lower() in OWNER_NAMES


def _least_first(labels: Sequence[str]) -> list[str]:
    """Private before public, users before administrators: what is open on purpose is no leak."""
    return sorted(dict.fromkeys(labels), key=lambda label: bool(_OPEN.search(label) or _POWER.search(label)))


def _by_category(column: Column, checks: Sequence[str], tag: str) -> list[str]:
    if column.category == "N":
        return _numbers(checks, tag)
    if column.category == "D":
        return ["2030-01-01", "2030-01-02", "2031-06-01", "2001-01-01"]
    if column.category in "SU":
        length = _LENGTH.search(column.type)
        most = int(length.group(1)) if length else None
        return [value[:most] for value in _texts(checks, tag)]
    return []


def _texts(checks: Sequence[str], tag: str) -> list[str]:
    bounds = [int(float(number)) for check in checks for number in _NUMBER.findall(check)]
    sized = [(tag * (bound // len(tag) + 1))[:bound] for bound in bounds if 0 < bound <= 10_000]
    forms = [f"segue-{tag}", f"{tag}@example.com", f"https://example.com/{tag}", tag, tag[:2], tag[:1]]
    forms += [
        "+15550100000",
        "#aabbcc",
        "2030-01-01",
        "1.0.0",
        "00000",
        "A",
        "AB",
        "USD",
        "en",
        f"segue_{tag}",
    ]
    return [*_least_first(_literals(checks)), *forms, *sized]


def _literals(checks: Sequence[str]) -> list[str]:
    found = [text.replace("''", "'") for check in checks for text in _LITERAL.findall(check)]
    return list(dict.fromkeys(found))


def _numbers(checks: Sequence[str], tag: str) -> list[str]:
    """Small numbers, and those around the bounds that the checks name."""
    own = sum(map(ord, tag)) % 90 + 5
    bounds = [float(number) for check in checks for number in _NUMBER.findall(check)]
    near = [f"{bound + step:g}" for bound in bounds for step in (0, 1, -1)]
    return list(dict.fromkeys([str(own), "1", "0", *near, "100", "1000", "-1"]))
