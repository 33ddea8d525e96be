"""Serves the page: alone until Ctrl-C, or beside a run for as long as it works."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from segue.runtime.wiring import App
from segue.system.http.server import open_server
from segue.system.interrupts import on_interrupt
from segue.web.app import HOME, web_app


@asynccontextmanager
async def serving(
    app: App, host: str, port: int, token: str | None = None
) -> AsyncIterator[Callable[[str], str]]:
    """Serve while the block runs; gives a call that makes a link to a page, for one browser."""
    app.store().__exit__()  # a database that is not there yet would look empty to readers for ever
    web = web_app(app, token or secrets.token_urlsafe(32), (host,))
    async with open_server(web.asgi, host, port) as url:
        try:
            yield lambda where: f"{url}{web.keys.new_link(where)}"
        finally:
            await asyncio.to_thread(web.close)


async def serve(app: App, host: str, port: int, announce: Callable[[str], None]) -> None:
    """Serve until Ctrl-C or SIGTERM; `announce` is told the link."""
    stopped = asyncio.Event()
    with on_interrupt(stopped.set):
        async with serving(app, host, port) as new_link:
            announce(new_link(HOME))
            await stopped.wait()
