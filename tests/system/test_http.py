"""The door to HTTP, against a real server that misbehaves on purpose."""

from __future__ import annotations

import asyncio
import json
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
from segue.system.http.server import drop_connection, start_server

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
            await drop_connection(request.scope, request.receive, reset=True)
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
                await drop_connection(request.scope, request.receive, reset=True)
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
    found.url, stop = start_server(
        Starlette(routes=[*paths, Route("/{path:path}", found.handle, methods=methods)])
    )
    try:
        yield found
    finally:
        stop()


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


@pytest.mark.parametrize("trouble", [(503, {}), "drop"])
def test_a_post_may_be_repeated_if_the_caller_says_so(server: Server, trouble: Any) -> None:
    server.answers = [trouble, trouble]
    assert ask(server, "POST", repeatable=True, body={"a": 1}).status == 200
    assert len(server.seen) == 3


@pytest.mark.parametrize("status", [200, 201, 400, 401, 404, 409, 410, 500])
def test_answers_that_will_not_change_are_given_at_once(server: Server, status: int) -> None:
    server.answers = [(status, {"X-Thing": "7"})]
    answer = ask(server)
    assert (answer.status, answer.json(), answer.headers["x-thing"]) == (status, {"ok": status}, "7")
    assert len(server.seen) == 1


def test_too_many_requests_are_repeated_whatever_was_asked(server: Server) -> None:
    server.answers = [(429, {}), (429, {"Retry-After": "0"}), (429, {"Retry-After": "soon"})]
    assert ask(server, "POST").status == 200
    assert len(server.seen) == 4


def test_repeating_ends(server: Server) -> None:
    server.answers = [(503, {})] * 20
    assert ask(server).status == 503
    assert len(server.seen) == 6
    server.answers = [(429, {})] * 20
    assert ask(server).status == 429
    assert len(server.seen) == 12


def test_a_wait_beyond_the_deadline_is_not_begun(server: Server) -> None:
    server.answers = [(429, {"Retry-After": "100"})]
    answer = ask(server, deadline=20)
    assert (answer.status, answer.retry_after()) == (429, 100)
    assert len(server.seen) == 1


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


def test_the_wait_that_a_server_asks_for_is_capped(server: Server) -> None:
    server.answers = [(429, {"Retry-After": "100000"})]

    async def once(http: HttpClient) -> HttpResponse:
        return await http.request("GET", "/x")

    assert use(server, once, longest_wait=0.05).status == 200


@pytest.mark.parametrize(
    ("said", "least", "most"),
    [("5", 5, 5), ("1.5", 1.5, 1.5), ("999999999", 86400, 86400), ("-3", None, None), ("nan", None, None)],
)
def test_retry_after_in_seconds(said: str, least: float | None, most: float | None) -> None:
    found = HttpResponse(429, {"retry-after": said}).retry_after()
    assert found == least == most


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


@pytest.mark.thorough
def test_a_slow_answer_is_asked_for_again(server: Server) -> None:
    server.answers = ["hang"]

    async def once(http: HttpClient) -> HttpResponse:
        return await http.request("GET", "/x")

    assert use(server, once, timeout=2).status == 200


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


def test_connections_are_bounded(server: Server) -> None:
    async def crowd(http: HttpClient) -> list[HttpResponse]:
        return list(await asyncio.gather(*(http.request("GET", "/x") for _ in range(60))))

    assert len(use(server, crowd, connections=3)) == 60
    assert server.most <= 3


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


def test_a_stream_is_read_piece_by_piece(server: Server) -> None:
    assert use(server, lambda http: read(http, "/whole")) == b"onetwo"


@pytest.mark.parametrize("path", ["/silent", "/torn"])
def test_a_stream_that_stops_is_an_error(server: Server, path: str) -> None:
    with pytest.raises(HttpError):
        use(server, lambda http: read(http, path, silence=0.3))


def test_a_refused_stream_has_its_reasons(server: Server) -> None:
    server.answers = [(410, {})]

    async def refused(http: HttpClient) -> HttpResponse:
        async with http.stream("/x", {}, 20) as (head, _):
            return head

    answer = use(server, refused)
    assert (answer.status, json.loads(answer.body)) == (410, {"ok": 410})


def test_streams_do_not_hold_up_requests(server: Server) -> None:
    async def both(http: HttpClient) -> int:
        async with http.stream("/silent", {}, 20) as (_, pieces), aclosing(pieces):
            await anext(pieces)
            return (await http.request("GET", "/x")).status

    assert use(server, both, connections=1, streams=1) == 200
