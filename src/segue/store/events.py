"""The events of one run on their way to the store: numbered at once, written in batches, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from segue.domain.errors import StoreError, StoreFull
from segue.domain.events import Event, PromptSent, Recorded
from segue.ports import Observer
from segue.store.boundary import Boundary
from segue.store.claim import fence
from segue.store.database import Database, Row, transact
from segue.store.encoding import escape
from segue.store.rows import EVENT, RunClock, now
from segue.store.session import StoreSession

Change = Callable[[Database], object]
"""Writes that go with events. They must bear being repeated."""

FLUSH_SECONDS = 0.05
FLUSH_EVENTS = 1000
FLUSH_BYTES = 4 * 1024**2
FULL_EVENTS = 20_000
FULL_BYTES = 16 * 1024**2


class Batch(Struct, eq=False):
    """What one transaction writes."""

    rows: list[Row] = field(default_factory=list)
    prompts: dict[str, str] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    """Writes that may happen twice and wait for the next transaction."""
    calls: list[Callable[[], None]] = field(default_factory=list)
    """What waits until this is written."""
    size: int = 0

    @property
    def is_large(self) -> bool:
        """Whether it should be written at once."""
        return len(self.rows) >= FLUSH_EVENTS or self.size >= FLUSH_BYTES


class EventLog:
    """Appends events for the owner of a run, and writes its other changes together with them."""

    def __init__(
        self,
        session: StoreSession,
        run_id: str,
        owner: str,
        seq: int,
        clock: RunClock,
        observers: Sequence[Observer],
        boundary: Boundary,
    ) -> None:
        self._session, self._run_id, self._owner = session, run_id, owner
        self._seq, self._clock = seq, clock
        self._observers, self._boundary = tuple(observers), boundary
        self._batch = Batch()
        self._handed: list[Batch] = []
        self._timer: asyncio.TimerHandle | None = None
        self._failure: BaseException | None = None
        self._unwritten: list[Batch] = []
        """What waits for room on a full disk; changed on the session's thread."""

    @property
    def is_full(self) -> bool:
        """Whether far more was handed over than the database takes: the caller should wait for a write."""
        events, size = sum(len(one.rows) for one in self._handed), sum(one.size for one in self._handed)
        return events > FULL_EVENTS or size > FULL_BYTES

    @property
    def is_idle(self) -> bool:
        """Whether all that was added is written."""
        waiting = self._batch.rows or self._batch.changes or self._batch.prompts
        return not (waiting or self._handed or self._unwritten) and self._failure is None

    def add(self, event: Event, step: str | None = None) -> Recorded:
        """Number an event, show it to the observers and queue it; nothing here waits."""
        if failure := self._session.failure or self._failure:
            raise failure
        if isinstance(event, PromptSent):
            event = self._keep_prompt(event)
        event, text = self._boundary.event(event)
        self._seq += 1
        recorded = Recorded(self._run_id, self._seq, self._clock.now(), step, event)
        step_key = escape(step) if step else step
        self._batch.rows.append((self._run_id, self._seq, recorded.ts, step_key, recorded.type, text))
        self._batch.size += len(text)
        if self._batch.is_large:
            self._submit()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._submit)
        for observer in self._observers:
            observer(recorded)
        return recorded

    def later(self, change: Change) -> None:
        """Write a change together with the event that was just added; it must bear being repeated."""
        self._batch.changes.append(change)

    def once_written(self, call: Callable[[], None]) -> None:
        """Call as soon as all that was added is written."""
        if self.is_idle:
            call()
        else:
            self._batch.calls.append(call)

    async def write(self, change: Change | None = None) -> None:
        """Write all that is queued, and the change, in one fenced transaction."""
        await asyncio.shield(self._submit(change))

    def fail(self, failure: StoreError) -> None:
        """Take no more events: they could not be stored."""
        if self._timer is not None:
            self._timer.cancel()
        self._failure = self._failure or failure

    def _keep_prompt(self, event: PromptSent) -> PromptSent:
        """Store a prompt's text once, under its digest; the event names the digest only."""
        if event.text is not None:
            self._batch.prompts[event.digest] = self._boundary.text(event.text)
            self._batch.size += len(event.text)
        return PromptSent(event.digest, event.length)

    def _submit(self, change: Change | None = None) -> asyncio.Future[None]:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch, self._batch = self._batch, Batch()
        self._handed.append(batch)
        future = self._session.submit(lambda: self._write(batch, change))
        future.add_done_callback(lambda done: self._landed(batch, done))
        return future

    def _landed(self, batch: Batch, done: asyncio.Future[None]) -> None:
        self._handed.remove(batch)
        if not done.cancelled() and done.exception() is None:  # or the next caller raises it
            for call in batch.calls:
                call()

    def _write(self, batch: Batch, change: Change | None) -> None:
        """Write on the session's thread. After a failure nothing may follow: the log would have a gap.

        On a full disk, events alone wait for the next write: no agent at work is ended for them. Its end
        cannot wait, but that can be read again.
        """
        if self._failure is not None:
            raise self._failure
        if change:
            batch.changes.append(change)
        try:
            transact(self._session.database, lambda again: self._store(batch, again))
        except BaseException as failure:
            if isinstance(failure, StoreFull) and change is None:
                self._unwritten.append(batch)
            else:
                self._failure = failure
            raise
        batch.calls[:0] = [call for one in self._unwritten for call in one.calls]
        self._unwritten.clear()

    def _store(self, batch: Batch, again: bool) -> None:
        database = self._session.database
        fence(database, self._run_id, self._owner, self._session.lease_ms)
        for one in (*self._unwritten, batch):
            rows = self._missing(one.rows) if again else one.rows
            if rows:
                database.append("orchestrator_events", EVENT, rows)
            _keep_prompts(database, one.prompts)
            for change in one.changes:
                change(database)

    def _missing(self, rows: list[Row]) -> list[Row]:
        """Return what was not committed before the connection broke."""
        sql = "SELECT coalesce(max(seq), 0) FROM orchestrator_events WHERE run_id = ?"
        [(stored,)] = self._session.database.execute(sql, self._run_id)
        return [row for row in rows if row[1] > stored]


def _keep_prompts(database: Database, prompts: Mapping[str, str]) -> None:
    """Store each prompt once, in the order of digests, so that two runs never deadlock."""
    sql = (
        "INSERT INTO orchestrator_prompts (digest, text, created) VALUES (?, ?, ?)"
        " ON CONFLICT (digest) DO NOTHING"
    )
    for digest in sorted(prompts):
        database.execute(sql, digest, prompts[digest], now())
