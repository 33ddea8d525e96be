"""Supabase: its pooler, its connection strings, its roles, and the schema as migrations of its projects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from segue.domain.errors import StoreError
from segue.domain.events import ErrorSeen, PromptSent
from segue.features.supabase.dataset import FOLDER, files, write
from segue.store import connect
from segue.store.address import for_driver, is_pooled
from segue.store.schema import VERSION
from tests.store.driving import Given, driven, giving

OWNER = "supabase_owner"
ROLES = """
DO $$ BEGIN
    CREATE ROLE anon NOLOGIN; CREATE ROLE authenticated NOLOGIN; CREATE ROLE service_role NOLOGIN;
    CREATE ROLE supabase_owner LOGIN NOSUPERUSER;
EXCEPTION WHEN duplicate_object THEN NULL; END $$;
"""
PRIVILEGES = """
GRANT USAGE ON SCHEMA public TO anon, authenticated, service_role;
GRANT anon, authenticated, service_role TO supabase_owner;
ALTER DEFAULT PRIVILEGES FOR ROLE supabase_owner IN SCHEMA public
    GRANT ALL ON TABLES TO anon, authenticated, service_role;
"""
"""What a new Supabase project comes with: everything in `public` is everybody's."""


REFUSALS = ("InsufficientPrivilege", "ObjectNotInPrerequisiteState", "WrongObjectType")
"""No right to it; or it is a view, which nobody can change or truncate."""


@pytest.fixture
def project(empty_postgres: str) -> str:
    """The URL of a database like a new Supabase project, for the role that owns it and is no superuser."""
    with psycopg.connect(empty_postgres, autocommit=True) as connection:
        connection.execute(ROLES)
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} OWNER TO {OWNER}")
        connection.execute(PRIVILEGES)
    return empty_postgres.replace("postgres:@", f"{OWNER}:@")


def apply(url: str, texts: list[str]) -> None:
    """What `supabase db push` does with each file."""
    with psycopg.connect(url) as connection:
        for text in texts:
            connection.execute(text.encode())
            connection.commit()


def work(url: str) -> str:
    async def main() -> str:
        with connect(url) as store:
            async with driven(store) as journal:
                await journal.emit(ErrorSeen("EXIT_ERROR", "no", "no"))
                await journal.emit(PromptSent("d", 1, "t"))
                await journal.step("a", Given, giving())
                store.send(journal.run.id, "news", {})
            return journal.run.id

    return asyncio.run(main())


def relations(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_class WHERE relname LIKE 'orchestrator%' AND relkind IN ('r', 'v')"
        ).fetchall()
    return sorted(name for (name,) in rows)


@contextmanager
def asking(url: str) -> Iterator[Callable[[str, str], int | str]]:
    """Yield what says how many rows a role gets or would change, or the name of the error."""
    with psycopg.connect(url) as connection:

        def ask(role: str, sql: str) -> int | str:
            connection.execute(f"SET ROLE {role}".encode())
            try:
                return connection.execute(sql.encode()).rowcount
            except psycopg.Error as error:
                return type(error).__name__
            finally:
                connection.rollback()

        yield ask


def by_files(url: str) -> None:
    apply(url, list(files().values()))


def by_files_twice_after_segue(url: str) -> None:
    connect(url).disconnect()
    by_files(url)
    by_files(url)


@pytest.mark.parametrize("prepare", [by_files, by_files_twice_after_segue])
def test_only_the_service_role_is_let_in_and_segue_works_as_owner(
    project: str, prepare: Callable[[str], None]
) -> None:
    prepare(project)
    with connect(project, read_only=True) as store:
        assert store.version() == VERSION, "the migrations are not recognised"
    run_id = work(project)
    assert len(relations(project)) >= 9
    with asking(project) as ask:
        for relation in relations(project):
            for role in ("anon", "authenticated"):
                for sql in (f"SELECT * FROM {relation}", f"DELETE FROM {relation}", f"TRUNCATE {relation}"):
                    assert ask(role, sql) in REFUSALS
            assert isinstance(ask("service_role", f"SELECT * FROM {relation}"), int)
        assert ask("service_role", f"SELECT * FROM orchestrator_runs WHERE id = '{run_id}'") == 1
        assert ask("service_role", "SELECT * FROM segue_errors") == 1
        assert ask("service_role", "UPDATE orchestrator_runs SET note = 'seen'") == 1


def test_without_the_files_nobody_but_the_owner_reads_anything_either(project: str) -> None:
    """Segue may have made the tables itself: row level security is on for them as well."""
    work(project)
    with asking(project) as ask:
        for relation in relations(project):
            for role in ("anon", "authenticated"):
                assert ask(role, f"SELECT * FROM {relation}") == 0, relation
        assert ask("anon", "DELETE FROM orchestrator_runs") == 0
        insert = "INSERT INTO orchestrator_prompts VALUES ('x', 'x', 1)"
        assert ask("anon", insert) == "InsufficientPrivilege"


def test_the_files_make_the_same_schema_as_segue_itself(project: str, postgres_server: str) -> None:
    by_files(project)
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS segue_by_itself")
        connection.execute("CREATE DATABASE segue_by_itself")
    own = postgres_server.replace("/postgres?", "/segue_by_itself?")
    connect(own).disconnect()
    assert schema(project) == schema(own)


def schema(url: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(
            "SELECT 'column', table_name, column_name, data_type FROM information_schema.columns"
            " WHERE table_name LIKE 'orchestrator%'"
            " UNION ALL SELECT 'index', tablename, indexname, indexdef FROM pg_indexes"
            " WHERE tablename LIKE 'orchestrator%'"
            " UNION ALL SELECT 'view', viewname, '', definition FROM pg_views"
            " WHERE viewname LIKE 'orchestrator%'"
            " UNION ALL SELECT 'options', relname, '', array_to_string(reloptions, ',') FROM pg_class"
            " WHERE relname LIKE 'orchestrator%' AND relkind = 'v'"
            " UNION ALL SELECT 'security', relname, '', relrowsecurity::text FROM pg_class"
            " WHERE relname LIKE 'orchestrator%' AND relkind = 'r' ORDER BY 1, 2, 3"
        ).fetchall()


def test_the_file_is_written_once(tmp_path: Path) -> None:
    [written] = write(tmp_path)
    assert written.parent == tmp_path / FOLDER
    assert written.name[:14].isdigit()
    written.write_text("-- mine")
    assert write(tmp_path) == []
    assert written.read_text() == "-- mine"


@pytest.mark.parametrize(
    ("url", "pooled", "driver"),
    [
        ("postgresql://a:b@db.x.supabase.co:5432/postgres", False, None),
        ("postgresql://a.x:b@aws-0-eu.pooler.supabase.com:5432/postgres", False, None),
        ("postgresql://a.x:b@aws-0-eu.pooler.supabase.com:6543/postgres", True, None),
        (
            "postgres://a:b@h:6543/p?pgbouncer=true&sslmode=require&connection_limit=1",
            True,
            "postgres://a:b@h:6543/p?sslmode=require",
        ),
        ("postgres://a:b@h/p?pgbouncer=true", True, "postgres://a:b@h/p"),
        ("postgres://a::6543@h/p", False, None),
    ],
)
def test_supabase_s_connection_strings_are_taken_as_they_are(
    url: str, pooled: bool, driver: str | None
) -> None:
    assert is_pooled(url) is pooled
    assert for_driver(url) == (driver or url)


def test_a_connection_string_without_its_password_is_named() -> None:
    with pytest.raises(StoreError, match="no password yet"):
        connect("postgresql://postgres:[YOUR-PASSWORD]@db.x.supabase.co:5432/postgres")
