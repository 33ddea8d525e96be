"""One thread with one event loop answers all calls of a process, whichever thread or loop they come from."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from segue.features.litellm.catalogue import Catalogue
from segue.features.litellm.cli_models import CallFolder, CliModels, Hear, sweep
from segue.features.litellm.compose import Composer
from segue.features.litellm.request import ModelCall
from segue.features.litellm.response import ModelAnswer
from segue.features.litellm.trace import TraceRecorder
from segue.runtime.app import App, make_own_folder

T = TypeVar("T")


class Engine:
    """Created by the first call; ends with the process."""

    def __init__(self, app: App) -> None:
        self._catalogue = Catalogue.read(app.loaded)
        make_own_folder(app.state_dir)
        root = app.state_dir / "provider" / "processes"
        self._folder = CallFolder.make(root)
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="segue-provider", daemon=True)
        self._tasks: set[asyncio.Task[Any]] = set()
        redactor = app.redactor()
        self._cli = CliModels(app, redactor, self._folder)
        self._recorder = TraceRecorder(app)
        self._thread.start()
        self._submit(lambda: sweep(root))
        # The store and asyncio need threads: close before the interpreter stops them.
        getattr(threading, "_register_atexit", atexit.register)(self.close)

    @property
    def is_usable(self) -> bool:
        """True if it can take calls: threads do not survive a fork."""
        return self._pid == os.getpid() and self._thread.is_alive() and not self._loop.is_closed()

    def answer(self, call: ModelCall, hear: Hear | None = None) -> Future[ModelAnswer]:
        """Start answering a call; cancelling the future stops its agents.

        `hear` is called in the engine's thread with what is said of the answer before it is complete.
        """
        return self._submit(lambda: self._answer(call, hear))

    def close(self) -> None:
        """Stop all agents, write the remaining traces and delete the process's folder."""
        if not self.is_usable:
            return
        with contextlib.suppress(Exception):  # on exit there is nobody left to report it to
            asyncio.run_coroutine_threadsafe(self._finish(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._folder.remove()

    async def _answer(self, call: ModelCall, hear: Hear | None) -> ModelAnswer:
        deadline = time.monotonic() + call.timeout
        composer = Composer(self._catalogue, self._cli, call.trace, call.params, deadline)
        try:
            return await composer.ask(call.model, call.messages, hear=hear)
        finally:
            self._recorder.record(call.trace)

    def _submit(self, work: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        async def run() -> T:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                return await work()
            finally:
                self._tasks.discard(task)

        return asyncio.run_coroutine_threadsafe(run(), self._loop)

    async def _finish(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._cli.close()
        await self._recorder.close()
        # LiteLLM leaves workers of its own on every loop it was used on.
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for other in rest:
            other.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        await self._loop.shutdown_default_executor()
