"""The store: runs, steps and events of one database, for everybody who asks, and journals for who drives."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from segue.domain.errors import Locked, StoreAway, StoreError, UsageError
from segue.domain.run import Run, RunKind, RunSpec, RunState, Step
from segue.store import rows, signals
from segue.store.address import is_postgres, masked, sqlite_path
from segue.store.claim import claim, new_owner, release
from segue.store.database import (
    LONG_PAUSES,
    RETRY_PAUSES,
    Database,
    Disconnected,
    LongWait,
    Row,
    ask,
    look,
    open_database,
    persist,
    transact,
)
from segue.store.schema import create, is_made, version_of

if TYPE_CHECKING:
    from segue.domain.events import Event, Recorded
    from segue.ports import Observer
    from segue.store.boundary import Boundary
    from segue.store.database import QueryLimits
    from segue.store.journal import Journal
    from segue.store.runtime import StoreRuntime
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
        spools: Path | None = None,
        patience: float = 0.0,
        tell: Callable[[str], None] | None = None,
        redactor: Redactor | None = None,
        opened: Sequence[Database] = (),
    ) -> None:
        self._address = address
        self._redactor = redactor
        self._long = LongWait(patience, tell) if tell and is_postgres(address) and patience > 0 else None
        self._spools = spools if is_postgres(address) and patience > 0 else None
        self._patience = patience if self._spools else 0.0
        self._read_only = read_only
        self._keeper: StoreRuntime | None = None
        self._lock = threading.Lock()
        self._opened = opened
        connect = self._readable if read_only else self._writable
        self._database = opened[0] if opened else persist(self._long or (), lambda _again: connect())
        self._database.pauses = self._long or self._database.pauses
        _LOG.debug("Opened %s%s.", self.name, " for reading" if read_only else "")
        self._seen: int | None = None

    @property
    def name(self) -> str:
        """The address, as it may be shown."""
        return masked(self._address if is_postgres(self._address) else sqlite_path(self._address))

    @cached_property
    def _boundary(self) -> Boundary:
        """Where text enters; who only reads never needs it."""
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
                found = self.run(run_id)
                assert found is not None
                return found

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
        clean = {name: (key, self._boundary.spec(spec)) for name, (key, spec) in wanted.items()}

        def add(_again: bool) -> int:
            return sum(
                self._add(name, key, spec, RunState.QUEUED, wake) for name, (key, spec) in clean.items()
            )

        return self._transact(add)

    def _add(
        self, run_id: str, source_key: str, spec: RunSpec, state: RunState, wake: int | None = None
    ) -> bool:
        """Add the row; False if there is a run with this id."""
        created = self._next_instant()
        added = self._database.execute(
            "INSERT INTO orchestrator_runs (id, source_key, kind, spec, state, created, updated, wake)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING RETURNING id",
            run_id,
            source_key,
            spec.kind.value,
            rows.encode_spec(spec),
            state.value,
            created,
            created,
            wake,
        )
        return bool(added)

    async def open(self, run_id: str, observers: Sequence[Observer] = ()) -> Journal:
        """Claim the run and open its journal. Raises Locked while its owner lives."""
        from segue.store.journal import Journal
        from segue.store.spool import Spool, replay
        from segue.store.steps import Loaded, load

        keeper = self._enter()
        database, owner, lease_ms = keeper.writer.database, new_owner(), keeper.outage.lease_ms
        spool = Spool(self._spools, run_id) if self._spools else None

        def enter() -> Loaded:
            released = spool.released() if spool else None
            transact(database, lambda _again: claim(database, run_id, owner, lease_ms, released))
            if spool and spool.exists():
                replay(database, spool, owner, lease_ms)
            return load(database, run_id)

        try:
            loaded = await self._until_reachable(lambda: keeper.writer.run(enter))
            run = self.run(run_id)
        except BaseException as error:
            if not isinstance(error, Locked | UsageError):  # the claim may have gone through
                with suppress(StoreError):
                    await keeper.writer.run(
                        lambda: transact(database, lambda _again: release(database, run_id, owner))
                    )
            await self._leave(keeper)
            raise
        assert run is not None
        if self._long:
            self._database.pauses = RETRY_PAUSES  # a run at work must not be blocked
        journal = Journal(keeper, run, owner, loaded, observers, spool, self._boundary)
        keeper.journals[owner] = journal
        _LOG.info("Claimed run %s as %s.", run_id, owner)
        return journal

    async def close(self, journal: Journal) -> None:
        """Flush, release the run."""
        keeper = self._keeper
        owners = [owner for owner, held in keeper.journals.items() if held is journal] if keeper else []
        for owner in owners:
            assert keeper is not None
            try:
                await keeper.journals[owner].close()
                _LOG.info("Released run %s.", keeper.journals[owner].run.id)
            finally:
                del keeper.journals[owner]
                await self._leave(keeper)

    def send(self, run_id: str, topic: str, payload: dict[str, Any], signal_id: str | None = None) -> bool:
        """Leave a signal for a run; False if a signal with this id was left before."""
        name = signal_id or uuid.uuid4().hex
        payload = self._boundary.data(payload)

        def leave(again: bool) -> bool:
            if not self._row(run_id):
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
        conditions, values = [], list[object]()
        if source_key is not None:
            conditions, values = ["source_key = ?"], [source_key]
        if kinds:
            conditions.append(f"kind IN ({', '.join('?' * len(kinds))})")
            values += [kind.value for kind in kinds]
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        sql = f"SELECT {rows.RUN} FROM orchestrator_runs {where} ORDER BY created DESC, id"  # noqa: S608
        found = self._ask(f"{sql} LIMIT ?", *values, limit) if limit is not None else self._ask(sql, *values)
        return [rows.to_run(row) for row in found]

    def steps(self, run_id: str) -> list[Step]:
        """All steps of a run, all generations, in order of their start."""
        sql = f"SELECT {rows.STEP} FROM orchestrator_steps WHERE run_id = ? ORDER BY seq"  # noqa: S608
        return [rows.to_step(row) for row in self._ask(sql, run_id)]

    def events(
        self,
        run_id: str,
        after: int = 0,
        limit: int | None = None,
        kinds: Collection[type[Event]] = (),
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
        """Return when somebody has written to the store since the last call, or after the timeout."""
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
        names, found = self.answer(sql, arguments, limits)
        return rows.by_name(names, found)

    def answer(
        self, sql: str, arguments: Sequence[object] = (), limits: QueryLimits | None = None
    ) -> tuple[list[str], list[Row]]:
        """Answer like `query`, with the names of the columns and the rows as they are; JSON is text."""
        with self._lock:
            return look(self._database, sql, arguments, limits)

    def table(
        self, name: str, as_text: bool = False, runs: Sequence[str] | None = None
    ) -> Iterator[list[dict[str, Any]]]:
        """All rows of `runs`, `steps`, `events`, `signals` or `prompts`, or of a view such as `segue_tasks`.

        Read on a connection of its own, so that a slow reader blocks nobody.
        """
        if self._read_only and not self._ask("SELECT 1 FROM orchestrator_runs LIMIT 1"):
            return
        database = open_database(self._address, read_only=True)
        try:
            size = _PAGE if name in rows.TABLES else _FLAT_PAGE
            for part in _parts(runs):
                for batch in database.stream(rows.select(name, len(part)), size, *part):
                    yield rows.to_dicts(name, batch, as_text)
        finally:
            database.close()

    def replay(self, run_id: str) -> None:
        """Write what was buffered of a run while the database was away, without driving it."""
        import asyncio

        async def pass_by() -> None:
            await self.close(await self.open(run_id))

        asyncio.run(pass_by())

    def disconnect(self) -> None:
        """Close all connections. Journals should be closed before."""
        if self._keeper is not None:
            self._keeper.abandon()
            self._keeper = None
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
        if not is_postgres(self._address) and not sqlite_path(self._address).exists():
            return _open_empty()
        database = open_database(self._address, read_only=True)
        try:
            if is_made(database):
                return database
        except BaseException:
            database.close()
            raise
        database.close()
        return _open_empty()

    def _version(self) -> int:
        with self._lock:
            return self._database.version()

    def _row(self, run_id: str) -> list[Row]:
        return self._database.execute(_BY_ID, run_id)

    def _next_instant(self) -> int:
        """Now, or a moment after the last run: they keep their order, also when the clock was set back."""
        now = rows.now()
        [(last,)] = self._database.execute(
            "SELECT max(created) FROM orchestrator_runs WHERE created >= ?", now
        )
        return now if last is None else last + 1

    def _ask(self, sql: str, *values: object) -> list[Row]:
        with self._lock:
            return ask(self._database, sql, *values)

    def _transact(self, work: Callable[[bool], T]) -> T:
        if self._read_only:
            raise StoreError(f"The database {self.name} is open for reading only.")
        with self._lock:
            return transact(self._database, work)

    def _enter(self) -> StoreRuntime:
        import asyncio

        from segue.store.runtime import StoreRuntime

        if self._read_only:
            raise StoreError(f"The database {self.name} is open for reading only.")
        if self._keeper is not None and self._keeper.loop is not asyncio.get_running_loop():
            self._keeper.abandon()
            self._keeper = None
        if self._keeper is None:
            again = partial(open_database, self._address)
            database = self._opened[1] if self._opened else persist(self._long or (), lambda _again: again())
            if self._long and not self._spools:
                database.pauses = LONG_PAUSES
            self._keeper = StoreRuntime(database, again, self._patience, kept=bool(self._opened))
        self._keeper.users += 1
        return self._keeper

    async def _until_reachable(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Repeat an attempt that does no harm when it is repeated, while the database is away."""
        import asyncio

        for pause in self._long or ():
            try:
                return await attempt()
            except Disconnected as error:
                assert self._long is not None
                self._long.say(error)
                await asyncio.sleep(pause)
        try:
            return await attempt()
        except Disconnected as error:
            if self._long is None:
                raise
            raise StoreAway(error.message, kept=error.kept, hint=error.hint) from error

    async def _leave(self, keeper: StoreRuntime) -> None:
        keeper.users -= 1
        if keeper.users == 0 and self._keeper is keeper:
            self._keeper = None
            await keeper.close()


def _parts(runs: Sequence[str] | None) -> Iterator[Sequence[str]]:
    """Yield the runs in parts that fit one statement; one empty part means all of them."""
    if runs is None:
        yield ()
        return
    names = sorted(runs)
    for place in range(0, len(names), _RUNS_AT_ONCE):
        yield names[place : place + _RUNS_AT_ONCE]


def _open_empty() -> Database:
    from segue.store.sqlite import open_empty

    return open_empty()
