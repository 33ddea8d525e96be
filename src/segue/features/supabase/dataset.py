"""The schema as migrations of a Supabase project, accessible to the service role only."""

from __future__ import annotations

import re
from pathlib import Path

from segue.store.schema import CREATE, TABLE, VERSION, in_postgres, statements
from segue.system.files import write_atomic

FOLDER = Path("supabase") / "migrations"
_MADE = re.compile(r"CREATE (TABLE|VIEW) (?:IF NOT EXISTS )?((?:orchestrator|segue)_\w+)")
_NOW = "CAST(extract(epoch FROM now()) * 1000 AS bigint)"


def files() -> dict[str, str]:
    """Return the migration by its file name, whose date is made up."""
    return {f"202601010000{VERSION:02}_segue_schema.sql": _text()}


def write(project: Path) -> list[Path]:
    """Write the missing files to the project; existing ones may have been applied and are kept."""
    folder = project / FOLDER
    missing = {name: text for name, text in files().items() if not (folder / name).exists()}
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
    for name, text in missing.items():
        write_atomic(folder / name, text.encode())
    return [folder / name for name in missing]


def _text() -> str:
    """Return a migration that can be applied twice, and after Segue created the tables itself."""
    made = [in_postgres(statement) for statement in statements()]
    found = [match for statement in (CREATE, *made) if (match := _MADE.match(statement))]
    parts = [
        "-- Segue's dataset: written by `segue db supabase`. Do not edit.",
        f"{CREATE};",
        f"DO $segue$\nBEGIN\nIF NOT EXISTS (SELECT 1 FROM {TABLE} WHERE version = {VERSION}) THEN",  # noqa: S608
        *(f"{statement};" for statement in made),
        f"INSERT INTO {TABLE} VALUES ({VERSION}, 'schema', {_NOW});",  # noqa: S608
        "END IF;\nEND\n$segue$;",
        "-- Only the service role comes in, even where Supabase gives new tables to everybody.",
        *(line for kind, table in (match.groups() for match in found) for line in _closed(kind, table)),
    ]
    return "\n\n".join(parts) + "\n"


def _closed(kind: str, table: str) -> list[str]:
    grants = [
        f"REVOKE ALL ON {table} FROM PUBLIC, anon, authenticated;",
        f"GRANT ALL ON {table} TO service_role;",
    ]
    if kind == "VIEW":
        return grants
    return [
        *grants,
        f"DROP POLICY IF EXISTS segue_service ON {table};",
        f"CREATE POLICY segue_service ON {table} TO service_role USING (true) WITH CHECK (true);",
    ]
