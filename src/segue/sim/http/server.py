"""Serves a simulator on loopback: in a thread for tests, in the foreground for people."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.types import Receive, Scope

from segue.domain.errors import UsageError

LOOPBACK = "127.0.0.1"
_START_DEADLINE = 30.0
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with no time left: closing sends a reset instead of an orderly end."""


def serve(app: Starlette, port: int = 0) -> tuple[str, Callable[[], None]]:
    """Serve the app in a thread; gives its address and the function that stops it."""
    server, listener, url = _prepare(app, port)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="segue-sim")
    thread.daemon = True
    thread.start()
    deadline = time.monotonic() + _START_DEADLINE
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise RuntimeError("the simulator did not start")
        time.sleep(0.005)

    def stop() -> None:
        server.should_exit = True
        # Streams that clients hold open would keep the server waiting for its whole patience.
        with contextlib.suppress(RuntimeError, IndexError):
            server.servers[0].get_loop().call_soon_threadsafe(_abort_all, server)
        thread.join(_START_DEADLINE)

    return url, stop


def run(app: Starlette, port: int, announce: Callable[[str], None]) -> None:
    """Serve the app in the foreground until Ctrl-C; `announce` is told the address as soon as it listens."""
    server, listener, url = _prepare(app, port)
    announce(url)
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listener])


async def drop(scope: Scope, receive: Receive, *, reset: bool) -> None:
    """Cut the connection a request came by: what was sent still arrives, unless it is reset."""
    for connection in list(scope["app"].state.connections):
        if connection.client == tuple(scope["client"]):
            _cut(connection.transport, reset)
    while (await receive())["type"] != "http.disconnect":
        pass


def _prepare(app: Starlette, port: int) -> tuple[uvicorn.Server, socket.socket, str]:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise UsageError(
            f"Port {port} cannot be used: {error.strerror}", hint="Take another --port."
        ) from None
    config = uvicorn.Config(
        app,
        http="h11",
        loop="asyncio",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
    )
    config.timeout_graceful_shutdown = 1
    server = uvicorn.Server(config)
    app.state.connections = server.server_state.connections
    return server, listener, f"http://{LOOPBACK}:{listener.getsockname()[1]}"


def _abort_all(server: uvicorn.Server) -> None:
    for connection in list(server.server_state.connections):
        _cut(connection.transport, reset=False)


def _cut(transport: Any, reset: bool) -> None:
    if reset:
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        transport.abort()
    else:
        transport.close()
