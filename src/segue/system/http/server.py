"""The HTTP server, on uvicorn, for a block of code."""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn

from segue.domain.errors import SegueError, UsageError
from segue.system.http.guard import AsgiApp

_log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
_GRACE_SECONDS = 2.0
_KEEP_ALIVE_SECONDS = 30
"""Longer than clients keep a connection that they do not use, or we would close it as they use it again."""
_FREE_PORTS = 20


@asynccontextmanager
async def open_server(
    app: AsgiApp,
    host: str = LOOPBACK,
    port: int = 0,
    *,
    grace: float = _GRACE_SECONDS,
    also: str | None = None,
) -> AsyncIterator[str]:
    """Serve the app while the block runs and yield its address; port 0 takes a free one.

    At the end, requests under way have `grace` seconds to finish. `also` is a second address to listen on at
    the same port, if it exists.
    """
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=math.ceil(grace),
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    listeners = _listen_on_both(host, also, port) if also else [_listen(host, port)]
    # Not `serve`, which takes over the signals of the process.
    await server.startup(sockets=listeners)
    if server.should_exit:
        for listener in listeners:
            listener.close()
        raise SegueError("The server could not start.", hint="The messages above say why.")
    loop = asyncio.create_task(server.main_loop())
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{listeners[0].getsockname()[1]}"
    _log.info("serving at %s", url)
    try:
        yield url
    finally:
        _log.info("no longer serving at %s", url)
        server.should_exit = True
        await loop
        await server.shutdown(sockets=listeners)


def _listen(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise UsageError(
            f"Cannot listen on {host}:{port}: {error.strerror}.",
            hint=f"Take another port: --port {port + 1 if 0 < port < 65535 else 8787}, or 0 for any free one",
        ) from None
    return listener


def _listen_on_both(host: str, also: str, port: int) -> list[socket.socket]:
    """Listen on two addresses at one port; the second may not exist on this machine."""
    for _ in range(_FREE_PORTS):
        first = _listen(host, port)
        try:
            return [first, _listen(also, first.getsockname()[1])]
        except UsageError as error:
            if isinstance(error.__context__, OSError) and error.__context__.errno != errno.EADDRINUSE:
                return [first]
            first.close()
            if port:
                raise
    raise UsageError(f"No port is free on both {host} and {also}.", hint="Name one with --port")
