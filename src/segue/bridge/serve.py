"""`segue bridge serve`: goes on with all conversations and listens for messages and webhooks."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from segue.bridge.people import tell_people
from segue.bridge.routes import make_app
from segue.bridge.session import Ended, carry_on
from segue.bridge.view import conversations
from segue.bridge.webhooks import dispatch, inbox_run
from segue.domain.errors import Locked, NeedsHuman, SegueError
from segue.domain.run import Run, RunState
from segue.ports import Store
from segue.runtime.wiring import App, own_folder
from segue.system.files import write_atomic
from segue.system.http.guard import LOOPBACK_HOSTS, RequestGuard
from segue.system.http.server import open_server
from segue.system.interrupts import on_interrupt

WEBHOOKS = "/webhooks/cursor"
_TRY_AGAIN = 2.0
_GOING_ON = (RunState.RUNNING, RunState.PARKED)


class Host:
    """Carries conversations on, each in a task of its own."""

    def __init__(self, app: App, store: Store) -> None:
        self._app = app
        self._store = store
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()

    def ensure(self, run_id: str) -> None:
        """See to it that a conversation goes on, also if it is just about to end."""
        if run_id in self._tasks:
            self._again.add(run_id)
        else:
            self._tasks[run_id] = asyncio.create_task(self._carry(run_id))

    async def close(self) -> None:
        """End all of them; the next `serve` goes on."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _carry(self, run_id: str) -> None:
        try:
            while True:
                self._again.discard(run_id)
                await self._once(run_id)
                if run_id not in self._again:
                    return
        finally:
            self._tasks.pop(run_id, None)

    async def _once(self, run_id: str) -> None:
        while True:
            run = self._store.run(run_id)
            assert run is not None, "it was there when it was taken up"
            try:
                ended = await carry_on(
                    reopened(self._app, run), self._store, run, wait_reminders=True, served=True
                )
            except Locked:
                await asyncio.sleep(_TRY_AGAIN)  # another process carries it on, or works in its folder
                continue
            except SegueError as error:
                ended = Ended(run_id, RunState.FAILED, error=error)
            except Exception as error:  # written down with the run; the others must go on
                ended = Ended(run_id, RunState.FAILED, error=SegueError(str(error)))
            await self._report(ended)
            return

    async def _report(self, ended: Ended) -> None:
        if isinstance(ended.error, NeedsHuman):
            title = f"Conversation {ended.run} needs you"
            await tell_people(self._app, "needs_human", title, f"{ended.error.message} {ended.error.hint}")


def reopened(app: App, run: Run) -> App:
    """The settings that a conversation was begun with."""
    named = Path(run.spec.config) if run.spec.config else app.config
    database = {"database_url": app.database(), "state_dir": str(app.state_dir)}
    return App.load(None, named, database, stored=run.spec.settings)


async def serve(app: App, repo: str | None, announce: Callable[[str, str], None]) -> None:
    """Serve until Ctrl-C; `announce` is told the address and where the token is."""
    settings = app.loaded.settings.bridge
    token, where = token_of(app)
    with app.store() as store:
        inbox = inbox_run(store)
        journal = await store.open(inbox.id)
        host = Host(app, store)
        routes = make_app(app, store, host.ensure, inbox.id, repo)
        hosts = (*LOOPBACK_HOSTS, settings.listen, *settings.hosts)
        guarded = RequestGuard(routes, token, hosts, open_paths=(WEBHOOKS, "/health"))
        work = asyncio.create_task(dispatch(app, store, journal, host.ensure))
        try:
            async with open_server(guarded, settings.listen, settings.port) as url:
                for run in conversations(store):
                    if run.state in _GOING_ON:
                        host.ensure(run.id)
                announce(url, where)
                with on_interrupt(work.cancel), suppress(asyncio.CancelledError):
                    await work
        finally:
            work.cancel()
            await host.close()
            await store.close(journal)


def token_of(app: App) -> tuple[str, str]:
    """The token, and where it is; one is made when there is none."""
    name = app.loaded.settings.bridge.token_env
    if given := os.environ.get(name, "").strip():
        return given, f"in {name}"
    own_folder(app.state_dir)
    path = app.state_dir / "bridge-token"
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        write_atomic(path, f"{secrets.token_urlsafe(32)}\n".encode())
    return path.read_text("utf-8").strip(), str(path)
