"""The buffer of a run whose database is away: a file that is replayed when the database is back."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from segue.domain.errors import StoreError
from segue.store.claim import fence
from segue.store.database import Database, Row, Statement, transact
from segue.store.rows import EVENT, now
from segue.system.files import private_folder, write_error

_SUFFIX = ".spool"


class StatementRecorder:
    """Records statements instead of executing them."""

    def __init__(self) -> None:
        self.statements: list[Statement] = []

    def execute(self, sql: str, *values: object) -> list[Row]:
        """Record one statement; there is no result."""
        self.statements.append((sql, values))
        return []


class SpoolEntry(Struct, frozen=True):
    """The writes of one transaction."""

    n: int
    after: int
    """The number of the last event before this entry."""
    events: Sequence[Row]
    prompts: Mapping[str, str]
    statements: Sequence[Statement]


class Spool:
    """The buffer of one run: append-only, removed after it was replayed."""

    def __init__(self, folder: Path, run_id: str) -> None:
        self.path = folder / f"{run_id}{_SUFFIX}"
        self.run_id = run_id
        self._count = 0

    def keep(
        self, after: int, events: Sequence[Row], prompts: Mapping[str, str], statements: Sequence[Statement]
    ) -> None:
        """Append an entry, which survives a power failure once this returns."""
        lines: list[dict[str, Any]] = []
        if not self._count:
            lines.append({"spool": uuid.uuid4().hex, "run": self.run_id})
        self._count += 1
        entry = SpoolEntry(self._count, after, events, prompts, statements)
        self._append([*lines, asdict(entry)])

    def release(self, owner: str) -> None:
        """Record that the run is no longer driven, although the database still says so."""
        self._append([{"released": owner}])

    def released(self) -> str | None:
        """Return the claim that was released while the database was away."""
        return next((line["released"] for line in self._lines() if "released" in line), None)

    def _append(self, lines: Sequence[Mapping[str, Any]]) -> None:
        data = "".join(json.dumps(line) + "\n" for line in lines).encode()
        private_folder(self.path.parent)
        try:
            with os.fdopen(os.open(self.path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise write_error(error, self.path) from error

    def exists(self) -> bool:
        """Return whether there is anything to replay."""
        return self.path.exists()

    def read(self) -> Iterator[tuple[str, SpoolEntry]]:
        """Yield the buffer's id and its entries."""
        name = ""
        for line in self._lines():
            name = line.get("spool", name)
            if "n" in line:
                yield name, SpoolEntry(**{**line, "events": [tuple(row) for row in line["events"]]})

    def _lines(self) -> Iterator[dict[str, Any]]:
        """Yield the complete lines; one that was cut off was never confirmed."""
        if not self.exists():
            return
        with self.path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield json.loads(line)

    def remove(self) -> None:
        """Delete the file: everything is in the database."""
        self.path.unlink(missing_ok=True)
        self._count = 0

    def set_aside(self) -> Path:
        """Rename the file so that it is kept but never replayed."""
        aside = self.path.with_name(f"{self.path.name}.{uuid.uuid4().hex[:8]}.aside")
        self.path.rename(aside)
        self._count = 0
        return aside


def spools_in(folder: Path) -> list[str]:
    """Return the runs that have a buffer in the folder."""
    return sorted(path.name.removesuffix(_SUFFIX) for path in folder.glob(f"*{_SUFFIX}"))


def replay(database: Database, spool: Spool, owner: str, lease_ms: int) -> None:
    """Write a buffer to the database; entries that were replayed before are skipped."""
    for name, entry in spool.read():
        try:
            transact(database, partial(_replay, database, spool.run_id, owner, lease_ms, name, entry))
        except _Diverged as error:
            aside = spool.set_aside()
            raise StoreError(
                f"Run {spool.run_id} continued elsewhere while the database could not be reached from here.",
                kept=f"What happened here is in {aside}.",
                hint=f"Continue with what the database contains: segue resume {spool.run_id}",
            ) from error
    spool.remove()


class _Diverged(Exception):
    """The database contains a different history than the buffer."""


def _replay(
    database: Database, run_id: str, owner: str, lease_ms: int, name: str, entry: SpoolEntry, _again: bool
) -> None:
    fence(database, run_id, owner, lease_ms)
    [(replayed,)] = database.execute("SELECT replayed FROM orchestrator_runs WHERE id = ?", run_id)
    last, _, number = (replayed or "").partition(" ")
    if last == name and int(number) >= entry.n:
        return
    if events := _missing(database, run_id, entry):
        database.append("orchestrator_events", EVENT, events)
    keep_prompts(database, entry.prompts)
    for sql, values in entry.statements:
        database.execute(sql, *values)
    sql = "UPDATE orchestrator_runs SET replayed = ? WHERE id = ?"
    database.execute(sql, f"{name} {entry.n}", run_id)
    database.announce()


def _missing(database: Database, run_id: str, entry: SpoolEntry) -> Sequence[Row]:
    """Return the events that are missing: a commit may have succeeded although its answer was lost."""
    sql = "SELECT seq, ts, type FROM orchestrator_events WHERE run_id = ? AND seq >= ? ORDER BY seq"
    found = database.execute(sql, run_id, entry.after)
    if entry.after and (not found or found[0][0] != entry.after):
        raise _Diverged
    there = [row for row in found if row[0] > entry.after]
    if there != [(seq, ts, type_) for _, seq, ts, _, type_, _ in entry.events[: len(there)]]:
        raise _Diverged
    return entry.events[len(there) :]


def keep_prompts(database: Database, prompts: Mapping[str, str]) -> None:
    """Store each prompt once, in the order of digests, so that two runs never deadlock."""
    for digest in sorted(prompts):
        database.execute(
            "INSERT INTO orchestrator_prompts (digest, text, created) VALUES (?, ?, ?)"
            " ON CONFLICT (digest) DO NOTHING",
            digest,
            prompts[digest],
            now(),
        )
