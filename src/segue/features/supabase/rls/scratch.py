"""The scratch database: made with Supabase's roles and schemas, used without power, dropped afterwards.

Migrations are written by agents. Nothing of theirs ever runs in a session that a superuser has opened: such
a session could take its power back. They get a login of their own that owns the scratch database and no more.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
from msgspec import Struct, field
from psycopg import Connection
from psycopg.abc import Query

from segue.features.supabase.postgres import Server
from segue.features.supabase.rls import extensions, supabase

_LOCK = 7_304_552_118
"""Checks on one server take turns: they share its roles."""

_LOCK_SECONDS = 300
_SESSION = (
    *("SET ROLE NONE", "SET default_transaction_read_only = off", "SET row_security = on"),
    "SET statement_timeout = '15s'",
)
"""How every session begins, whatever a migration has made the database's own defaults."""

_SAID = 300
_CREATEROLE_SINCE = 160000
"""In older versions, a role that can create roles can join any of them, even the one that runs programs."""


class Scratch(Struct):
    """One scratch database."""

    server: Server
    admin: Connection[Any]
    name: str
    owner: str
    password: str
    missing: tuple[str, ...] = ()
    """Extensions that the server lacks and nothing replaces."""
    stopped: threading.Event = field(default_factory=threading.Event)

    def connect(self) -> Connection[Any]:
        """A session of the project's own role: not a superuser, bounded in time."""
        parameters = {**self.server.parameters, "dbname": self.name, "user": self.owner}
        connection: Connection[Any] = psycopg.connect(
            **{**parameters, "password": self.password},  # type: ignore[arg-type]
            autocommit=True,
            prepare_threshold=None,
            application_name="segue rls check",
        )
        for setting in _SESSION:
            connection.execute(setting)
        return connection

    def stop(self) -> None:
        """End every session in the database, from another thread; whatever runs there fails."""
        self.stopped.set()
        with (
            contextlib.suppress(psycopg.Error),
            psycopg.connect(**self.server.parameters, autocommit=True) as connection,  # type: ignore[arg-type]
        ):
            connection.execute(f"ALTER DATABASE {self.name} ALLOW_CONNECTIONS false")
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (self.name,)
            )


def words_of(error: psycopg.Error) -> str:
    """Return what Postgres says is wrong, in one line of bounded length."""
    return (error.diag.message_primary or str(error) or type(error).__name__)[:_SAID]


@contextlib.contextmanager
def scratch(server: Server, wanted: Mapping[str, str]) -> Iterator[Scratch]:
    """A database as a new Supabase project has it, with the wanted extensions; it is gone afterwards."""
    mark = secrets.token_hex(6)
    owner = "postgres" if server.own else f"segue_rls_{mark}"
    with psycopg.connect(**server.parameters, autocommit=True) as admin:  # type: ignore[arg-type]
        admin.execute(f"SET lock_timeout = '{_LOCK_SECONDS}s'")
        admin.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
        made = Scratch(server, admin, f"segue_rls_{mark}", owner, secrets.token_urlsafe(24))
        roles = _make_roles(made)
        try:
            _run(admin, f"CREATE DATABASE {made.name} OWNER {owner} TEMPLATE template0 ENCODING 'UTF8'")
            _furnish(made, wanted)
            yield made
        finally:
            with contextlib.suppress(psycopg.Error):
                _run(admin, f"DROP DATABASE IF EXISTS {made.name} WITH (FORCE)")
            for role in reversed(roles):
                # Somebody else may have begun to use it meanwhile.
                with contextlib.suppress(psycopg.Error):
                    _run(admin, f"DROP ROLE {role}")


def _make_roles(made: Scratch) -> list[str]:
    """Add the roles that the server lacks; names of those that were added, the owner last."""
    there = {name for (name,) in made.admin.execute("SELECT rolname FROM pg_roles")}
    added = [name for name in supabase.ROLES if name not in there]
    for name in added:
        _run(made.admin, f"CREATE ROLE {name} {supabase.ROLES[name]}")
    makes_roles = made.server.own and made.admin.info.server_version >= _CREATEROLE_SINCE
    power = "CREATEROLE" if makes_roles else "NOCREATEROLE"
    attributes = f"LOGIN NOSUPERUSER NOINHERIT NOCREATEDB BYPASSRLS {power} PASSWORD '{made.password}'"
    _run(made.admin, f"CREATE ROLE {made.owner} {attributes}")
    _run(made.admin, f"GRANT {supabase.API}, supabase_auth_admin TO {made.owner}")
    for role in ("anon", "authenticated", "service_role"):
        if "authenticator" in added:
            _run(made.admin, f"GRANT {role} TO authenticator")
    return [*added, made.owner]


def _furnish(made: Scratch, wanted: Mapping[str, str]) -> None:
    """Everything that needs power, before the first line of the project's own SQL is run."""
    _run(made.admin, f'ALTER DATABASE {made.name} SET search_path = "$user", public, extensions')
    _run(made.admin, f"REVOKE ALL ON DATABASE {made.name} FROM PUBLIC")
    parameters = {**made.server.parameters, "dbname": made.name}
    with psycopg.connect(**parameters, autocommit=True) as session:  # type: ignore[arg-type]
        for schema in supabase.SCHEMAS:
            _run(session, f"CREATE SCHEMA {schema}")
        for part in (supabase.AUTH, supabase.STORAGE, supabase.SERVICES):
            _run(session, part)
        made.missing = _extend(session, wanted)
        _run(session, supabase.grants(made.owner))


def _extend(session: Connection[Any], wanted: Mapping[str, str]) -> tuple[str, ...]:
    """Make or imitate extensions; those for which neither is possible."""
    available = {name for (name,) in session.execute("SELECT name FROM pg_available_extensions")}
    missing = []
    for name, schema in wanted.items():
        if name in available and name in extensions.SAFE:
            _run(session, f'CREATE EXTENSION IF NOT EXISTS "{name}" WITH SCHEMA {schema} CASCADE')
        elif name in extensions.IMITATED:
            _run(session, extensions.IMITATED[name])
        elif name not in extensions.STANDING:
            missing.append(name)
    return tuple(missing)


def _run(session: Connection[Any], sql: str) -> None:
    text: Query = sql.encode()
    session.execute(text)
