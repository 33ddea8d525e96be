"""The row level security check finds real holes in real migrations by trying, and lets good ones pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from segue.features.supabase.rls.report import RlsLevel
from tests.features.supabase.place import ON, RIGHT, TODOS, allowed, attempt, checked, found, no_findings

OWN = "user A read own"


def test_right_policies_pass(tmp_path: Path, rls_server: str) -> None:
    report = checked(tmp_path, rls_server, TODOS, ON + RIGHT)
    assert no_findings(report) == []
    assert report.passed
    assert allowed(report) == {OWN}
    [table] = report.tables
    assert (table.schema, table.name, table.enabled, table.forced) == ("public", "todos", True, False)
    assert table.owned_by == ("user_id",)
    assert [(p.name, p.command, p.roles) for p in table.policies] == [
        ("add own", "INSERT", ("authenticated",)),
        ("change own", "UPDATE", ("authenticated",)),
        ("delete own", "DELETE", ("authenticated",)),
        ("read own", "SELECT", ("authenticated",)),
    ]
    assert len(table.attempts) == 10
    assert report.migrations == ("20240101000001_part.sql", "20240101000002_part.sql")
    check = report.as_check()
    assert (check.command, check.exit_code) == ("rls check", 0)
    assert "DELETE FROM" in check.output
    assert check.output.endswith("Passed: 1 tables, 0 errors.\n")


def test_without_row_level_security_everybody_can_do_everything(tmp_path: Path, rls_server: str) -> None:
    report = checked(tmp_path, rls_server, TODOS)
    assert not report.passed
    [error] = found(report)
    assert "row level security is off" in error
    everything = {
        f"{who} {what}" for who in ("user A", "anon") for what in ("read", "insert", "update", "delete")
    }
    assert allowed(report) == everything | {OWN, "user A give away"}
    check = report.as_check()
    assert check.exit_code == 1
    assert "public.todos: row level security OFF" in check.output
    assert report.as_json()["passed"] is False


def test_off_but_without_rights_is_only_noticed(tmp_path: Path, rls_server: str) -> None:
    report = checked(tmp_path, rls_server, TODOS + "revoke all on todos from anon, authenticated;")
    assert report.passed
    assert "no rights" in found(report, RlsLevel.NOTICE)[0]


def test_on_without_policies_nobody_gets_in(tmp_path: Path, rls_server: str) -> None:
    report = checked(tmp_path, rls_server, TODOS + ON)
    assert report.passed
    assert allowed(report) == set()
    assert "there is no policy" in found(report, RlsLevel.WARNING)[0]


def test_using_true_for_everything_is_a_hole(tmp_path: Path, rls_server: str) -> None:
    report = checked(tmp_path, rls_server, TODOS + ON + "create policy p on todos for all using (true);")
    assert len(found(report)) == 9
    assert any("anon can delete user B's row; tried: DELETE FROM" in error for error in found(report))


@pytest.mark.parametrize("role", ["public", "anon, authenticated"])
def test_reading_is_public_on_purpose_where_a_policy_says_just_that(
    tmp_path: Path, rls_server: str, role: str
) -> None:
    more = f'create policy "everyone" on todos for select to {role} using (true);'
    report = checked(tmp_path, rls_server, TODOS + ON + RIGHT + more)
    assert report.passed
    assert allowed(report) == {OWN, "user A read", "anon read"}
    assert (
        len(
            [
                notice
                for notice in found(report, RlsLevel.NOTICE)
                if 'on purpose, says policy "everyone"' in notice
            ]
        )
        == 2
    )


def test_a_condition_that_lets_everybody_in_is_no_purpose(tmp_path: Path, rls_server: str) -> None:
    more = "create policy p on todos for select to authenticated using (auth.uid() is not null);"
    report = checked(tmp_path, rls_server, TODOS + ON + RIGHT + more)
    [error] = found(report)
    assert "user A can read user B's row" in error


def test_insert_without_a_real_with_check(tmp_path: Path, rls_server: str) -> None:
    policies = """
    create policy r on todos for select using (auth.uid() = user_id);
    create policy i on todos for insert to authenticated with check (true);
    """
    report = checked(tmp_path, rls_server, TODOS + ON + policies)
    [error] = found(report)
    assert "user A can insert rows in user B's name" in error
    assert allowed(report) == {OWN, "user A insert"}


def test_update_whose_with_check_lets_rows_be_given_away(tmp_path: Path, rls_server: str) -> None:
    policies = """
    create policy r on todos for select using (true);
    create policy u on todos for update using (auth.uid() = user_id) with check (true);
    """
    report = checked(tmp_path, rls_server, TODOS + ON + policies)
    [error] = found(report)
    assert "give rows away" in error


def test_update_without_a_condition(tmp_path: Path, rls_server: str) -> None:
    policies = RIGHT.replace(
        "using ((select auth.uid()) = user_id) with check ((select auth.uid()) = user_id)", "using (true)"
    )
    more = "create policy r on todos for select using (true);"
    report = checked(tmp_path, rls_server, TODOS + ON + policies + more)
    assert allowed(report) == {OWN, "user A read", "anon read", "user A update", "user A give away"}
    assert "user A can change user B's row" in found(report)[0]


def test_a_policy_that_compares_a_column_with_itself(tmp_path: Path, rls_server: str) -> None:
    report = checked(tmp_path, rls_server, TODOS + ON + "create policy p on todos using (user_id = user_id);")
    assert "anon delete" in allowed(report)
    assert not report.passed


def test_rows_belong_to_a_user_through_other_rows(tmp_path: Path, rls_server: str) -> None:
    schema = """
    create table lists (id uuid primary key default gen_random_uuid(),
      owner_id uuid not null default auth.uid());
    create table items (id uuid primary key default gen_random_uuid(),
      list_id uuid not null references lists on delete cascade, done boolean not null);
    create table tags (item_id uuid references items, name text, primary key (item_id, name));
    alter table lists enable row level security; alter table items enable row level security;
    alter table tags enable row level security;
    create policy own on lists using (auth.uid() = owner_id);
    create policy own on items using (
      exists (select 1 from lists where id = list_id and owner_id = auth.uid()));
    """
    report = checked(tmp_path, rls_server, schema + "create policy own on tags using (auth.role() = 'anon');")
    assert {t.name: t.owned_by for t in report.tables} == {
        "lists": ("owner_id",),
        "items": ("list_id",),
        "tags": ("item_id",),
    }
    assert allowed(report, "items") == {OWN} == allowed(report, "lists")
    assert allowed(report, "tags") == {"anon read", "anon insert", "anon update", "anon delete"}
    assert all(error.startswith("public.tags") for error in found(report))


def test_join_tables(tmp_path: Path, rls_server: str) -> None:
    schema = """
    create table teams (id serial primary key, name text not null);
    create table members (team_id int references teams, user_id uuid references auth.users,
      role text not null check (role in ('owner', 'member')), primary key (team_id, user_id));
    create function in_team(team int) returns boolean language sql stable security definer
      set search_path = '' as $$
      select exists (select 1 from public.members m where m.team_id = team and m.user_id = auth.uid()) $$;
    alter table teams enable row level security; alter table members enable row level security;
    create policy team on teams for select using (in_team(id));
    create policy team on members for select using (in_team(team_id));
    """
    report = checked(tmp_path, rls_server, schema)
    assert report.passed
    assert allowed(report, "members") == {OWN}
    hole = "create policy join_any on members for insert to authenticated with check (true);"
    report = checked(tmp_path / "again", rls_server, schema, hole)
    assert allowed(report, "members") == {OWN, "user A insert"}
    assert "policies let it through" in attempt(report, "user A", "insert", "members").said


def test_recursion_in_policies_is_named(tmp_path: Path, rls_server: str) -> None:
    schema = """
    create table members (team_id int, user_id uuid not null);
    alter table members enable row level security;
    create policy p on members using (team_id in (select team_id from members where user_id = auth.uid()));
    """
    [error] = found(checked(tmp_path, rls_server, schema))
    assert "refer to the table itself" in error
    assert "infinite recursion" in error


def test_broken_sql_names_file_and_line(tmp_path: Path, rls_server: str) -> None:
    broken = "-- a comment\n\ncreate table good (id int);\n\ncreate table bad (\n  id int,\n  nonsense\n);\n"
    report = checked(tmp_path, rls_server, TODOS + ON + RIGHT, broken, "create table never (id int);")
    [error] = [e for e in found(report) if "migration fails" in e]
    assert error.startswith(str(Path("supabase/migrations/20240101000002_part.sql")) + ":8: ")
    assert 'syntax error at or near ")"' in error
    assert {t.name for t in report.tables} == {"good", "todos"}
    assert report.migrations == ("20240101000001_part.sql",)
    assert allowed(report) == {OWN}


def test_a_runtime_error_is_found_by_its_statement(tmp_path: Path, rls_server: str) -> None:
    report = checked(tmp_path, rls_server, "select 1;\n\ninsert into\n  missing values (1);")
    assert "part.sql:4: the migration fails" in found(report)[0]


def test_profiles_made_by_a_trigger(tmp_path: Path, rls_server: str) -> None:
    schema = """
    create table profiles (id uuid primary key references auth.users on delete cascade,
      name text not null unique);
    alter table profiles enable row level security;
    create policy "Public profiles are viewable by everyone." on profiles for select using (true);
    create policy "Users can update own profile." on profiles for update using ((select auth.uid()) = id);
    create function handle_new_user() returns trigger set search_path = '' as $$
    begin
      insert into public.profiles (id, name) values (new.id, new.raw_user_meta_data->>'full_name');
      return new;
    end; $$ language plpgsql security definer;
    create trigger on_auth_user_created after insert on auth.users
      for each row execute procedure handle_new_user();
    """
    report = checked(tmp_path, rls_server, schema)
    assert report.passed
    assert allowed(report, "profiles") == {OWN, "user A read", "anon read"}
    forgotten = schema.replace("security definer", "")
    report = checked(tmp_path / "again", rls_server, forgotten)
    assert [
        e for e in found(report) if e.startswith("auth.users: signing up fails") and "permission denied" in e
    ]
    assert allowed(report, "profiles") == {OWN, "user A read", "anon read"}


def test_views_that_forget_whose_rights_they_use(tmp_path: Path, rls_server: str) -> None:
    views = """
    create view open_todos as select id, title from todos;
    create view safe_todos with (security_invoker = true) as select id, title from todos;
    create view hidden_todos as select id from todos; revoke all on hidden_todos from anon, authenticated;
    """
    report = checked(tmp_path, rls_server, TODOS + ON + RIGHT, views)
    [error] = found(report)
    assert error.startswith("public.open_todos: the view shows rows of public.todos")
    assert "anon" in error
    public = "create policy p on todos for select using (true);"
    report = checked(tmp_path / "again", rls_server, TODOS + ON + RIGHT + public, views)
    assert report.passed
    [warning] = found(report, RlsLevel.WARNING)
    assert warning.startswith("public.open_todos")


def test_functions_with_their_owners_rights_are_named(tmp_path: Path, rls_server: str) -> None:
    functions = """
    create function leak() returns setof todos language sql security definer as 'select * from public.todos';
    create function fine() returns int language sql as 'select 1';
    """
    report = checked(tmp_path, rls_server, TODOS + ON + RIGHT, functions)
    [warning] = found(report, RlsLevel.WARNING)
    assert warning.startswith("leak(): SECURITY DEFINER without a fixed search_path")


def test_a_trigger_that_sets_the_owner_is_no_hole(tmp_path: Path, rls_server: str) -> None:
    trigger = """
    create policy r on todos for select using (auth.uid() = user_id);
    create policy i on todos for insert to authenticated with check (auth.uid() = user_id);
    create function own() returns trigger language plpgsql as
      $$ begin if auth.uid() is not null then new.user_id := auth.uid(); end if; return new; end $$;
    create trigger own before insert on todos for each row execute function own();
    """
    report = checked(tmp_path, rls_server, TODOS + ON + trigger)
    assert report.passed
    assert attempt(report, "user A", "insert").said == "made, but not as user B's row"


def test_tables_that_belong_to_nobody(tmp_path: Path, rls_server: str) -> None:
    schema = """
    create table countries (code char(2) primary key, name text not null);
    create table messages (id serial primary key, body text not null);
    alter table countries enable row level security; alter table messages enable row level security;
    create policy read on countries for select using (true);
    create policy form on messages for insert to anon with check (true);
    """
    report = checked(tmp_path, rls_server, schema)
    assert report.passed
    assert allowed(report, "countries") == {OWN, "user A read", "anon read"}
    [warning] = found(report, RlsLevel.WARNING)
    assert "anon can insert rows" in warning
    report = checked(tmp_path / "again", rls_server, schema + "create policy all_ on countries using (true);")
    assert any("anon can delete rows" in error for error in found(report))


def test_policies_that_trust_what_users_write_themselves(tmp_path: Path, rls_server: str) -> None:
    policy = "create policy p on todos using ((auth.jwt() -> 'user_metadata' ->> 'admin')::boolean);"
    report = checked(tmp_path, rls_server, TODOS + ON + policy)
    assert any("user_metadata" in warning for warning in found(report, RlsLevel.WARNING))


def test_rights_to_single_columns(tmp_path: Path, rls_server: str) -> None:
    schema = """
    create table accounts (id uuid primary key references auth.users, email text,
      credits int not null default 0);
    alter table accounts enable row level security;
    create policy r on accounts for select using (true);
    create policy u on accounts for update using (true);
    revoke update on accounts from anon, authenticated; grant update (credits) on accounts to authenticated;
    """
    report = checked(tmp_path, rls_server, schema)
    assert "user A update" in allowed(report, "accounts")
    assert '"credits"' in attempt(report, "user A", "update", "accounts").sql
    assert "anon update" not in allowed(report, "accounts")


def test_other_schemas_if_they_are_exposed(tmp_path: Path, rls_server: str) -> None:
    schema = """
    create schema api; create table api.notes (id serial primary key, user_id uuid not null);
    grant usage on schema api to anon; grant all on all tables in schema api to anon;
    grant all on all sequences in schema api to anon;
    """
    assert checked(tmp_path, rls_server, schema).tables == ()
    report = checked(tmp_path / "again", rls_server, schema, schemas=["public", "api"])
    assert "anon read" in allowed(report, "notes")
    assert found(report)[0].startswith("api.notes")
