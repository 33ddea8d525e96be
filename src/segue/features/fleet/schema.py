"""Prepares a database for a fleet: our tables, and Procrastinate's in a schema of their own."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING

from segue.domain.errors import StoreError, UsageError
from segue.store.address import is_pooled, is_postgres, masked
from segue.store.database import transact
from segue.store.postgres import Postgres
from segue.store.schema import create
from segue.system.extras import missing_extra

if TYPE_CHECKING:
    from segue.runtime.app import App

QUEUE_SCHEMA = "procrastinate"
VERSION = "1"
"""The version of tables.sql."""

_MIGRATION = re.compile(r"(\d+)\.(\d+)\.(\d+)_\d+_.*\.sql")


def address_of(app: App) -> str:
    """Return the address of the database that the fleet shares; only Postgres can be shared."""
    address = app.database()
    if not is_postgres(address):
        raise UsageError(
            f"A fleet shares a Postgres database, but runs are stored in {masked(address)}.",
            hint="Set SEGUE_DATABASE_URL=postgresql://…, or give --database-url",
        )
    if is_pooled(address):
        raise UsageError(
            f"The pooler of {masked(address)} gives away connections after each transaction: "
            "workers could not be woken, nor use the queue's own schema.",
            hint="Use the session pooler or a direct connection: with Supabase, port 5432 instead of 6543",
        )
    return address


def prepare(address: str) -> list[str]:
    """Create or update what a fleet needs, and say what was done; nothing if it was all there."""
    with closing(Postgres(address)) as database:
        done = ["Made the tables of the journal."] if create(database) else []

        def apply(_again: bool) -> list[str]:
            database.lock("fleet")
            return [*_prepare_queue(database), *_prepare_tables(database)]

        return done + transact(database, apply)


def require_prepared(app: App) -> str:
    """Return the address of the fleet's database; refuse one that was not prepared, or by another version."""
    address = address_of(app)
    with closing(Postgres(address)) as database:
        known = _versions(database)
    if not known:
        raise StoreError(
            f"The database {masked(address)} is not prepared for a fleet.", hint="segue fleet init"
        )
    if known.get("segue") != VERSION or known.get("procrastinate") != queue_version():
        raise StoreError(
            f"The database {masked(address)} was prepared by another version.",
            hint="Update all workers to one version, then: segue fleet init",
        )
    return address


def queue_version() -> str:
    """Return the version of Procrastinate that is installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("procrastinate")
    except PackageNotFoundError:
        raise missing_extra("A fleet needs Procrastinate, which is not installed.", "fleet") from None


def _versions(database: Postgres) -> dict[str, str]:
    if not database.has_table("segue_fleet.versions"):
        return {}
    return dict(database.execute("SELECT part, version FROM segue_fleet.versions"))


def _prepare_tables(database: Postgres) -> list[str]:
    from importlib.resources import files

    if _versions(database).get("segue") == VERSION:
        return []
    database.script((files("segue.features.fleet") / "tables.sql").read_text(encoding="utf-8"))
    _note(database, "segue", VERSION)
    return ["Created the schema segue_fleet: workers, and bundles of work."]


def _prepare_queue(database: Postgres) -> list[str]:
    """Create Procrastinate's tables, or bring them up to date with its own migrations."""
    from importlib.resources import files

    wanted, known = queue_version(), _versions(database).get("procrastinate")
    if known == wanted:
        return []
    database.execute(f"CREATE SCHEMA IF NOT EXISTS {QUEUE_SCHEMA}")
    folder = files("procrastinate.sql")
    if not database.has_table(f"{QUEUE_SCHEMA}.procrastinate_jobs"):
        scripts = [folder / "schema.sql"]
        said = f"Created the schema {QUEUE_SCHEMA} for the queue (Procrastinate {wanted})."
    else:
        newer = _numbers(known or "0.0.0")
        found = [
            (match, entry)
            for entry in (folder / "migrations").iterdir()
            if (match := _MIGRATION.fullmatch(entry.name))
        ]
        scripts = [
            entry
            for match, entry in sorted(found, key=lambda pair: pair[1].name)
            if tuple(map(int, match.groups())) > newer
        ]
        said = f"Updated the schema {QUEUE_SCHEMA} from Procrastinate {known or 'unknown'} to {wanted}."
    database.execute(f"SET LOCAL search_path TO {QUEUE_SCHEMA}")
    for script in scripts:
        database.script(script.read_text(encoding="utf-8"))
    database.execute("RESET search_path")
    database.execute("CREATE SCHEMA IF NOT EXISTS segue_fleet")
    database.execute(
        "CREATE TABLE IF NOT EXISTS segue_fleet.versions"
        " (part text PRIMARY KEY, version text NOT NULL, applied bigint NOT NULL)"
    )
    _note(database, "procrastinate", wanted)
    return [said]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _note(database: Postgres, part: str, version: str) -> None:
    database.execute(
        "INSERT INTO segue_fleet.versions VALUES (?, ?, {now})"
        " ON CONFLICT (part) DO UPDATE SET version = excluded.version, applied = excluded.applied",
        part,
        version,
    )
