"""Durable execution of one run: intent before effect, reconcile before repeat, outcome with its events."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from segue.domain.errors import LeaseLost, StoreError
from segue.domain.events import Event, Recorded, StepAdopted, StepEnded, StepStarted
from segue.domain.results import Nothing, Output, R, SleepInput, StepFacts, StepResult, read_as, to_json
from segue.domain.run import Run, RunSpec, RunState, Step, StepState
from segue.ports import Observer
from segue.store import signals, steps
from segue.store.boundary import Boundary
from segue.store.claim import SLOTS, new_owner, release, release_slot, take_slot
from segue.store.database import Executes, Statement
from segue.store.encoding import decode
from segue.store.events import EventLog
from segue.store.rows import RunClock, encode_spec, steady
from segue.store.runtime import StoreRuntime
from segue.store.spool import Spool

T = TypeVar("T")

Work = Callable[[str], Awaitable[StepResult[R]]]
"""The effect of a step. It gets the step's token and must pass it on to the outside world."""

Reconcile = Callable[[str], Awaitable[StepResult[R] | None]]
"""Looks the token of an interrupted step up in the outside world; None: it never happened."""

Pack = Callable[[Step], Awaitable[Statement | None]]
"""Returns what stores the work as a step has left it; None: it has not changed."""

_NAP_SECONDS = 10.0
"""The longest sleep without a look at the clock, which moves on while a laptop is closed."""

_token: ContextVar[str | None] = ContextVar("segue_step_token", default=None)
"""The step inside which code runs: signals are taken in its name, so that its repetition gets them too."""


class EnteredStep(Generic[R]):
    """A step between its intent and its outcome."""

    outcome: StepResult[R]
    """Set by whoever does the work; once it is committed, what a later replay returns."""

    def __init__(self, token: str, is_adopted: bool) -> None:
        """An adopted one was begun before: its effect may have happened."""
        self.token, self.is_adopted = token, is_adopted


class Journal:
    """The journal of a claimed run. All its state is touched on the event loop only."""

    def __init__(
        self,
        keeper: StoreRuntime,
        run: Run,
        owner: str,
        loaded: steps.Loaded,
        observers: Sequence[Observer],
        spool: Spool | None = None,
        boundary: Boundary | None = None,
    ) -> None:
        self._id = run.id
        self._owner = owner
        self._keeper = keeper
        self._run = run
        self._steps = loaded.steps
        self._old = loaded.old
        self._spool = spool
        self._boundary = boundary = boundary or Boundary()
        self._clock = RunClock(loaded.last)
        self._log = EventLog(
            keeper.writer,
            keeper.outage,
            spool,
            run.id,
            owner,
            loaded.seq,
            self._clock,
            observers,
            boundary,
        )
        self._entered: set[str] = set()
        self._taken: dict[str, dict[str, deque[dict[str, Any]]]] = {}
        self._naps: dict[str, float] = {}
        self._tasks: list[asyncio.Task[Any]] = []
        self._end: StoreError | None = None
        self._pack: Pack | None = None

    @property
    def run(self) -> Run:
        """The run this journal belongs to."""
        return self._run

    def steps(self, prefix: str = "") -> list[Step]:
        """The current generation of steps whose key starts with the prefix, in order of their start."""
        return list(self._steps.under(prefix))

    def state(self, key: str) -> StepState | None:
        """Return the state of a step; None if it never began."""
        step = self._steps.get(key)
        return step.state if step else None

    def recorded(self, key: str, kind: type[R]) -> StepResult[R] | None:
        """Return the result of a step that has ended; None when there is still something to do."""
        known = self._steps.get(key)
        return _result(known, kind) if known is not None and known.state is not StepState.STARTED else None

    async def step(
        self,
        key: str,
        kind: type[R],
        work: Work[R],
        reconcile: Reconcile[R] | None = None,
        facts: StepFacts | None = None,
    ) -> StepResult[R]:
        """Return the recorded result, or record the intent, do the work and record its result.

        A step that was interrupted is entered again with the same token: first `reconcile`, if given; if that
        finds nothing, `work`. `kind` is the type of the step's output.
        """
        ended = self.recorded(key, kind)
        if ended is not None:
            return ended
        async with self.enter(key, kind, facts) as entered:
            found = await reconcile(entered.token) if reconcile and entered.is_adopted else None
            entered.outcome = found if found is not None else await work(entered.token)
        return entered.outcome

    @asynccontextmanager
    async def enter(
        self, key: str, kind: type[R], facts: StepFacts | None = None
    ) -> AsyncIterator[EnteredStep[R]]:
        """Record the intent of a step that has no result yet; the block does the work and sets the outcome.

        The outcome is committed after the block, with the events emitted inside. A block that raises leaves
        the step as it is: it is entered again with the same token, by this process or another one.
        """
        known = self._steps.get(key)
        with self._entering(key):
            if known is None:
                step = await self._begin(key, facts or StepFacts())
            else:
                step = await asyncio.shield(self._adopt(known))
            entered = EnteredStep[R](step.token, known is not None)
            inside = _token.set(step.token)
            try:
                with self._interruptible():
                    yield entered
            finally:
                _token.reset(inside)
            packed = await self._pack(step) if self._pack else None
            # What is returned now is what a later replay returns.
            entered.outcome = await self._finish(step, kind, entered.outcome, packed)

    async def record(self, key: str, result: StepResult[R], facts: StepFacts | None = None) -> StepResult[R]:
        """Store a step that needs no intent, because repeating it after a crash does no harm.

        Returns what was recorded first. It is stored with the next transaction, at the latest soon after.
        """
        kind = type(result.output)
        known = self._steps.get(key)
        if known is not None:
            return _result(known, kind)
        facts = facts or StepFacts()
        state = StepState.DONE if result.ok else StepState.FAILED
        output = decode(self._encode(result.output))
        step = replace(self._new_step(key, facts), state=state, output=output, ended=self._clock.now())
        seq = self._log.add(StepEnded(step.gen, result.ok), key).seq
        self._log.later(lambda db: steps.write_intent(db, step, seq, self._owner))
        self._steps.put(step)
        return _result(step, kind)

    async def store(self) -> None:
        """Store everything up to now."""
        await self._log.write()

    def once_stored(self, call: Callable[[], None]) -> None:
        """Call as soon as everything up to now is stored."""
        self._log.once_written(call)

    async def emit(self, event: Event, step: str | None = None) -> Recorded:
        """Append an event. It is stored in order, in batches, at the latest with the step's result."""
        recorded = self._log.add(event, step)
        if self._log.is_full:
            await self._log.write()
        return recorded

    def redact(self, value: T) -> T:
        """Return a typed value as it would be stored: without control sequences and secrets."""
        return self._boundary.struct(value)

    async def respec(self, spec: RunSpec) -> None:
        """Record that the run continues with other options."""
        spec = self._boundary.spec(spec)
        await self._change("UPDATE orchestrator_runs SET spec = ? WHERE id = ?", encode_spec(spec), self._id)
        self._run = replace(self._run, spec=spec, updated=self._clock.now())

    def begin(self, spec: RunSpec) -> None:
        """Record, with the next event, that the run is at work, with these options."""
        run, spec = self._run, self._boundary.spec(spec)
        if spec != run.spec:
            self._later("UPDATE orchestrator_runs SET spec = ? WHERE id = ?", encode_spec(spec), self._id)
        sql = "UPDATE orchestrator_runs SET state = ?, note = '', wake = NULL WHERE id = ?"
        self._later(sql, RunState.RUNNING.value, self._id)
        now = self._clock.now()
        self._run = replace(run, spec=spec, state=RunState.RUNNING, note="", wake=None, updated=now)

    def carry(self, pack: Pack, first: Statement) -> None:
        """Write the state of the work with the outcome of every step from now on; `first` before all that."""
        self._pack = pack
        self._later(first[0], *first[1])

    async def redo(self, prefix: str) -> None:
        """Start a new generation for the steps under the prefix; the old rows stay."""
        if any(key.startswith(prefix) for key in self._entered):
            raise ValueError(f"steps under {prefix!r} are being worked on")
        await asyncio.shield(self._redo(prefix))

    async def sleep(self, name: str, until: float) -> None:
        """Sleep until the instant that was given when the sleep first began, across restarts."""
        known = self._steps.get(name)
        instant = (read_as(SleepInput, known.input).until or until) if known else until
        left = max(0.0, instant - time.time())
        if known:  # a clock that was set back must not make it longer than it was meant to be
            left = min(left, max(0.0, instant - known.started / 1000))

        async def doze(_token: str) -> StepResult[Nothing]:
            end = steady() + left
            async with self._parked(name, instant):
                while (rest := end - steady()) > 0:  # noqa: ASYNC110 - nothing but time ends it
                    await asyncio.sleep(min(rest, _NAP_SECONDS))
            return StepResult(True, Nothing())

        await self.step(name, Nothing, doze, facts=StepFacts(phase="sleep", input=SleepInput(until)))

    async def wait(self, topic: str, timeout: float | None = None) -> dict[str, Any] | None:
        """Wait for a signal on the topic, also one sent before; None after the timeout.

        Inside a step the signal belongs to the step: when that is interrupted, its repetition gets
        the same signals again. Safe beside steps of the same journal.
        """
        token = _token.get()
        before = self._taken.get(token or "", {}).get(topic)
        if before:
            return before.popleft()
        database, by = self._keeper.writer.database, token or self._owner
        lease_ms = self._keeper.outage.lease_ms
        found: list[signals.Signal] = []

        def take() -> bool | None:
            signal = signals.take(database, self._id, self._owner, topic, by, lease_ms)
            found.extend([signal] if signal else [])
            return bool(found) or None

        def give_back() -> None:
            for signal_id, _payload in found:
                signals.give_back(database, self._id, self._owner, signal_id, lease_ms)

        with self._interruptible():
            try:
                await self._keeper.changes.until(lambda: self._keeper.attempt(take), self._id, timeout)
            except asyncio.CancelledError:
                # The writer's thread may take a signal that nobody would get any more.
                self._keeper.do_later(give_back)
                raise
        return found[0][1] if found else None

    async def topics(self) -> frozenset[str]:
        """Return the topics on which signals wait to be taken."""
        database = self._keeper.writer.database
        return await self._keeper.attempt(lambda: signals.topics(database, self._id)) or frozenset()

    async def hear(self, topics: Collection[str]) -> None:
        """Return as soon as a signal on one of the topics waits to be taken."""
        database = self._keeper.writer.database

        def look() -> bool | None:
            return not signals.topics(database, self._id).isdisjoint(topics) or None

        with self._interruptible():
            await self._keeper.changes.until(lambda: self._keeper.attempt(look), self._id)

    async def set_state(self, state: RunState, note: str = "", wake: float | None = None) -> None:
        """Set the state of the run."""
        instant, note = None if wake is None else int(wake * 1000), self._boundary.text(note)
        await self._change(
            "UPDATE orchestrator_runs SET state = ?, note = ?, wake = ? WHERE id = ?",
            state.value,
            note,
            instant,
            self._id,
        )
        self._run = replace(self._run, state=state, note=note, wake=instant, updated=self._clock.now())

    @asynccontextmanager
    async def slot(self, backend: str, limit: int) -> AsyncIterator[None]:
        """Hold one of the backend's slots, counted across all processes that share the store."""
        owner, writer = new_owner(), self._keeper.writer

        async def take() -> bool | None:
            return await self._keeper.attempt(
                lambda: take_slot(writer.database, backend, limit, owner, self._id)
            )

        try:
            with self._interruptible():
                await self._keeper.changes.until(take, SLOTS)
            self._keeper.slots.add(owner)
            yield
        finally:
            self._keeper.slots.discard(owner)
            with suppress(StoreError):  # the slot of a dead or silent holder is taken anyway
                await writer.run(lambda: release_slot(writer.database, owner))

    @property
    def spool_path(self) -> Path | None:
        """Where is buffered what cannot be written while the database is away."""
        return self._spool.path if self._spool else None

    def lose(self) -> None:
        """Stop at once: somebody else drives the run."""
        self._cancel(LeaseLost(f"Run {self._id} is driven by another process now."))

    def stop(self, failure: StoreError) -> None:
        """Stop at once and write nothing any more."""
        self._log.fail(failure)
        self._cancel(failure)

    def replay(self) -> None:
        """Write what was buffered while the database was away. Runs on the writer's thread."""
        self._log.replay()

    def abandon(self) -> None:
        """Write nothing any more: the connection goes away."""
        self._log.abandon()

    async def close(self) -> None:
        """Write what is queued and release the run; a journal that failed only releases it."""
        database, outage = self._keeper.writer.database, self._keeper.outage

        def free(_again: bool) -> None:
            release(database, self._id, self._owner)

        def let_go() -> None:
            outage.write(free, lambda: self._spool.release(self._owner) if self._spool else None)

        try:
            if self._end is not None or not self._log.is_idle:
                await self._log.write()
            await self._keeper.wait_until_back()
        finally:
            self._log.abandon()
            await self._keeper.writer.run(let_go)

    def _cancel(self, end: StoreError) -> None:
        self._end = end
        for task in set(self._tasks):
            task.cancel()

    def _encode(self, value: Output) -> str:
        return self._boundary.json(to_json(value))

    def _new_step(self, key: str, facts: StepFacts) -> Step:
        return Step(
            run=self._id,
            key=key,
            gen=self._old.get(key, 0) + 1,
            state=StepState.STARTED,
            token=uuid.uuid4().hex,
            task=facts.task,
            phase=facts.phase,
            attempt=facts.attempt,
            input=decode(self._encode(facts.input)),
            output={},
            started=self._clock.now(),
            ended=None,
            agent=facts.agent,
            model=facts.model,
            build_phase=facts.build_phase,
        )

    async def _begin(self, key: str, facts: StepFacts) -> Step:
        step = self._new_step(key, facts)
        started = StepStarted(
            step.gen,
            step.token,
            step.task,
            step.phase,
            step.attempt,
            step.agent,
            step.model,
            step.build_phase,
            facts.proves,
        )
        seq = self._log.add(started, key).seq
        self._steps.put(step)
        await self._log.write(lambda db: steps.write_intent(db, step, seq, self._owner))
        return step

    async def _adopt(self, step: Step) -> Step:
        database = self._keeper.writer.database
        while (
            found := await self._keeper.attempt(lambda: signals.taken(database, self._id, step.token))
        ) is None:
            await self._keeper.wait_until_back()
        self._taken[step.token] = found
        self._log.add(StepAdopted(step.gen, step.token), step.key)
        await self._log.write(lambda db: steps.write_adoption(db, step, self._owner))
        return step

    async def _finish(
        self, step: Step, kind: type[R], result: StepResult[R], packed: Statement | None = None
    ) -> StepResult[R]:
        text = self._encode(result.output)
        state = StepState.DONE if result.ok else StepState.FAILED
        ended = replace(step, state=state, output=decode(text), ended=self._clock.now())
        self._log.add(StepEnded(step.gen, result.ok, (ended.ended or 0) - step.started), step.key)

        def write(db: Executes) -> None:
            steps.write_outcome(db, ended, text)
            if packed is not None:  # whoever continues from this outcome finds the work that led to it
                db.execute(packed[0], *packed[1])

        self._steps.put(ended)
        self._taken.pop(step.token, None)
        if result.soon and packed is None:
            self._log.later(write)
        else:
            await self._log.write(write)
        return _result(ended, kind)

    async def _redo(self, prefix: str) -> None:
        await self._log.write(lambda db: steps.write_redo(db, self._id, prefix))
        for step in self._steps.under(prefix):
            self._old[step.key] = step.gen
            self._steps.drop(step.key)

    @asynccontextmanager
    async def _parked(self, name: str, until: float) -> AsyncIterator[None]:
        """Show the run as parked until the first of its sleeps ends; a cancelled sleep leaves it so."""
        if until <= time.time():
            yield
            return
        self._naps[name] = until
        try:
            await self._show_naps()
            yield
        except BaseException:
            del self._naps[name]
            raise
        del self._naps[name]
        await self._show_naps()

    async def _show_naps(self) -> None:
        wake = int(min(self._naps.values()) * 1000) if self._naps else None
        before = RunState.PARKED if wake is None else RunState.RUNNING
        after = RunState.RUNNING if wake is None else RunState.PARKED
        await self._change(
            "UPDATE orchestrator_runs SET state = ?, wake = ? WHERE id = ? AND state IN (?, 'parked')",
            after.value,
            wake,
            self._id,
            before.value,
        )
        if self._run.state in (before, RunState.PARKED):
            self._run = replace(self._run, state=after, wake=wake)

    async def _change(self, sql: str, *values: object) -> None:
        await self._log.write(lambda db: db.execute(sql, *values))

    def _later(self, sql: str, *values: object) -> None:
        self._log.later(lambda db: db.execute(sql, *values))

    @contextmanager
    def _entering(self, key: str) -> Iterator[None]:
        if key in self._entered:
            raise ValueError(f"step {key!r} is being worked on already")
        self._entered.add(key)
        try:
            yield
        finally:
            self._entered.discard(key)

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """End what runs inside with LeaseLost when the run is lost."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.append(task)
        try:
            yield
        except asyncio.CancelledError:
            if self._end and task.uncancel() == 0:
                raise self._end from None
            raise
        finally:
            self._tasks.remove(task)


def _result(step: Step, kind: type[R]) -> StepResult[R]:
    return StepResult(step.state is StepState.DONE, read_as(kind, step.output))
