"""Reads from the catalogue what a project's tables, policies, views and functions are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field
from psycopg import Connection

from segue.features.supabase.rls.report import RowPolicy

USERS = "auth.users"


class Column(Struct, frozen=True):
    """One column."""

    name: str
    type: str
    """As it is written in SQL: `character varying(20)`."""
    base: str
    """The type without its length, of a domain the one below it."""
    category: str
    """`S` for text, `N` for numbers, `D` for dates and so on."""
    labels: Sequence[str]
    """Of an enum."""
    required: bool
    has_default: bool
    generated: bool


class ForeignKey(Struct, frozen=True):
    """Columns that name a row of another table."""

    columns: Sequence[str]
    target: str
    target_columns: Sequence[str]


class Constraint(Struct, frozen=True):
    """A check or a unique constraint."""

    name: str
    columns: Sequence[str]
    definition: str


class CatalogTable(Struct):
    """One table of an exposed schema."""

    oid: int
    schema: str
    name: str
    enabled: bool
    forced: bool
    columns: list[Column] = field(default_factory=list)
    key: Sequence[str] = ()
    foreign_keys: list[ForeignKey] = field(default_factory=list)
    checks: list[Constraint] = field(default_factory=list)
    uniques: list[Constraint] = field(default_factory=list)
    policies: list[RowPolicy] = field(default_factory=list)

    @property
    def title(self) -> str:
        """Its name with its schema."""
        return f"{self.schema}.{self.name}"


class CatalogView(Struct, frozen=True):
    """A view, and the tables with row level security that it reads."""

    title: str
    schema: str
    name: str
    materialized: bool
    invoker: bool
    """True if the policies of the reader apply."""
    tables: tuple[str, ...]
    guarded: tuple[str, ...]


class ApiFunction(Struct, frozen=True):
    """A function of an exposed schema."""

    title: str
    schema: str
    name: str
    names: tuple[str, ...]
    """Of its arguments; empty where one has none."""
    types: tuple[str, ...]
    optional: int
    """How many of the last arguments have defaults."""
    source: str
    definer: bool
    """True if it runs with its owner's rights."""
    roles: tuple[str, ...]
    """Those of the API that may call it."""
    fixed_path: bool
    callable: bool
    """False for triggers and procedures."""


_TABLES = """
SELECT c.oid::bigint, n.nspname, c.relname, c.relrowsecurity, c.relforcerowsecurity
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ANY(%s) AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND NOT EXISTS (
  SELECT 1 FROM pg_catalog.pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
ORDER BY 2, 3
"""
_COLUMNS = """
SELECT a.attrelid::bigint, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
  pg_catalog.format_type(coalesce(nullif(t.typbasetype, 0), t.oid), NULL), t.typcategory,
  coalesce((SELECT array_agg(e.enumlabel::text ORDER BY e.enumsortorder) FROM pg_catalog.pg_enum e
    WHERE e.enumtypid = coalesce(nullif(t.typbasetype, 0), t.oid)), '{}'),
  a.attnotnull OR t.typnotnull, a.atthasdef OR a.attidentity <> '',
  a.attgenerated <> '' OR a.attidentity = 'a'
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = ANY(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attrelid, a.attnum
"""
_CONSTRAINTS = """
SELECT k.conrelid::bigint, k.contype::text, k.conname, pg_catalog.pg_get_constraintdef(k.oid),
  ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY u(num, place)
    JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.num ORDER BY u.place),
  coalesce(n.nspname || '.' || r.relname, ''),
  ARRAY(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY u(num, place)
    JOIN pg_catalog.pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.num ORDER BY u.place)
FROM pg_catalog.pg_constraint k LEFT JOIN pg_catalog.pg_class r ON r.oid = k.confrelid
LEFT JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace
WHERE k.conrelid = ANY(%s) AND k.contype IN ('p', 'u', 'f', 'c') ORDER BY k.conname
"""
_POLICIES = """
SELECT schemaname || '.' || tablename, policyname, cmd, roles::text[], qual, with_check,
  permissive = 'PERMISSIVE'
FROM pg_catalog.pg_policies WHERE schemaname = ANY(%s) ORDER BY policyname
"""
_VIEWS = """
SELECT n.nspname, c.relname, c.relkind = 'm',
  coalesce(array_to_string(c.reloptions, ',') ~* 'security_invoker=(true|on|1|yes)', false),
  ARRAY(SELECT DISTINCT tn.nspname || '.' || t.relname || CASE WHEN t.relrowsecurity THEN '!' ELSE '' END
    FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_depend d
      ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = r.oid
      AND d.refclassid = 'pg_catalog.pg_class'::regclass
    JOIN pg_catalog.pg_class t ON t.oid = d.refobjid AND t.relkind IN ('r', 'p')
    JOIN pg_catalog.pg_namespace tn ON tn.oid = t.relnamespace WHERE r.ev_class = c.oid)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ANY(%s) AND c.relkind IN ('v', 'm') ORDER BY 1, 2
"""
_FUNCTIONS = """
SELECT p.oid::regprocedure::text, n.nspname, p.proname,
  coalesce(p.proargnames[1:p.pronargs], '{}')::text[],
  ARRAY(SELECT pg_catalog.format_type(t, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY u(t, place)
    ORDER BY place), p.pronargdefaults, coalesce(pg_catalog.pg_get_functiondef(p.oid), ''), p.prosecdef,
  ARRAY(SELECT role FROM unnest(ARRAY['anon', 'authenticated']) role
    WHERE pg_catalog.has_function_privilege(role, p.oid, 'EXECUTE')),
  coalesce(array_to_string(p.proconfig, ',') LIKE '%%search_path=%%', false),
  p.prokind = 'f' AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype)
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND p.prokind IN ('f', 'p') AND NOT EXISTS (
  SELECT 1 FROM pg_catalog.pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
ORDER BY 1
"""


def read_tables(session: Connection[Any], schemas: Sequence[str]) -> list[CatalogTable]:
    """Every table of the schemas with all that is known of it."""
    tables = {row[0]: CatalogTable(*row) for row in session.execute(_TABLES, (list(schemas),))}
    for oid, *column in session.execute(_COLUMNS, (list(tables),)):
        tables[oid].columns.append(Column(*column))
    for oid, kind, name, definition, columns, target, there in session.execute(_CONSTRAINTS, (list(tables),)):
        table, constraint = tables[oid], Constraint(name, columns, definition)
        if kind == "p":
            table.key = columns
        if kind in "pu":
            table.uniques.append(constraint)
        elif kind == "c":
            table.checks.append(constraint)
        else:
            table.foreign_keys.append(ForeignKey(columns, target, there))
    titles = {table.title: table for table in tables.values()}
    for title, name, command, roles, *rest in session.execute(_POLICIES, (list(schemas),)):
        if title in titles:
            titles[title].policies.append(RowPolicy(name, command, tuple(roles), *rest))
    return list(tables.values())


def read_views(session: Connection[Any], schemas: Sequence[str]) -> list[CatalogView]:
    """Every view of the schemas."""
    found = []
    for schema, name, materialized, invoker, reads in session.execute(_VIEWS, (list(schemas),)):
        tables = tuple(title.removesuffix("!") for title in reads)
        guarded = tuple(title.removesuffix("!") for title in reads if title.endswith("!"))
        found.append(CatalogView(f"{schema}.{name}", schema, name, materialized, invoker, tables, guarded))
    return found


def read_functions(session: Connection[Any]) -> list[ApiFunction]:
    """Every function that is not an extension's, of all schemas: policies may call any."""
    found = []
    for title, schema, name, names, types, *rest in session.execute(_FUNCTIONS):
        padded = (*names, *[""] * len(types))[: len(types)]
        optional, source, definer, roles, fixed, callable_ = rest
        found.append(
            ApiFunction(
                title, schema, name, padded, tuple(types), optional, source, definer, tuple(roles), fixed,
                callable_,
            )
        )  # fmt: skip
    return found
