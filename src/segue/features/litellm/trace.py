"""The trace of a call: a tree with one span for the call and one for every model it asked.

Traces of a process are stored as events of one run, in the background.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import structs

from segue.domain.errors import SegueError
from segue.domain.run import RunKind, RunSpec, RunState
from segue.features.litellm.events import TraceSpan
from segue.features.litellm.options import provider_settings
from segue.runtime.app import App

if TYPE_CHECKING:
    from segue.store.journal import Journal
    from segue.store.store import Store


SpanKind = Literal["cli", "litellm", "profile"]


class Span:
    """A model that is asked, or the profile that asks it; `event` has what is known so far."""

    def __init__(self, event: TraceSpan) -> None:
        self.event = event

    def learn(self, **facts: Any) -> None:
        """Set fields of the event."""
        self.event = structs.replace(self.event, **facts)


class Trace:
    """The spans of one call, parents before children."""

    def __init__(self) -> None:
        self.id = secrets.token_hex(16)
        self._spans: list[Span] = []

    @property
    def spans(self) -> list[TraceSpan]:
        """The spans, as far as they are known."""
        return [span.event for span in self._spans]

    @contextmanager
    def span(self, kind: SpanKind, model: str, parent: Span | None = None, part: str = "") -> Iterator[Span]:
        """Open a span around a block; a failure is noted in it and raised again."""
        above, depth = (parent.event.id, parent.event.depth + 1) if parent else (None, 0)
        span = Span(
            TraceSpan(self.id, secrets.token_hex(8), model, above, depth, kind, part, started=time.time())
        )
        self._spans.insert(self._index_after(parent) if parent else len(self._spans), span)
        began = time.monotonic()
        try:
            yield span
        except BaseException as error:
            name = type(error).__name__
            span.learn(ok=False, error=f"{name}: {error}"[:500] if str(error) else name)
            raise
        finally:
            span.learn(seconds=round(time.monotonic() - began, 6))

    def data(self) -> list[dict[str, Any]]:
        """Return all fields of all spans as plain data, for callbacks."""
        return [structs.asdict(span) for span in self.spans]

    def _index_after(self, parent: Span) -> int:
        """Return the index after the parent and all its descendants so far."""
        place = self._spans.index(parent) + 1
        while place < len(self._spans) and self._spans[place].event.depth > parent.event.depth:
            place += 1
        return place


SOURCE_KIND = "provider"

_log = logging.getLogger("segue.provider")


class TraceRecorder:
    """Opens the store for the first trace. A failing store stops the recording, never a call."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._opening = asyncio.Lock()
        self._store: Store | None = None
        self._journal: Journal | None = None
        self._off = not provider_settings(app.loaded.settings).record
        self._writing: set[asyncio.Task[None]] = set()

    def record(self, trace: Trace) -> None:
        """Write the trace in the background."""
        if not self._off:
            task = asyncio.create_task(self._write(trace))
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)

    async def close(self) -> None:
        """Finish writing and release the run."""
        while self._writing:
            await asyncio.wait(self._writing)
        store, journal = self._store, self._journal
        if store is not None and journal is not None:
            with store:
                await store.close(journal)

    async def _write(self, trace: Trace) -> None:
        try:
            async with self._opening:
                journal = self._journal or await self._open()
            for span in trace.spans:
                await journal.emit(span)
        except SegueError as error:
            self._off = True
            _log.warning("stopped recording traces: %s", error.message)

    async def _open(self) -> Journal:
        self._store = store = self._app.store()
        here = str(Path.cwd())
        spec = RunSpec(SOURCE_KIND, "models", here, "provider", "ask", kind=RunKind.MODEL_CALL)
        run = store.create(f"{SOURCE_KIND}:{here}", spec)
        self._journal = journal = await store.open(run.id)
        # A log, not work: there is never anything to resume.
        await journal.set_state(RunState.DONE, "calls of models served by Segue")
        return journal
