"""`segue bridge serve`: runs all conversations and listens for messages and webhooks."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from segue.domain.errors import Locked, NeedsHuman, SegueError
from segue.domain.run import RunState
from segue.features.bridge.context import notify_people
from segue.features.bridge.conversations import list_conversations
from segue.features.bridge.options import bridge_settings
from segue.features.bridge.routes import BridgeRoutes, make_bridge_app
from segue.features.bridge.session import run_conversation
from segue.features.bridge.webhooks import dispatch, open_inbox
from segue.runtime.app import App
from segue.system.http.server import open_server
from segue.system.process.group import on_interrupt
from segue.system.secrets import keep_secret

if TYPE_CHECKING:
    from segue.store.store import Store


_RETRY_SECONDS = 2.0
_UNFINISHED = (RunState.RUNNING, RunState.PARKED)


class ConversationHost:
    """Runs conversations, each in its own task."""

    def __init__(self, app: App, store: Store) -> None:
        self._app = app
        self._store = store
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()

    def ensure(self, run_id: str) -> None:
        """Make sure that a conversation runs, also if it is just about to end."""
        if run_id in self._tasks:
            self._again.add(run_id)
        else:
            self._tasks[run_id] = asyncio.create_task(self._run(run_id))

    async def close(self) -> None:
        """Stop all conversations; the next `serve` continues them."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _run(self, run_id: str) -> None:
        try:
            while True:
                self._again.discard(run_id)
                error = await self._run_once(run_id)
                if isinstance(error, NeedsHuman):
                    title = f"Conversation {run_id} needs you"
                    await notify_people(self._app, "needs_human", title, f"{error.message} {error.hint}")
                if run_id not in self._again:
                    return
        finally:
            self._tasks.pop(run_id, None)

    async def _run_once(self, run_id: str) -> SegueError | None:
        while True:
            run = self._store.run(run_id)
            assert run is not None, "it was in the store when it was started"
            try:
                config = None if run.spec.config else self._app.config
                app = App.load_for(run, config, self._app.place())
                return (await run_conversation(app, self._store, run, wait_reminders=True, served=True)).error
            except Locked:
                await asyncio.sleep(_RETRY_SECONDS)  # another process runs it, or works in its folder
            except SegueError as error:
                return error
            except Exception as error:  # recorded with the run; the others must continue
                return SegueError(str(error))


async def serve(app: App, repo: str | None, announce: Callable[[str, str], None]) -> None:
    """Serve until Ctrl-C; `announce` is called with the address and the token's location."""
    settings = bridge_settings(app.loaded.settings)
    token, where = _get_token(app)
    with app.store() as store:
        inbox = open_inbox(store)
        journal = await store.open(inbox.id)
        host = ConversationHost(app, store)
        web = make_bridge_app(BridgeRoutes(app, store, host.ensure, inbox.id, repo), token)
        work = asyncio.create_task(dispatch(app, store, journal, host.ensure))
        try:
            async with open_server(web, settings.listen, settings.port) as url:
                for run in list_conversations(store):
                    if run.state in _UNFINISHED:
                        host.ensure(run.id)
                announce(url, where)
                with on_interrupt(work.cancel), suppress(asyncio.CancelledError):
                    await work
        finally:
            work.cancel()
            await host.close()
            await store.close(journal)


def _get_token(app: App) -> tuple[str, str]:
    """Return the token and where it is; create one if there is none."""
    name = bridge_settings(app.loaded.settings).token_env
    if given := os.environ.get(name, "").strip():
        return given, f"in {name}"
    path = app.secret_dir / "bridge-token"
    return keep_secret(path, lambda: secrets.token_urlsafe(32)), str(path)
