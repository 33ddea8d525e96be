"""The store: runs, steps and events of one database, for every reader, and journals for drivers of runs."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from segue.domain.errors import Locked, StoreError, UsageError
from segue.domain.run import Run, RunKind, RunSpec, RunState, Step
from segue.store import rows, signals
from segue.store.address import is_postgres, masked, sqlite_path
from segue.store.claim import claim, new_owner, release
from segue.store.connection import open_database
from segue.store.database import Database, Outage, QueryLimits, Row, Waiting, ask, persist, transact
from segue.store.schema import create, is_made, version_of

if TYPE_CHECKING:
    from segue.domain.events import Event, Recorded
    from segue.ports import Observer
    from segue.store.boundary import Boundary
    from segue.store.journal import Journal
    from segue.store.session import StoreSession
    from segue.system.redact import Redactor

T = TypeVar("T")

_LOG = logging.getLogger("segue.store")
_PAGE = 1000
_RUNS_AT_ONCE = 500
_FLAT_PAGE = 200
"""Rows of a flat table may be long: a patch, a prompt."""
_BY_ID = f"SELECT {rows.RUN} FROM orchestrator_runs WHERE id = ?"  # noqa: S608


class Store:
    """Where runs, steps and events are stored, in SQLite or Postgres. Made by `segue.store.connect`."""

    def __init__(
        self,
        address: str | Path,
        read_only: bool = False,
        patience: float = 0.0,
        tell: Callable[[str], None] | None = None,
        redactor: Redactor | None = None,
        opened: Sequence[Database] = (),
    ) -> None:
        self._address, self._read_only, self._redactor, self._opened = address, read_only, redactor, opened
        self._patience = patience if is_postgres(address) else 0.0
        self._outage = Waiting(patience, tell) if tell and self._patience else Outage()
        self._session: StoreSession | None = None
        self._lock = threading.Lock()
        connect = self._readable if read_only else self._writable
        self._database = opened[0] if opened else persist(self._outage, lambda _again: connect())
        self._database.outage = self._outage
        _LOG.debug("Opened %s%s.", self.name, " for reading" if read_only else "")
        self._seen: int | None = None

    @property
    def name(self) -> str:
        """The address, as it may be shown."""
        return masked(self._address if is_postgres(self._address) else sqlite_path(self._address))

    @cached_property
    def _boundary(self) -> Boundary:
        """Where text enters; readers never need it."""
        from segue.store.boundary import Boundary

        return Boundary(self._redactor)

    def create(self, source_key: str, spec: RunSpec) -> Run:
        """Add a run."""
        spec = self._boundary.spec(spec)
        while True:
            run_id = f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:4]}"

            def add(again: bool, name: str = run_id) -> bool:
                return self._add(name, source_key, spec, RunState.RUNNING) or again

            if self._transact(add):  # else another run of this second has the same short name
                run = self.run(run_id)
                assert run is not None
                return run

    def discard(self, run_id: str) -> None:
        """Remove a run that could not start: one without a step."""
        unused = "NOT EXISTS (SELECT 1 FROM orchestrator_steps WHERE run_id = orchestrator_runs.id)"
        sql = f"DELETE FROM orchestrator_runs WHERE id = ? AND owner IS NULL AND {unused}"  # noqa: S608
        self._transact(lambda _again: self._database.change(sql, run_id))

    def relocate(self, moved: Mapping[str, tuple[str, RunSpec]]) -> None:
        """Let runs belong to another place; each with its source key and specification there."""
        sql = "UPDATE orchestrator_runs SET source_key = ?, spec = ? WHERE id = ?"

        def change(_again: bool) -> None:
            for run_id, (key, spec) in moved.items():
                self._database.execute(sql, key, rows.encode_spec(self._boundary.spec(spec)), run_id)

        self._transact(change)

    def enqueue(self, wanted: Mapping[str, tuple[str, RunSpec]], at: float | None = None) -> int:
        """Add runs that others will drive, each with its id and source key; return how many are new.

        They begin at an instant, if one is given.
        """
        wake = None if at is None else int(at * 1000)
        clean = [(name, key, self._boundary.spec(spec)) for name, (key, spec) in wanted.items()]
        return self._transact(lambda _again: sum(self._add(*one, RunState.QUEUED, wake) for one in clean))

    def _add(
        self, run_id: str, source_key: str, spec: RunSpec, state: RunState, wake: int | None = None
    ) -> bool:
        """Add the row; False if there is a run with this id."""
        # Runs keep their order, also when the clock was set back.
        now = rows.now()
        [(last,)] = self._database.execute(
            "SELECT max(created) FROM orchestrator_runs WHERE created >= ?", now
        )
        created = now if last is None else last + 1
        added = self._database.execute(
            "INSERT INTO orchestrator_runs (id, source_key, kind, spec, state, created, updated, wake)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING RETURNING id",
            *(run_id, source_key, spec.kind.value, rows.encode_spec(spec), state.value),
            *(created, created, wake),
        )
        return bool(added)

    async def open(self, run_id: str, observers: Sequence[Observer] = ()) -> Journal:
        """Claim the run and open its journal. Raises Locked while another process drives it."""
        from segue.store.journal import Journal
        from segue.store.steps import Loaded, load

        session = await self._enter()
        database, owner = session.database, new_owner()

        def enter() -> tuple[Run, Loaded]:
            transact(database, lambda _again: claim(database, run_id, owner, session.lease_ms))
            return rows.to_run(ask(database, _BY_ID, run_id)[0]), load(database, run_id)

        try:
            run, loaded = await session.run(enter)
        except BaseException as error:
            if not isinstance(error, Locked | UsageError):  # the claim may have gone through
                with suppress(StoreError):
                    await session.run(lambda: transact(database, lambda _: release(database, run_id, owner)))
            await self._leave(session)
            raise
        _LOG.info("Claimed run %s as %s.", run_id, owner)
        return Journal(session, run, owner, loaded, observers, self._boundary)

    async def close(self, journal: Journal) -> None:
        """Store what is left, and release the run."""
        session = self._session
        if session is not None and journal.is_open:
            try:
                await journal.close()
                _LOG.info("Released run %s.", journal.run.id)
            finally:
                await self._leave(session)

    def send(self, run_id: str, topic: str, payload: dict[str, Any], signal_id: str | None = None) -> bool:
        """Leave a signal for a run; False if a signal with this id was left before."""
        name = signal_id or uuid.uuid4().hex
        payload = self._boundary.data(payload)

        def leave(again: bool) -> bool:
            if not self._database.execute(_BY_ID, run_id):
                raise UsageError(f"There is no run {run_id}.", hint="`segue status` lists the runs.")
            return signals.leave(self._database, run_id, topic, payload, name) or again

        return self._transact(leave)

    def withdraw(self, run_id: str, signal_id: str) -> bool:
        """Take a signal back; False if the run has taken it."""
        return self._transact(lambda again: signals.withdraw(self._database, run_id, signal_id) or again)

    def run(self, run_id: str) -> Run | None:
        """One run by its id or a unique beginning of it; UsageError when several begin so."""
        found = self._ask(_BY_ID, run_id) or self._ask(
            f"SELECT {rows.RUN} FROM orchestrator_runs WHERE substr(id, 1, ?) = ? ORDER BY id LIMIT 5",  # noqa: S608
            len(run_id),
            run_id,
        )
        if len(found) > 1:
            names = ", ".join(row[0] for row in found)
            raise UsageError(f"{run_id!r} could be any of {names}.", hint="Give more of the run's id.")
        return rows.to_run(found[0]) if found else None

    def runs(
        self, source_key: str | None = None, limit: int | None = None, kinds: Collection[RunKind] = ()
    ) -> list[Run]:
        """Return the runs, newest first; of one source or of some kinds only."""
        conditions, values = ["1 = 1"], list[object]()
        if source_key is not None:
            conditions, values = ["source_key = ?"], [source_key]
        if kinds:
            conditions.append(f"kind IN ({', '.join('?' * len(kinds))})")
            values += [kind.value for kind in kinds]
        sql = f"SELECT {rows.RUN} FROM orchestrator_runs WHERE {' AND '.join(conditions)} ORDER BY created DESC, id"  # noqa: S608, E501
        found = self._ask(f"{sql} LIMIT ?", *values, limit) if limit is not None else self._ask(sql, *values)
        return [rows.to_run(row) for row in found]

    def steps(self, run_id: str) -> list[Step]:
        """All steps of a run, all generations, in order of their start."""
        sql = f"SELECT {rows.STEP} FROM orchestrator_steps WHERE run_id = ? ORDER BY seq"  # noqa: S608
        return [rows.to_step(row) for row in self._ask(sql, run_id)]

    def events(
        self, run_id: str, after: int = 0, limit: int | None = None, kinds: Collection[type[Event]] = ()
    ) -> Iterator[Recorded]:
        """Return the events of a run with a number above `after`, in order, read page by page."""
        names = [kind.type for kind in kinds]
        sql, left = rows.select_events(names), limit
        while left is None or left > 0:
            wanted = _PAGE if left is None else min(_PAGE, left)
            page = self._ask(sql, run_id, after, *names, wanted)
            yield from rows.to_events(page)
            if len(page) < wanted:
                return
            after = page[-1][1]
            left = None if left is None else left - len(page)

    def wait_for_change(self, timeout: float) -> bool:
        """Return when another process has written to the store since the last call, or after the timeout."""
        deadline = time.monotonic() + timeout
        while (version := self._version()) == self._seen and time.monotonic() < deadline:
            time.sleep(self._database.poll_seconds)
        changed = version != self._seen
        self._seen = version
        return changed

    def version(self) -> int:
        """Return the version of the schema."""
        with self._lock:
            return version_of(self._database)

    def prompt(self, digest: str) -> str | None:
        """Return the text of a prompt that an event names by its digest."""
        found = self._ask("SELECT text FROM orchestrator_prompts WHERE digest = ?", digest)
        return found[0][0] if found else None

    def query(
        self, sql: str, arguments: Sequence[object] = (), limits: QueryLimits | None = None
    ) -> list[dict[str, Any]]:
        """Ask the dataset a question, in SQL that both databases understand, with `?` for arguments.

        It changes nothing. Columns called `spec`, `input`, `output`, `data` or `payload` are decoded.
        """
        return rows.by_name(*self.answer(sql, arguments, limits))

    def answer(
        self, sql: str, arguments: Sequence[object] = (), limits: QueryLimits | None = None
    ) -> tuple[list[str], list[Row]]:
        """Answer like `query`, with the names of the columns and the rows as they are; JSON is text."""
        with self._lock:
            database = self._database
            return persist(database.outage, lambda _again: database.read(sql, arguments, limits))

    def table(
        self, name: str, as_text: bool = False, runs: Sequence[str] | None = None
    ) -> Iterator[list[dict[str, Any]]]:
        """All rows of `runs`, `steps`, `events`, `signals` or `prompts`, or of a view such as `segue_tasks`.

        Read on a connection of its own, so that a slow reader blocks no other.
        """
        if self._read_only and not self._ask("SELECT 1 FROM orchestrator_runs LIMIT 1"):
            return
        database = open_database(self._address, read_only=True)
        try:
            size = _PAGE if name in rows.TABLES else _FLAT_PAGE
            names = sorted(runs or ())
            parts = [names[place : place + _RUNS_AT_ONCE] for place in range(0, len(names), _RUNS_AT_ONCE)]
            for part in parts if runs is not None else [[]]:
                for batch in database.stream(rows.select(name, len(part)), size, *part):
                    yield rows.to_dicts(name, batch, as_text)
        finally:
            database.close()

    def disconnect(self) -> None:
        """Close all connections. Journals should be closed before."""
        if self._session is not None:
            self._session.end()
            self._session = None
        if not self._opened:
            self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    def _writable(self) -> Database:
        database = open_database(self._address)
        try:
            create(database)
        except BaseException:
            database.close()
            raise
        return database

    def _readable(self) -> Database:
        from segue.store.sqlite import open_empty

        if not is_postgres(self._address) and not sqlite_path(self._address).exists():
            return open_empty()
        database = open_database(self._address, read_only=True)
        try:
            if is_made(database):
                return database
        except BaseException:
            database.close()
            raise
        database.close()
        return open_empty()

    def _version(self) -> int:
        with self._lock:
            return self._database.version()

    def _ask(self, sql: str, *values: object) -> list[Row]:
        with self._lock:
            return ask(self._database, sql, *values)

    def _transact(self, work: Callable[[bool], T]) -> T:
        self._refuse_reading()
        with self._lock:
            return transact(self._database, work)

    def _refuse_reading(self) -> None:
        if self._read_only:
            raise StoreError(f"The database {self.name} is open for reading only.")

    async def _enter(self) -> StoreSession:
        from segue.store.session import StoreSession

        self._refuse_reading()
        database = None
        if self._current() is None:
            database = self._opened[1] if self._opened else await self._connect()
        session = self._current()
        if session is None:
            assert database is not None
            session = self._session = StoreSession(database, self._patience, kept=bool(self._opened))
            # From now on agents are at work: nothing may block the event loop.
            self._database.outage = Outage(self._patience, blocks_loop=False)
        elif database is not None and not self._opened:  # another run was opened meanwhile
            database.close()
        session.users += 1
        return session

    def _current(self) -> StoreSession | None:
        """Return the session of this event loop."""
        import asyncio

        if self._session is not None and self._session.loop is not asyncio.get_running_loop():
            self._session.end()
            self._session = None
        return self._session

    async def _connect(self) -> Database:
        import asyncio

        outage = self._outage
        connecting = asyncio.ensure_future(
            asyncio.to_thread(persist, outage, lambda _again: open_database(self._address))
        )

        def drop(done: asyncio.Future[Database]) -> None:
            outage.given_up.clear()
            if not done.exception():
                done.result().close()

        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            outage.given_up.set()
            connecting.add_done_callback(drop)
            raise

    async def _leave(self, session: StoreSession) -> None:
        session.users -= 1
        if session.users == 0 and self._session is session:
            self._session = None
            await session.close()
