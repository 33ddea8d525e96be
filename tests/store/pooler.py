"""A pooler that hands out the server's connections by the transaction, as Supabase's on port 6543 does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_REFUSED_ENCRYPTION = (80877103, 80877104)
_BROKEN = (OSError, asyncio.IncompleteReadError)

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Pooler:
    """Each transaction of a client goes to another connection than the one before."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self.statements: list[bytes] = []
        self.port = 0

    async def serve(self, ready: threading.Event, stop: asyncio.Event) -> None:
        server = await asyncio.start_server(self._client, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await stop.wait()
        server.close()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        backends: list[Stream] = []
        pumps: list[asyncio.Task[None]] = []
        with suppress(*_BROKEN):
            startup = await _startup(reader, writer)
            backends += [await asyncio.open_unix_connection(str(self._socket)) for _ in range(2)]
            greetings = [await _greeting(backend, startup) for backend in backends]
            writer.write(greetings[0])
            current = [0]
            pumps += [
                asyncio.create_task(_pump(backends[number], number, writer, current)) for number in (0, 1)
            ]
            while True:
                message = await _message(reader)
                if message[:1] in b"QP":
                    self.statements.append(message[5:])
                backends[current[0]][1].write(message)
        for pump in pumps:
            pump.cancel()
        for _, end in [*backends, (reader, writer)]:
            end.close()


async def _startup(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    while True:
        size = await reader.readexactly(4)
        body = await reader.readexactly(int.from_bytes(size) - 4)
        if int.from_bytes(body[:4]) not in _REFUSED_ENCRYPTION:
            return size + body
        writer.write(b"N")


async def _greeting(backend: Stream, startup: bytes) -> bytes:
    backend[1].write(startup)
    greeting = b""
    while True:
        message = await _message(backend[0])
        greeting += message
        if message[:1] in b"ZE":
            return greeting


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(5)
    return head + await reader.readexactly(int.from_bytes(head[1:]) - 4)


async def _pump(backend: Stream, number: int, client: asyncio.StreamWriter, current: list[int]) -> None:
    with suppress(*_BROKEN):
        while True:
            message = await _message(backend[0])
            if message[:1] == b"Z" and message[5:] == b"I":  # the transaction is over
                current[0] = 1 - number
            client.write(message)


@contextmanager
def pooler_of(url: str) -> Iterator[tuple[Pooler, str]]:
    """A pooler before the server on a socket, and the URL of the same database through it."""
    head, _, folder = url.partition("?host=")
    pooler = Pooler(Path(folder) / ".s.PGSQL.5432")
    ready = threading.Event()
    ending: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def main() -> None:
        stop = asyncio.Event()
        ending.append((asyncio.get_running_loop(), stop))
        await pooler.serve(ready, stop)

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    try:
        assert ready.wait(120)
        name = head.rpartition("/")[2]
        yield pooler, f"postgresql://postgres@127.0.0.1:{pooler.port}/{name}?pgbouncer=true&sslmode=disable"
    finally:
        loop, stop = ending[0]
        loop.call_soon_threadsafe(stop.set)
        thread.join()
