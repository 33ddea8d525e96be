"""Stores the traces of a process's calls as events of one run, in the background."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from segue.domain.errors import SegueError
from segue.domain.run import RunKind, RunSpec, RunState
from segue.parts.litellm.options import provider_settings
from segue.parts.litellm.trace import Trace
from segue.runtime.app import App

if TYPE_CHECKING:
    from segue.store.journal import Journal
    from segue.store.store import Store


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
