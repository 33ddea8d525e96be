"""One thread with one event loop answers all calls of a process, whichever thread or loop they come from."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from segue.prompts.transcript import ChatMessage
from segue.provider import otel
from segue.provider.catalogue import Catalogue
from segue.provider.cli_models import Answer, CliModels
from segue.provider.compose import Composer
from segue.provider.folder import Folder, sweep
from segue.provider.record import Recorder
from segue.provider.trace import Trace
from segue.runtime.app import App, make_own_folder

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a model."""

    model: str
    """With its provider: `composer-cli/composer-2.5`."""
    messages: Sequence[ChatMessage]
    params: Mapping[str, Any]
    timeout: float
    trace: Trace = field(default_factory=Trace)
    context: Any = field(default_factory=otel.current_context)


class Engine:
    """Made with the first call; ends with the process."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.catalogue = Catalogue.read(app.loaded.settings)
        make_own_folder(app.state_dir)
        self._root = app.state_dir / "provider" / "processes"
        self._folder = Folder.make(self._root)
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="segue-provider", daemon=True)
        self._working: set[asyncio.Task[Any]] = set()
        redactor = app.redactor()
        self._cli = CliModels(app, redactor, self._folder)
        self._recorder = Recorder(app, redactor)
        self._thread.start()
        self.submit(lambda: sweep(self._root))
        _at_exit(self.close)

    @property
    def usable(self) -> bool:
        """Whether it can take calls: threads do not survive a fork."""
        return self._pid == os.getpid() and self._thread.is_alive() and not self._loop.is_closed()

    def submit(self, work: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """Start work on the engine's loop; cancelling the future cancels the work."""
        return asyncio.run_coroutine_threadsafe(self._noted(work), self._loop)

    async def answer(self, call: Call) -> Answer:
        """Answer a call, and keep its trace whatever comes of it; runs on the engine's loop."""
        deadline = time.monotonic() + call.timeout
        composer = Composer(self.catalogue, self._cli, call.trace, call.params, deadline)
        try:
            return await composer.ask(call.model, call.messages)
        finally:
            self._recorder.keep(call.trace)
            otel.emit(call.trace, call.context)

    def close(self) -> None:
        """End all agents, write the last traces, leave nothing behind."""
        if not self.usable:
            return
        with contextlib.suppress(Exception):  # the process ends: there is nobody left to tell
            asyncio.run_coroutine_threadsafe(self._finish(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._folder.remove()

    async def _noted(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._working.add(task)
        try:
            return await work()
        finally:
            self._working.discard(task)

    async def _finish(self) -> None:
        for task in self._working:
            task.cancel()
        if self._working:
            await asyncio.wait(self._working)
        await self._cli.close()
        await self._recorder.close()
        # LiteLLM leaves workers of its own on every loop that it is used on.
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for other in rest:
            other.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        await self._loop.shutdown_default_executor()


def _at_exit(work: Any) -> None:
    """Run this before the interpreter stops the threads that the store and asyncio need."""
    register = getattr(threading, "_register_atexit", atexit.register)
    register(work)
