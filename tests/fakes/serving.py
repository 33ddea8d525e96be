"""Serve a stand-in on loopback: a log of requests, faults, a thread for tests, and the `-m` form.

    with serve(Gate(app, faults=[{"on": "POST /pulls", "status": 502}])) as url: ...

A fault is a table: `on` is "METHOD /path", with `*` for one part of a path, or "*" for every request;
`after` requests pass first and `times` are spoiled (0: all). It waits `delay` seconds, then answers `status`
with `headers` and `body`, or cuts the connection: `cut = "before"` anything is done, or "after", in place
of the answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
import socket
import struct
import threading
import tomllib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

_FAULT = {"on", "after", "times", "delay", "status", "headers", "body", "cut"}
_RESET = struct.pack("ii", 1, 0)
_BAD_GATEWAY = "<html><head><title>502 Bad Gateway</title></head></html>"


class Faults:
    """What goes wrong with requests, in the order in which it is tried."""

    def __init__(self, faults: Iterable[Mapping[str, Any]] = ()) -> None:
        self._faults: list[Mapping[str, Any]] = []
        self._seen: list[int] = []
        self.add(*faults)

    def add(self, *faults: Mapping[str, Any]) -> None:
        """Let more go wrong from now on."""
        for fault in faults:
            if unknown := set(fault) - _FAULT:
                raise ValueError(f"a fault has no {', '.join(sorted(unknown))}")
            self._faults.append(fault)
            self._seen.append(0)

    def pick(self, method: str, path: str) -> Mapping[str, Any] | None:
        """Return the first fault that is due for a request; the faults after it do not count the request."""
        for index, fault in enumerate(self._faults):
            if not _matches(fault.get("on", "*"), method, path):
                continue
            self._seen[index] += 1
            over = self._seen[index] - fault.get("after", 0)
            times = fault.get("times", 1)
            if over > 0 and (not times or over <= times):
                return fault
        return None


def _matches(on: str, method: str, path: str) -> bool:
    wanted, _, where = on.partition(" ")
    pattern = "[^/]*".join(map(re.escape, where.split("*")))
    return wanted in ("*", method) and (not where or re.fullmatch(pattern, path) is not None)


class Gate:
    """Wraps an app: logs each request, and spoils it as the faults say.

    GET or DELETE /_sim/log shows or empties the log (`?method=` and `?path=` choose), POST /_sim/faults adds
    a list of faults, DELETE ends all. What else is below /_sim/ reaches the app, unlogged and unspoiled.
    """

    def __init__(self, app: ASGIApp, faults: Iterable[Mapping[str, Any]] = ()) -> None:
        self._app = app
        self.faults = Faults(faults)
        self.log: list[dict[str, Any]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        if request.url.path in ("/_sim/log", "/_sim/faults"):
            await (await self._control(request))(scope, receive, send)
            return
        if request.url.path.startswith("/_sim/"):
            await self._app(scope, receive, send)
            return
        body = await request.body()
        entry = _describe(request, body, len(self.log) + 1)
        self.log.append(entry)
        fault = self.faults.pick(request.method, request.url.path) or {}
        entry["fault"] = dict(fault)
        await asyncio.sleep(fault.get("delay", 0))
        again = _replay(body, receive)
        if fault.get("cut"):
            if fault["cut"] == "after":
                await self._app(scope, again, _drop)
            await cut(scope, receive)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                entry["status"] = message["status"]
            await send(message)

        spoiled = _respond(fault) if "status" in fault else None
        await (spoiled or self._app)(scope, again, answer)

    async def _control(self, request: Request) -> Response:
        if request.url.path == "/_sim/faults":
            if request.method == "DELETE":
                self.faults = Faults()
            else:
                self.faults.add(*await request.json())
            return JSONResponse({})
        if request.method == "DELETE":
            self.log.clear()
        wanted = {n: v for n, v in request.query_params.items() if n in ("method", "path")}
        return JSONResponse({"requests": [e for e in self.log if wanted.items() <= e.items()]})


def _describe(request: Request, body: bytes, number: int) -> dict[str, Any]:
    """Log everything but the key."""
    headers = dict(request.headers)
    scheme = headers.pop("authorization", "").partition(" ")[0]
    try:
        parsed = json.loads(body) if body else None
    except ValueError:
        parsed = body.decode("utf-8", "replace")
    query = dict(request.query_params)
    named = {"method": request.method, "path": request.url.path, "query": query}
    return {"n": number, **named, "auth": scheme, "headers": headers, "body": parsed, "status": 0}


def _respond(fault: Mapping[str, Any]) -> Response:
    """Answer instead of the app; a text is sent as a page, as proxies do."""
    status, headers = fault["status"], fault.get("headers", {})
    body = fault.get("body", _BAD_GATEWAY if status == 502 else {"message": "The script says so."})
    if isinstance(body, str):
        return Response(body, status, headers, media_type="text/html")
    return JSONResponse(body, status, headers)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that begins with a body that was read already."""
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _drop(_message: Message) -> None:
    """Drop an answer that must never arrive."""


async def cut(scope: Scope, receive: Receive) -> None:
    """Reset the connection of a request; what was sent before may be lost."""
    transport: asyncio.Transport = scope["state"]["transport"]
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    transport.abort()
    while (await receive())["type"] != "http.disconnect":
        pass


class _Protocol(H11Protocol):
    """uvicorn's protocol, which also tells the app the connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.app_state = {**self.app_state, "transport": transport}
        super().connection_made(transport)


@asynccontextmanager
async def _served(app: ASGIApp, port: int) -> AsyncIterator[str]:
    config = uvicorn.Config(app, http=_Protocol, ws="none", log_config=None, access_log=False)
    config.load()
    lifespan, state = config.lifespan_class(config), ServerState()
    await lifespan.startup()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: _Protocol(config, state, dict(lifespan.state)), "127.0.0.1", port, backlog=1024
    )
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for connection in list(state.connections):
            connection.transport.abort()
        for task in list(state.tasks):
            task.cancel()
        await asyncio.gather(*state.tasks, return_exceptions=True)
        await lifespan.shutdown()


@contextmanager
def serve(app: ASGIApp, port: int = 0) -> Iterator[str]:
    """Serve the app on loopback, in a thread, while the block runs; yield its address."""
    ready: Future[tuple[str, Callable[[], object]]] = Future()

    async def run() -> None:
        stopped, loop = asyncio.Event(), asyncio.get_running_loop()
        async with _served(app, port) as url:
            ready.set_result((url, lambda: loop.call_soon_threadsafe(stopped.set)))
            await stopped.wait()

    def work() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    thread = threading.Thread(target=work, name="stand-in", daemon=True)
    thread.start()
    url, stop = ready.result(60)
    try:
        yield url
    finally:
        stop()
        thread.join(60)


def read_script(path: Path | None) -> dict[str, Any]:
    """Read a script: JSON, or TOML by its name; without a file an empty one."""
    if path is None:
        return {}
    text = path.read_text("utf-8")
    script = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    return script if isinstance(script, dict) else {"on": script}


def main(make_app: Callable[[dict[str, Any]], ASGIApp], what: str) -> None:
    """Serve `make_app(script)` until Ctrl-C: `python -m tests.fakes.NAME --port N [--script FILE]`."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--port", type=int, default=0, help="the port (default: a free one)")
    parser.add_argument("--script", type=Path, help="what it answers, as JSON or TOML")
    given = parser.parse_args()
    app = make_app(read_script(given.script))

    async def run() -> None:
        stopped = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        async with _served(app, given.port) as url:
            print(f"listening on {url}", flush=True)  # noqa: T201
            await stopped.wait()

    asyncio.run(run())
