"""Serves an ASGI app for as long as a block of code runs; clients that are too slow are cut."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from segue.domain.errors import UsageError

_HEAD_SECONDS = 10.0
_END_SECONDS = 2.0


@asynccontextmanager
async def listening(
    app: Any,
    host: str,
    port: int,
    head_timeout: float = _HEAD_SECONDS,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[str]:
    """Serve the app; gives its address. Port 0 takes a free one."""
    import uvicorn
    from uvicorn.server import ServerState

    config = uvicorn.Config(
        app, http="h11", ws="none", lifespan="off", log_config=None, access_log=False, proxy_headers=False
    )
    config.load()
    state = ServerState()
    protocol = _patient(head_timeout)
    listener = _listener(host, port)
    server = await asyncio.get_running_loop().create_server(
        lambda: protocol(config, state, {}),
        sock=listener,
        ssl=tls,
        ssl_handshake_timeout=head_timeout if tls else None,
    )
    shown = f"[{host}]" if ":" in host else host
    try:
        yield f"{'https' if tls else 'http'}://{shown}:{listener.getsockname()[1]}"
    finally:
        server.close()
        await _end(state)


async def _end(state: Any) -> None:
    """Let requests under way finish for a moment, then cut what is left."""
    for connection in list(state.connections):
        connection.shutdown()
    if state.tasks:
        await asyncio.wait(state.tasks, timeout=_END_SECONDS)
    for task in list(state.tasks):
        task.cancel()
    for connection in list(state.connections):
        connection.transport.close()
    await asyncio.gather(*state.tasks, return_exceptions=True)


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(512)
    except OSError as error:
        listener.close()
        raise UsageError(
            f"{host}:{port} cannot be listened on: {error.strerror}", hint="Take another port."
        ) from None
    listener.setblocking(False)
    return listener


def _patient(seconds: float) -> Any:
    """uvicorn's protocol, with a limit on how long the head of a request may take."""
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Patient(H11Protocol):
        """Cuts a connection whose request does not begin, or whose head does not end, in time."""

        _waiting: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._waiting = self.loop.call_later(seconds, transport.close)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is not h11.IDLE:
                self._stop_waiting()
            elif self._waiting is None:
                self._waiting = self.loop.call_later(seconds, self.transport.close)

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _stop_waiting(self) -> None:
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None

    return Patient
