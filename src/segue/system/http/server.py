"""The one HTTP server, on uvicorn, for a block of code."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from segue.domain.errors import SegueError, UsageError
from segue.system.http.guard import AsgiApp

_log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
_HEAD_SECONDS = 30.0
_GRACE_SECONDS = 2.0
_KEEP_ALIVE_SECONDS = 30
"""Longer than clients keep a connection that they do not use, or we would close it as they use it again."""
_LINGER_SECONDS = 30.0
_LINGER_BYTES = 16 * 1024**2
_FREE_PORTS = 20


@asynccontextmanager
async def open_server(
    app: AsgiApp,
    host: str = LOOPBACK,
    port: int = 0,
    *,
    head_timeout: float = _HEAD_SECONDS,
    grace: float = _GRACE_SECONDS,
    also: str | None = None,
) -> AsyncIterator[str]:
    """Serve the app while the block runs and yield its address; port 0 takes a free one.

    A client must send the head of its request within `head_timeout` seconds. At the end, requests under way
    have `grace` seconds to finish. `also` is a second address to listen on at the same port, if it exists.
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
        )
        for listener in listeners
    ]
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{listeners[0].getsockname()[1]}"
    _log.info("serving at %s", url)
    try:
        yield url
    finally:
        _log.info("no longer serving at %s", url)
        for server in servers:
            server.close()
        await _close_connections(state, grace)
        await lifespan.shutdown()


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
