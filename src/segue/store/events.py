"""The events of one run on their way to the store: numbered at once, written in batches, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from segue.domain.errors import StoreError, StoreFull
from segue.domain.events import Event, PromptSent, Recorded
from segue.ports import Observer
from segue.store.boundary import Boundary
from segue.store.claim import fence
from segue.store.database import Executes, Row
from segue.store.encoding import escape
from segue.store.rows import EVENT, RunClock
from segue.store.spool import Spool, StatementRecorder, keep_prompts, replay
from segue.store.writer import Outage, Writer

Change = Callable[[Executes], object]
"""Writes that go with events. They must bear being repeated, and get no answer."""

FLUSH_SECONDS = 0.05
FLUSH_EVENTS = 1000
FLUSH_BYTES = 4 * 1024**2
FULL_EVENTS = 20_000
FULL_BYTES = 16 * 1024**2
_FEW_EVENTS = 100
_FEW_BYTES = 256 * 1024


class Batch(Struct):
    """What the next transaction writes."""

    rows: list[Row] = field(default_factory=list)
    prompts: dict[str, str] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    """Writes that may happen twice and wait for the next transaction."""
    calls: list[Callable[[], None]] = field(default_factory=list)
    """What waits until this is written."""
    size: int = 0
    after: int = 0
    """The number of the last event before these, when the batch is complete."""


class EventLog:
    """Appends events for the owner of a run, and writes its other changes together with them."""

    def __init__(
        self,
        writer: Writer,
        outage: Outage,
        spool: Spool | None,
        run_id: str,
        owner: str,
        seq: int,
        clock: RunClock,
        observers: Sequence[Observer] = (),
        boundary: Boundary | None = None,
    ) -> None:
        self._writer = writer
        self._outage = outage
        self._spool = spool
        self._run_id = run_id
        self._owner = owner
        self._seq = seq
        self._clock = clock
        self._observers = tuple(observers)
        self._boundary = boundary or Boundary()
        self._batch = Batch()
        self._handed_batches = 0
        self._handed_events = 0
        self._handed_bytes = 0
        self.is_full = False
        """Whether far more was handed over than the database takes: whoever adds should wait for a write."""
        self._timer: asyncio.TimerHandle | None = None
        self._failure: BaseException | None = None
        self._unwritten: list[tuple[Batch, list[Change]]] = []
        """What waits for room on a full disk; changed on the writer's thread."""

    def add(self, event: Event, step: str | None = None) -> Recorded:
        """Number an event, show it to the observers and queue it; nothing here waits."""
        if self._failure is not None:
            raise self._failure
        if isinstance(event, PromptSent):
            event = self._keep_prompt(event)
        event, text = self._boundary.event(event)
        self._seq = seq = self._seq + 1
        ts = self._clock.now()
        recorded = Recorded(self._run_id, seq, ts, step, event)
        batch = self._batch
        batch.rows.append((self._run_id, seq, ts, escape(step) if step else step, recorded.type, text))
        batch.size += len(text)
        if self._timer is None or len(batch.rows) >= FLUSH_EVENTS or batch.size >= FLUSH_BYTES:
            self._schedule()
        for observer in self._observers:
            observer(recorded)
        return recorded

    @property
    def is_idle(self) -> bool:
        """Whether all that was added is written."""
        waiting = self._batch.rows or self._batch.changes or self._batch.prompts
        is_left = bool(waiting or self._handed_batches or self._unwritten)
        return not is_left and self._failure is None

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
        written = self._submit(change, waits=True)
        await asyncio.sleep(0)  # others get their turn, also if it is written already
        await asyncio.shield(written)

    def replay(self) -> None:
        """Write what was buffered while the database was away. Runs on the writer's thread."""
        if self._spool is not None and self._spool.exists():
            replay(self._writer.database, self._spool, self._owner, self._outage.lease_ms)

    def fail(self, failure: StoreError) -> None:
        """Take no more events: they could not be stored."""
        self._failure = self._failure or failure

    def _keep_prompt(self, event: PromptSent) -> PromptSent:
        """Store a prompt's text once, under its digest; the event names the digest only."""
        if event.text is not None:
            self._batch.prompts[event.digest] = self._boundary.text(event.text)
            self._batch.size += len(event.text)
        return PromptSent(event.digest, event.length)

    def abandon(self) -> None:
        """Write nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._failure = self._failure or StoreError(f"The journal of run {self._run_id} is closed.")

    def _schedule(self) -> None:
        if len(self._batch.rows) >= FLUSH_EVENTS or self._batch.size >= FLUSH_BYTES:
            self._submit()
        else:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._submit)

    def _submit(self, change: Change | None = None, waits: bool = False) -> asyncio.Future[None]:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch, self._batch = self._batch, Batch()
        batch.after = self._seq - len(batch.rows)
        is_small = len(batch.rows) <= _FEW_EVENTS and batch.size <= _FEW_BYTES
        hand_over = self._writer.write if waits and is_small else self._writer.submit
        future = hand_over(lambda: self._write(batch, change))
        self._handed_batches += 1
        self._handed(len(batch.rows), batch.size)
        if future.done():
            self._landed(batch, future)
        else:
            future.add_done_callback(lambda done: self._landed(batch, done))
        return future

    def _handed(self, events: int, size: int) -> None:
        self._handed_events += events
        self._handed_bytes += size
        self.is_full = self._handed_events > FULL_EVENTS or self._handed_bytes > FULL_BYTES

    def _landed(self, batch: Batch, done: asyncio.Future[None]) -> None:
        self._handed_batches -= 1
        self._handed(-len(batch.rows), -batch.size)
        if not done.cancelled() and done.exception() is None:  # or whoever adds or writes next raises it
            for call in batch.calls:
                call()

    def _write(self, batch: Batch, change: Change | None) -> None:
        """Runs on the writer's thread. After a failure nothing may follow: the log would have a gap.

        On a full disk, events alone wait for the next write: no agent at work is ended for them. Its end
        cannot wait, but that can be read again.
        """
        if self._failure is not None:
            raise self._failure
        changes = [*batch.changes, change] if change else batch.changes
        try:
            self._outage.write(
                lambda again: self._store(batch, changes, again), lambda: self._buffer(batch, changes)
            )
        except BaseException as failure:
            if isinstance(failure, StoreFull) and change is None:
                self._unwritten.append((batch, changes))
            else:
                self._failure = failure
            raise
        batch.calls[:0] = [call for one, _ in self._unwritten for call in one.calls]
        self._unwritten.clear()

    def _store(self, batch: Batch, changes: Sequence[Change], again: bool) -> None:
        database = self._writer.database
        fence(database, self._run_id, self._owner, self._outage.lease_ms)
        for one, others in (*self._unwritten, (batch, changes)):
            rows = self._missing(one.rows) if again else one.rows
            if rows:
                database.append("orchestrator_events", EVENT, rows)
            keep_prompts(database, one.prompts)
            for change in others:
                change(database)

    def _buffer(self, batch: Batch, changes: Sequence[Change]) -> None:
        assert self._spool is not None
        recorder = StatementRecorder()
        for change in changes:
            change(recorder)
        if batch.rows or recorder.statements:
            self._spool.keep(batch.after, batch.rows, batch.prompts, recorder.statements)

    def _missing(self, rows: list[Row]) -> list[Row]:
        """Return what was not committed before the connection broke."""
        sql = "SELECT coalesce(max(seq), 0) FROM orchestrator_events WHERE run_id = ?"
        [(stored,)] = self._writer.database.execute(sql, self._run_id)
        return [row for row in rows if row[1] > stored]
