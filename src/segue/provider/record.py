"""Keeps the traces of all calls of a process as events of one run: a batch per call, behind the answer."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from segue.domain.errors import SegueError
from segue.domain.event import Event, EventType
from segue.domain.run import RunSpec, RunState
from segue.ports import Journal, Store
from segue.provider.trace import Trace
from segue.runtime.app import App
from segue.system.redact import Redactor

SOURCE_KIND = "provider"

_log = logging.getLogger("segue.provider")


class Recorder:
    """Opens the store with the first trace. A store that fails ends the recording, never a call."""

    def __init__(self, app: App, redactor: Redactor) -> None:
        self._app = app
        self._redactor = redactor
        self._opening = asyncio.Lock()
        self._store: Store | None = None
        self._journal: Journal | None = None
        self._off = not app.loaded.settings.provider.record
        self._writing: set[asyncio.Task[None]] = set()

    def keep(self, trace: Trace) -> None:
        """Have the trace written; nobody waits for it."""
        if not self._off:
            task = asyncio.create_task(self._write(trace))
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)

    async def close(self) -> None:
        """Write what is left and give the run up."""
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
            for data in self._redactor.data(trace.data()):
                await journal.emit(Event(EventType.TRACE_SPAN, data))
        except SegueError as error:
            self._off = True
            _log.warning("traces are not recorded any more: %s", error.message)

    async def _open(self) -> Journal:
        self._store = store = self._app.store()
        here = str(Path.cwd())
        spec = RunSpec(source_kind=SOURCE_KIND, source="models", repo=here, agent="provider", flow="ask")
        run = store.create(f"{SOURCE_KIND}:{here}", spec)
        self._journal = journal = await store.open(run.id)
        # A log, not a piece of work: there is never anything in it to resume.
        await journal.set_state(RunState.DONE, "calls of models that Segue serves")
        return journal
