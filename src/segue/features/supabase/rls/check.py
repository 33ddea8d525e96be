"""The whole check: a scratch database, the migrations, and what one of two users can do to the other."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
from msgspec import Struct
from msgspec.structs import replace
from psycopg import Connection, sql
from psycopg.conninfo import conninfo_to_dict

from segue.domain.errors import SegueError, ToolMissing
from segue.features.supabase.postgres import Server, throwaway
from segue.features.supabase.rls import conclusions
from segue.features.supabase.rls.attempts import STRANGER, USER_A, AccessTrial, read_view
from segue.features.supabase.rls.catalog import (
    ApiFunction,
    CatalogTable,
    CatalogView,
    read_functions,
    read_tables,
    read_views,
)
from segue.features.supabase.rls.extensions import wanted
from segue.features.supabase.rls.migrations import Migration, apply, read_migrations
from segue.features.supabase.rls.options import RlsOptions
from segue.features.supabase.rls.ownership import ownership
from segue.features.supabase.rls.reach import Scene, as_ranked, hidden_rows, own_steps, with_own_metadata
from segue.features.supabase.rls.report import RlsFinding, RlsLevel, RlsReport, TableReport
from segue.features.supabase.rls.rows import A, B, Filled, fill, sign_up
from segue.features.supabase.rls.scratch import Scratch, scratch, words_of

_SAID = 300


async def examine_in_thread(project: Path, options: RlsOptions, folder: Path) -> RlsReport:
    """Check a project in a thread; see `segue.features.supabase.rls.examine`."""
    work = _Work(project, options, folder)
    running = asyncio.get_running_loop().run_in_executor(None, work.report)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.to_thread(work.stop)
        with contextlib.suppress(Exception):
            await running
        raise


class _Work:
    """One check, in a thread of its own."""

    def __init__(self, project: Path, options: RlsOptions, folder: Path) -> None:
        self._project, self._options, self._folder = project, options, folder
        self._scratch: Scratch | None = None
        self._late = threading.Event()

    def stop(self) -> None:
        """End it, from another thread."""
        self._late.set()
        if self._scratch is not None:
            self._scratch.stop()

    def report(self) -> RlsReport:
        """Run the check within its time limit and return what was found; a failure is a report too."""
        demanded = self._options.enabled == "on"
        timer = threading.Timer(self._options.timeout, self.stop)
        timer.daemon = True
        timer.start()
        try:
            found = self._examined()
            return found if found.not_run else replace(found, demanded=demanded)
        except (psycopg.Error, SegueError, OSError) as error:
            return replace(self._failed(error), demanded=demanded)
        finally:
            timer.cancel()

    def _failed(self, error: Exception) -> RlsReport:
        if self._late.is_set():
            limit = f"it did not end within {self._options.timeout:g} s"
            return RlsReport(not_run=limit, hint="Look for migrations that never end, or raise rls.timeout")
        if isinstance(error, SegueError):
            return RlsReport(not_run=error.message, hint=error.hint)
        said = (str(error) or type(error).__name__).splitlines()[0][:_SAID]
        return RlsReport(
            not_run=f"the scratch database failed: {said}",
            hint="rls.database_url must name a server on which you may make databases and roles",
        )

    def _examined(self) -> RlsReport:
        migrations, findings = read_migrations(self._project)
        statements = (statement.text for migration in migrations for statement in migration.statements)
        asked = wanted(statements)
        with self._server() as server, scratch(server, asked) as place:
            self._scratch = place
            if self._late.is_set():
                raise ToolMissing("it was stopped")
            with place.connect() as session:
                found = _Examination(place, session, self._options).run(migrations)
        return replace(found, findings=(*findings, *found.findings))

    @contextlib.contextmanager
    def _server(self) -> Iterator[Server]:
        url = self._options.database_url
        if url is None:
            with throwaway(self._folder) as server:
                yield server
            return
        given = conninfo_to_dict(url.reveal())
        parameters = {name: value for name, value in given.items() if value is not None}
        yield Server({"connect_timeout": 10, **parameters}, own=False)


class _Examination(Struct, frozen=True):
    """The part of the check that runs in the scratch database."""

    place: Scratch
    session: Connection[Any]
    options: RlsOptions

    def run(self, migrations: list[Migration]) -> RlsReport:
        """Apply the migrations, fill the tables, try."""
        applied = apply(self.place, self.session, migrations)
        findings = [*self._lacking(), *applied.findings]
        self._unless_stopped()
        # Another session: the migrations may have changed the settings of theirs.
        with self.place.connect() as session:
            tables = read_tables(session, self.options.schemas)
            functions = read_functions(session)
            whose = ownership(tables, functions)
            findings += _signed_up(session)
            try:
                filled = fill(session, tables, whose)
            except psycopg.Error:
                self._unless_stopped()
                raise
            reports = [self._tried(session, table, filled) for table in tables]
            self._unless_stopped()
            findings += [finding for report in reports for finding in conclusions.about_table(report)]
            self._refresh(session)
            findings += self._views(session, reports)
            known = {table.title: table for table in tables}
            scene = Scene(session, known, filled, whose, functions, hidden_rows(reports))
            findings += self._steps(scene) + self._functions(functions)
        version = self.place.admin.info.server_version // 10000
        kind = "throw-away server" if self.place.server.own else "rls.database_url"
        names, server = tuple(applied.files), f"PostgreSQL {version}, {kind}"
        nothing = f"the migrations make no table in {', '.join(self.options.schemas)}" if not reports else ""
        return RlsReport(tuple(reports), tuple(findings), names, server, not_run=nothing)

    def _unless_stopped(self) -> None:
        if self.place.stopped.is_set():
            raise ToolMissing("it was stopped")

    def _lacking(self) -> list[RlsFinding]:
        names = ", ".join(self.place.missing)
        message = f"the scratch server lacks {names}; what needs it cannot be tried here"
        return [RlsFinding(RlsLevel.NOTICE, "extensions", message)] if names else []

    def _tried(self, session: Connection[Any], table: CatalogTable, filled: Filled) -> TableReport:
        self._unless_stopped()
        problem = filled.problems.get(table.title, "")
        attempts = () if problem else tuple(AccessTrial(session, table, filled).all())
        return TableReport(
            table.schema,
            table.name,
            table.enabled,
            table.forced,
            tuple(table.policies),
            filled.owners[table.title],
            attempts,
            problem,
        )

    def _refresh(self, session: Connection[Any]) -> None:
        """Fill materialized views: what they show was made before there were any rows."""
        for view in read_views(session, self.options.schemas):
            if view.materialized:
                query = sql.SQL("REFRESH MATERIALIZED VIEW {}").format(sql.Identifier(view.schema, view.name))
                with contextlib.suppress(psycopg.Error):
                    session.execute(query)

    def _views(self, session: Connection[Any], reports: list[TableReport]) -> list[RlsFinding]:
        """Views with their owner's rights lead around the policies."""
        found = []
        for view in read_views(session, self.options.schemas):
            seen = {actor.label: read_view(session, view, actor) for actor in (STRANGER, USER_A)}
            found += conclusions.about_view(view, seen, _readable(view, reports))
        return found

    def _steps(self, scene: Scene) -> list[RlsFinding]:
        """Steps of user A that open what is user B's."""
        found = []
        for steps in (own_steps, as_ranked, with_own_metadata):
            self._unless_stopped()
            found += list(steps(scene))
        return conclusions.about_steps(found)

    def _functions(self, functions: Sequence[ApiFunction]) -> list[RlsFinding]:
        """Every function that the API offers and that no policy binds."""
        offered = [function for function in functions if self._is_offered(function)]
        return [finding for function in offered for finding in conclusions.about_function(function)]

    def _is_offered(self, function: ApiFunction) -> bool:
        return function.schema in self.options.schemas and function.callable and bool(function.roles)


def _readable(view: CatalogView, reports: list[TableReport]) -> dict[str, bool]:
    """Return whether the stranger and user A may read what the view reads; untried counts as read."""
    below = [report for report in reports if report.title in view.guarded]
    return {
        who: all(
            attempt.allowed is not False
            for report in below
            for attempt in report.attempts
            if attempt.who == who and attempt.what == "read"
        )
        for who in (STRANGER.label, USER_A.label)
    }


def _signed_up(session: Connection[Any]) -> list[RlsFinding]:
    """Two users sign up; what a trigger of the project makes of it is a finding."""
    for user in (A, B):
        try:
            sign_up(session, user)
        except psycopg.Error as error:
            _without_triggers(session)
            message = f"signing up fails, a trigger on it raises: {words_of(error)}"
            return [RlsFinding(RlsLevel.ERROR, "auth.users", message)]
    return []


def _without_triggers(session: Connection[Any]) -> None:
    """The users are needed all the same: add them with the project's triggers switched off."""
    with session.transaction():
        session.execute("SET LOCAL ROLE supabase_auth_admin")
        session.execute("ALTER TABLE auth.users DISABLE TRIGGER USER")
        session.execute("RESET ROLE")
        for user in (A, B):
            with contextlib.suppress(psycopg.Error), session.transaction():
                sign_up(session, user)
