"""Finds out whose rows are: a user's own, those of his team, and what belongs to these."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from segue.features.supabase.rls.catalog import USERS, ApiFunction, CatalogTable, ForeignKey
from segue.features.supabase.rls.values import is_owner, names_tenant

_MEMBERS = re.compile(r"member|participant|collaborator|employee|teammate|_users$", re.IGNORECASE)
_TENANTS = re.compile(
    r"(^|_)(org|organi[sz]ation|team|workspace|tenant|compan(y|ie)|household|clinic|school|agenc(y|ie)|"
    r"conversation|chat|room)s?$",
    re.IGNORECASE,
)
_POWERS = re.compile(r"admin|superuser|moderator", re.IGNORECASE)
_HIGHEST = re.compile(r"super|platform|system", re.IGNORECASE)


class Membership(Struct, frozen=True):
    """A table whose rows say that a user, or a team of his, belongs to a row of another table."""

    table: str
    key: ForeignKey


class RowOwnership(Struct):
    """Whose the rows of every table are."""

    columns: dict[str, tuple[str, ...]]
    """Table → the columns that say it."""
    memberships: list[Membership] = field(default_factory=list)

    @property
    def tenants(self) -> set[str]:
        """The tables whose rows belong to their members."""
        return {membership.key.target for membership in self.memberships}

    def shared(self, tables: Iterable[CatalogTable]) -> set[str]:
        """The tables whose rows belong to teams: the teams themselves, and what belongs to them."""
        found, tables = self.tenants, list(tables)
        while True:
            more = {t.title for t in tables if {key.target for key in t.foreign_keys} & found} - found
            if not more:
                return found
            found |= more


def ownership(tables: Iterable[CatalogTable], functions: Sequence[ApiFunction] = ()) -> RowOwnership:
    """Follow foreign keys down from users, and memberships up to what they are members of."""
    tables = list(tables)
    found = RowOwnership({table.title: direct_owners(table) for table in tables})
    texts = {table.title: policy_text(table, functions) for table in tables}
    while True:
        more = {t.title: _through(t, found.columns) for t in tables if not found.columns[t.title]}
        more = {title: columns for title, columns in more.items() if columns}
        found.columns.update(more)
        if not more and not _climb(tables, texts, found):
            return found


def direct_owners(table: CatalogTable) -> tuple[str, ...]:
    """The columns that hold a user's id."""
    keyed = [name for key in table.foreign_keys if key.target == USERS for name in key.columns]
    others = {name for key in table.foreign_keys for name in key.columns}
    named = [c.name for c in table.columns if c.name not in others and is_owner(table, c)]
    return tuple(dict.fromkeys([*keyed, *named]))


def tenant_columns(table: CatalogTable) -> tuple[str, ...]:
    """The columns that hold a team's id by their name alone, without a foreign key."""
    others = {name for key in table.foreign_keys for name in key.columns}
    return tuple(c.name for c in table.columns if c.name not in others and names_tenant(c))


def users_in(table: CatalogTable, tables: Mapping[str, CatalogTable]) -> tuple[str, ...]:
    """The columns that name a user, also by the row of a table in which every user has one: profiles."""
    people = [
        name
        for key in table.foreign_keys
        if key.target in tables and set(key.target_columns) <= set(direct_owners(tables[key.target]))
        for name in key.columns
    ]
    return tuple(dict.fromkeys([*direct_owners(table), *people]))


def grants_power(table: CatalogTable) -> bool:
    """Return whether a row makes somebody an administrator of everything."""
    others = [key for key in table.foreign_keys if key.target != USERS]
    return bool(_POWERS.search(table.name) and direct_owners(table) and not others)


def ranks(table: CatalogTable) -> dict[str, list[str]]:
    """The columns that say what a member may do, with their possible values."""
    found = {}
    for column in table.columns:
        definitions = [check.definition for check in table.checks if column.name in check.columns]
        labels = [*column.labels, *(text for d in definitions for text in re.findall(r"'(\w+)'", d))]
        labels = [label for label in dict.fromkeys(labels) if not _HIGHEST.search(label)]
        if labels and column.name not in direct_owners(table):
            found[column.name] = labels[:6]
    return found


def policy_text(table: CatalogTable, functions: Sequence[ApiFunction]) -> str:
    """All conditions of a table's policies, with the bodies of the functions that they call."""
    text = " ".join(f"{policy.using} {policy.with_check}" for policy in table.policies)
    for _ in range(3):
        called = [f.source for f in functions if f.source not in text and _names(text, f.name)]
        if not called:
            break
        text = " ".join([text, *called])
    return text


def _names(text: str, name: str) -> bool:
    return bool(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text))


def _through(table: CatalogTable, found: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    keys = [key for key in table.foreign_keys if key.target != table.title and found.get(key.target)]
    return tuple(name for key in keys for name in key.columns) or tenant_columns(table)


def _climb(tables: list[CatalogTable], texts: Mapping[str, str], found: RowOwnership) -> bool:
    """Find tables that belong to all members; False if there are no more."""
    before = len(found.memberships)
    known = {table.title: table for table in tables}
    for table in tables:
        if not found.columns[table.title]:
            continue
        for key in table.foreign_keys:
            there = known.get(key.target)
            if there is None or found.columns[key.target] or not _joins(table, there, tables, texts):
                continue
            found.columns[key.target] = tuple(key.target_columns)
            found.memberships.append(Membership(table.title, key))
    return len(found.memberships) > before


def _joins(
    table: CatalogTable, there: CatalogTable, tables: list[CatalogTable], texts: Mapping[str, str]
) -> bool:
    """Return whether rows of one table make people members of the other's.

    A bookmark of an article or a tag of a note look the same: names decide, or policies that ask the table.
    """
    if direct_owners(table):
        ranked = any(column.name == "role" for column in table.columns)
        if ranked or _MEMBERS.search(table.name) or _TENANTS.search(there.name):
            return True
    below = [t for t in tables if any(key.target == there.title for key in t.foreign_keys)]
    asking = [t.title for t in (there, *below) if t.title != table.title]
    return any(_names(texts[title], table.name) for title in asking)
