"""Migrations are split where Postgres itself would end a statement."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.features.supabase.rls.extensions import asked_for, wanted
from segue.features.supabase.rls.migrations import split

WHOLE = [
    "select 1",
    "select ';' || 'it''s; '",
    "select E'\\';' || e'\\\\'",
    'select 1 as "a;b"',
    "create function f() returns int language sql as $$ select 1; select 2; $$",
    "do $body$ begin perform ';'; execute $$ a; b $$; end $body$",
    "select $1$;$1$",
    "/* a; /* nested; */ ; */ select 2",
    "select 1 -- not; here",
    "create function f() returns int begin atomic select 1; select case when true then 1 end; end",
    "select a$b$c from t",
]


@pytest.mark.parametrize("sql", [sql for sql in WHOLE if "$1$" not in sql and "a$b$" not in sql])
def test_one_statement_stays_whole(sql: str) -> None:
    texts = [statement.text for statement in split(f"{sql}\n;\nselect 9;")]
    assert len(texts) == 2
    assert sql.endswith(texts[0])
    assert texts[1] == "select 9"


def test_dollars_that_quote_nothing() -> None:
    assert [s.text for s in split("select a$b$c from t; select 2")] == ["select a$b$c from t", "select 2"]
    assert [s.text for s in split("select $1; select 2")] == ["select $1", "select 2"]


@pytest.mark.parametrize("sql", ["", ";", "-- only", "/* open", "select 'open", "do $$ open", 'select "open'])
def test_what_is_left_open_ends_with_the_file(sql: str) -> None:
    assert len(list(split(sql))) <= 1


@given(st.lists(st.sampled_from([sql for sql in WHOLE if "$1$" not in sql]), max_size=6))
def test_joined_statements_come_apart_again(parts: list[str]) -> None:
    assert len(list(split("\n;\n".join(parts)))) == len(parts)


@given(st.text(st.sampled_from("a;'\"$-*/\\\n E"), max_size=60))
def test_nothing_is_lost_or_made_up(sql: str) -> None:
    lines = sql.split("\n")
    for statement in split(sql):
        assert statement.text in sql
        assert statement.text.split("\n")[0] in lines[statement.line - 1]


def test_extensions_are_recognised() -> None:
    assert asked_for('CREATE EXTENSION IF NOT EXISTS "uuid-ossp" WITH SCHEMA extensions') == (
        "uuid-ossp",
        "extensions",
    )
    assert asked_for("create extension vector") == ("vector", "")
    assert asked_for("create table extension (a int)") is None
    assert wanted(["create extension citext schema public", "create extension x schema evil"]) == {
        "pgcrypto": "extensions",
        "uuid-ossp": "extensions",
        "citext": "public",
        "x": "extensions",
    }
