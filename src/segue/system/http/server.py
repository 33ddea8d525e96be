"""The one HTTP server, on uvicorn: for a block of code, in a thread, or in the foreground until Ctrl-C."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl
import struct
import sys
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from segue.domain.errors import SegueError, UsageError
from segue.system.http.guard import AsgiApp, Receive, Scope
from segue.system.process.group import on_interrupt

_log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
_HEAD_SECONDS = 30.0
_GRACE_SECONDS = 2.0
_KEEP_ALIVE_SECONDS = 30
"""Longer than clients keep a connection that they do not use, or we would close it as they use it again."""
_LINGER_SECONDS = 30.0
_LINGER_BYTES = 16 * 1024**2
_START_SECONDS = 30.0
_FREE_PORTS = 20
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with no time left: closing sends a reset instead of an orderly end."""


@asynccontextmanager
async def open_server(
    app: AsgiApp,
    host: str = LOOPBACK,
    port: int = 0,
    *,
    head_timeout: float = _HEAD_SECONDS,
    grace: float = _GRACE_SECONDS,
    tls: ssl.SSLContext | None = None,
    also: str | None = None,
    unix: Path | None = None,
) -> AsyncIterator[str]:
    """Serve the app while the block runs and yield its address; port 0 takes a free one.

    A client must send the head of its request within `head_timeout` seconds. At the end, requests under way
    have `grace` seconds to finish. `also` is a second address to listen on at the
    same port, if it exists here. `unix` is a Unix socket to listen on as well.
    """
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="auto",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
    )
    config.load()
    lifespan, state = config.lifespan_class(config), ServerState()
    listeners = _listen_on_both(host, also, port) if also else [_listen(host, port)]
    if unix is not None:
        listeners.append(_listen_locally(unix))
    await lifespan.startup()
    if lifespan.should_exit:
        for listener in listeners:
            listener.close()
        raise SegueError("The server could not start.", hint="The messages above say why.")
    shared: dict[str, Any] = lifespan.state
    servers = [
        await asyncio.get_running_loop().create_server(
            lambda: _ImpatientProtocol(config, state, head_timeout, shared),
            sock=listener,
            ssl=tls,
            ssl_handshake_timeout=head_timeout if tls else None,
        )
        for listener in listeners
    ]
    shown = f"[{host}]" if ":" in host else host
    url = f"{'https' if tls else 'http'}://{shown}:{listeners[0].getsockname()[1]}"
    _log.info("serving at %s", url)
    try:
        yield url
    finally:
        _log.info("no longer serving at %s", url)
        for server in servers:
            server.close()
        await _close_connections(state, grace)
        await lifespan.shutdown()
        if unix is not None:
            unix.unlink(missing_ok=True)


def start_server(app: AsgiApp, port: int = 0, unix: Path | None = None) -> tuple[str, Callable[[], None]]:
    """Serve the app on loopback in a thread; return its address and a function that stops it."""
    ready: Future[tuple[str, Callable[[], object]]] = Future()

    async def serve() -> None:
        stopped, loop = asyncio.Event(), asyncio.get_running_loop()
        try:
            async with open_server(app, port=port, grace=0, unix=unix) as url:
                ready.set_result((url, lambda: loop.call_soon_threadsafe(stopped.set)))
                await stopped.wait()
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="segue-server", daemon=True)
    thread.start()
    url, ask_to_stop = ready.result(_START_SECONDS)

    def stop() -> None:
        if thread.is_alive():
            ask_to_stop()
        thread.join(_START_SECONDS)

    return url, stop


def run_server(app: AsgiApp, port: int, announce: Callable[[str], None], unix: Path | None = None) -> None:
    """Serve the app on loopback until Ctrl-C; `announce` gets the address once it listens."""

    async def serve() -> None:
        stopped = asyncio.Event()
        with on_interrupt(stopped.set):
            async with open_server(app, port=port, grace=0, unix=unix) as url:
                announce(url)
                await stopped.wait()

    asyncio.run(serve())


async def drop_connection(scope: Scope, receive: Receive, *, reset: bool) -> None:
    """Cut the connection of a request: what was sent still arrives, unless the connection is reset."""
    transport: asyncio.Transport = scope["state"]["transport"]
    if reset:
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        transport.abort()
    else:
        transport.close()
    while (await receive())["type"] != "http.disconnect":
        pass


class _LingeringTransport:
    """A connection that is closed only when the client has sent its request.

    If it were closed before, the system would reset it, and the client could not read the answer.
    """

    def __init__(self, transport: asyncio.Transport, is_sending: Callable[[], bool]) -> None:
        self._transport, self._is_sending = transport, is_sending
        self._left: int | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __getattr__(self, name: str) -> Any:
        """Return what is the same as for every connection."""
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        """Return whether the answer is complete, and nobody listens to the client any more."""
        return self._left is not None or self._transport.is_closing()

    def close(self) -> None:
        """End our side, and wait for a while until the client ends its own."""
        if self.is_closing():
            return
        if not self._is_sending():
            self._transport.close()
            return
        self._left = _LINGER_BYTES
        self._timer = asyncio.get_running_loop().call_later(_LINGER_SECONDS, self._transport.close)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._transport.resume_reading()

    def discard(self, data: bytes) -> None:
        """Throw away what the client sends after the answer, up to a limit."""
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                self.hang_up()

    def hang_up(self) -> None:
        """Close the connection, whatever the client still sends."""
        if self._timer is not None:
            self._timer.cancel()
        self._transport.close()
        # What it had belongs to the protocol: two that know each other stay in memory.
        self._is_sending = lambda: False


class _ImpatientProtocol(H11Protocol):
    """uvicorn's protocol that also closes a connection whose request head does not arrive in time."""

    _lingering: _LingeringTransport

    def __init__(
        self, config: uvicorn.Config, state: ServerState, head_timeout: float, shared: dict[str, Any]
    ) -> None:
        """`shared` is what the app made when it started."""
        super().__init__(config, state, dict(shared))
        self._head_timeout = head_timeout
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._lingering = _LingeringTransport(transport, self._is_sending)
        super().connection_made(self._lingering)  # type: ignore[arg-type]
        self.app_state["transport"] = transport
        self._timer = self.loop.call_later(self._head_timeout, transport.close)

    def data_received(self, data: bytes) -> None:
        if self._lingering.is_closing():
            self._lingering.discard(data)
            return
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
        elif self._timer is None:
            self._timer = self.loop.call_later(self._head_timeout, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self.hang_up()
        super().connection_lost(exc)
        if sys.version_info < (3, 12) and hasattr(transport := self.app_state["transport"], "_read_ready_cb"):
            transport._read_ready_cb = None  # it refers to itself there: python/cpython#100348

    def hang_up(self) -> None:
        """Close the connection, whatever the client still sends."""
        self._lingering.hang_up()

    def _is_sending(self) -> bool:
        return self.cycle is None or self.cycle.more_body

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


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
    listener.setblocking(False)
    return listener


def _listen_locally(path: Path) -> socket.socket:
    """Listen on a Unix socket that only this user can open."""
    if not hasattr(socket, "AF_UNIX"):
        raise UsageError("Unix sockets are not available here.", hint="Use the port.")
    if path.is_socket():  # of a server that was killed
        path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise UsageError(f"Cannot listen on {path}: {error.strerror}", hint="Take another path.") from None
    finally:
        os.umask(before)
    listener.setblocking(False)
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


async def _close_connections(state: Any, grace: float) -> None:
    """Let requests under way finish for a moment, then cut the rest."""
    for connection in list(state.connections):
        connection.shutdown()
    if state.tasks and grace:
        await asyncio.wait(state.tasks, timeout=grace)
    for task in list(state.tasks):
        task.cancel()
    for connection in list(state.connections):
        connection.hang_up()
    await asyncio.gather(*state.tasks, return_exceptions=True)
