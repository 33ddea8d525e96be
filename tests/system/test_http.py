"""The door to HTTP, against a real server that misbehaves on purpose."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any, TypeVar

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from segue.system.http.client import HttpClient, HttpError, HttpPolicy, HttpResponse
from tests.fakes.serving import cut, serve

SECRET = "crsr_very_secret_indeed"
T = TypeVar("T")


@dataclass
class Server:
    """Answers with what it was told to answer, in turn; then with 200."""

    url: str = ""
    answers: list[tuple[int, dict[str, str]] | str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    at_once: int = 0
    most: int = 0

    async def handle(self, request: Request) -> Response:
        self.seen.append(f"{request.method} {request.url.path}")
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0.005)
        self.at_once -= 1
        told = self.answers.pop(0) if self.answers else (200, {})
        if told == "drop":
            await cut(request.scope, request.receive)
            return Response()
        if told == "hang":
            await gone(request)
        if told == "big":
            return Response(b"x" * 100_000)
        if isinstance(told, str):
            return Response(status_code=302, headers={"location": told})
        return JSONResponse({"ok": told[0]}, told[0], told[1])

    async def stream(self, request: Request) -> Response:
        async def pieces() -> Any:
            yield b"one"
            if request.url.path == "/silent":
                await gone(request)
            elif request.url.path == "/torn":
                await cut(request.scope, request.receive)
            yield b"two"

        return StreamingResponse(pieces())


async def gone(request: Request) -> None:
    """Wait until the client has had enough."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as found:
        yield found


@contextmanager
def serving() -> Iterator[Server]:
    found = Server()
    paths = [Route(f"/{name}", found.stream) for name in ("whole", "silent", "torn")]
    methods = ["GET", "POST", "PUT", "DELETE"]
    app = Starlette(routes=[*paths, Route("/{path:path}", found.handle, methods=methods)])
    with serve(app) as found.url:
        yield found


def use(server: Server, work: Callable[[HttpClient], Awaitable[T]], **policy: Any) -> T:
    """Do something with a client that has short pauses."""

    async def inside() -> T:
        headers = {"Authorization": f"Bearer {SECRET}"}
        async with HttpClient(server.url, headers, HttpPolicy(**{"pause": 0.01, **policy})) as http:
            return await work(http)

    return asyncio.run(asyncio.wait_for(inside(), 60))


def ask(server: Server, method: str = "GET", deadline: float | None = None, **more: Any) -> HttpResponse:
    async def once(http: HttpClient) -> HttpResponse:
        end = None if deadline is None else asyncio.get_running_loop().time() + deadline
        return await http.request(method, "/x", deadline=end, **more)

    return use(server, once)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST"])
@pytest.mark.parametrize("trouble", [(502, {}), (503, {}), (504, {}), "drop"])
def test_only_what_may_be_repeated_is_repeated(server: Server, method: str, trouble: Any) -> None:
    server.answers = [trouble]
    if method == "POST" and trouble == "drop":
        with pytest.raises(HttpError) as failed:
            ask(server, method)
        assert failed.value.sent, "nobody knows whether it was carried out"
    else:
        assert ask(server, method).status == (trouble[0] if method == "POST" else 200)
    assert len(server.seen) == (1 if method == "POST" else 2)


def test_repeating_ends(server: Server) -> None:
    server.answers = [(503, {})] * 20
    assert ask(server).status == 503
    assert len(server.seen) == 6
    server.answers = [(429, {})] * 20
    assert ask(server).status == 429
    assert len(server.seen) == 12


def test_one_who_is_told_to_wait_makes_all_wait(server: Server) -> None:
    """The second request, which has less time, is refused with the words the first one got."""
    server.answers = [(429, {"Retry-After": "30"})]

    async def two(http: HttpClient) -> tuple[HttpResponse, HttpResponse]:
        now = asyncio.get_running_loop().time()
        first = await http.request("GET", "/first", deadline=now + 10)
        return first, await http.request("GET", "/second", deadline=now + 10)

    first, second = use(server, two)
    assert (first.status, second.status) == (429, 429)
    assert server.seen == ["GET /first"]


def test_retry_after_as_a_date_counts_from_the_servers_own_clock() -> None:
    now = time.time()
    headers = {
        "retry-after": formatdate(now - 3540, usegmt=True),
        "date": formatdate(now - 3600, usegmt=True),
    }
    assert HttpResponse(429, headers).retry_after() == 60
    assert HttpResponse(429, {"retry-after": formatdate(now - 100, usegmt=True)}).retry_after() == 0
    assert HttpResponse(429, {"retry-after": "Yesterday"}).retry_after() is None
    assert HttpResponse(429, {}).retry_after() is None


def test_a_slow_answer_is_not_waited_for_beyond_the_deadline(server: Server) -> None:
    server.answers = ["hang"]
    with pytest.raises(HttpError, match="no response in time") as failed:
        ask(server, "POST", deadline=0.3)
    assert failed.value.sent


def test_an_answer_that_is_too_large_is_not_read(server: Server) -> None:
    server.answers = ["big"]

    async def once(http: HttpClient) -> HttpResponse:
        return await http.request("GET", "/x")

    with pytest.raises(HttpError, match="more than 1000 bytes"):
        use(server, once, max_bytes=1000, attempts=1)


def test_the_key_is_not_carried_to_another_server(server: Server) -> None:
    with serving() as other:
        server.answers = [f"{other.url}/steal"]
        assert ask(server).status == 302
        assert other.seen == []


def test_a_server_that_is_not_there_was_not_asked(server: Server) -> None:
    async def once(http: HttpClient) -> HttpResponse:
        return await http.request("POST", "/x")

    with pytest.raises(HttpError) as failed:
        use(Server("http://127.0.0.1:1"), once)
    assert not failed.value.sent


@pytest.mark.parametrize("key", [f"{SECRET}\n", f"{SECRET}\x00", SECRET])
def test_no_error_and_no_log_shows_a_header(key: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def once() -> None:
        async with HttpClient("http://127.0.0.1:1", {"Authorization": key}, HttpPolicy(pause=0.01)) as http:
            await http.request("GET", "/x")

    with pytest.raises(HttpError) as failed:
        asyncio.run(once())
    told = repr(failed.value) + repr(failed.value.__cause__) + repr(failed.value.__context__)
    assert SECRET not in told + caplog.text


async def read(http: HttpClient, path: str, silence: float = 20) -> bytes:
    got = b""
    async with http.stream(path, {}, silence) as (head, pieces), aclosing(pieces):
        assert head.status == 200
        async for piece in pieces:
            got += piece
    return got


@pytest.mark.parametrize("path", ["/silent", "/torn"])
def test_a_stream_that_stops_is_an_error(server: Server, path: str) -> None:
    with pytest.raises(HttpError):
        use(server, lambda http: read(http, path, silence=0.3))
