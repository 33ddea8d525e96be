"""What listens is guarded: foreign hosts and origins, missing tokens, big and slow bodies are refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

import pytest

from segue.system.http.guard import LOOPBACK_HOSTS, Receive, RequestGuard, Scope, Send
from segue.system.http.server import open_server

TOKEN = "s3cret-token"


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the length of the body, as the app behind the guard saw it."""
    message = await receive()
    body = json.dumps({"path": scope["path"], "bytes": len(message["body"])}).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def ask(
    raw: bytes,
    late: bytes = b"",
    *,
    max_body: int = 1000,
    body_timeout: float = 60.0,
    head_timeout: float = 60.0,
) -> bytes:
    """Send bytes to a guarded server and read until it closes the connection or has answered.

    What is `late` is sent when the answer has arrived, and before it is read.
    """

    async def talk() -> bytes:
        guard = RequestGuard(
            echo, TOKEN, LOOPBACK_HOSTS, ("http://good.example",), max_body, ("/open",), body_timeout
        )
        async with open_server(guard, "127.0.0.1", 0, head_timeout=head_timeout) as url:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            async with asyncio.timeout(120):
                writer.write(raw)
                await writer.drain()
                answer = await reader.read(1) if late else b""
                for start in range(0, len(late), 1000):
                    writer.write(late[start : start + 1000])
                    await writer.drain()
                    await asyncio.sleep(0)  # lets the server close the connection
                answer += await reader.read()
            writer.close()
            return answer

    return asyncio.run(talk())


def request(path: str = "/x", method: str = "POST", body: bytes = b"hi", **headers: str | None) -> bytes:
    given: Mapping[str, str | None] = {
        "host": "127.0.0.1:80",
        "authorization": f"Bearer {TOKEN}",
        "content_length": str(len(body)),
        "connection": "close",
        **headers,
    }
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in given.items() if value is not None]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode() + body


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8080", "LOCALHOST", "[::1]:99", "[::1]"])
def test_the_body_reaches_the_app(host: str) -> None:
    answer = ask(request(host=host, body=b"x" * 700))
    assert status(answer) == 200
    assert b'"bytes": 700' in answer


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.", "", None])
def test_foreign_hosts_are_refused_even_with_the_token(host: str | None) -> None:
    assert status(ask(request(host=host))) in (400, 403)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://good.example.evil", ""])
def test_foreign_origins_are_refused(origin: str) -> None:
    assert status(ask(request(origin=origin))) == 403


@pytest.mark.parametrize(
    "given", [None, "", TOKEN, f"Basic {TOKEN}", "Bearer", "Bearer wrong", f"Bearer {TOKEN}x", "Bearer \xfc"]
)
def test_a_wrong_token_is_refused(given: str | None) -> None:
    answer = ask(request(authorization=given))
    assert status(answer) == 401
    assert TOKEN.encode() not in answer


def test_open_paths_need_no_token_but_the_right_host() -> None:
    assert status(ask(request("/open", authorization=None))) == 200
    assert status(ask(request("/open", authorization=None, host="evil.example"))) == 403
    assert status(ask(request("/open/../x", authorization=None))) == 401


def test_bodies_that_are_too_big_are_refused() -> None:
    assert status(ask(request(body=b"x" * 1001))) == 413
    declared = request(body=b"", content_length="99999999999")
    assert status(ask(declared)) == 413


def test_a_body_in_chunks_is_counted_too() -> None:
    chunks = b"".join(b"100\r\n" + b"x" * 256 + b"\r\n" for _ in range(5)) + b"0\r\n\r\n"
    head = request(body=b"", content_length=None, transfer_encoding="chunked")
    assert status(ask(head + chunks)) == 413


def test_a_refusal_arrives_also_while_the_body_is_sent() -> None:
    """A connection that is closed with something unread is reset, and the answer is lost."""
    body = b"x" * 500_000
    for refused, code in ((request(authorization=None, body=body), 401), (request(body=body), 413)):
        head, sent = refused[: -len(body)], refused[-len(body) :]
        answer = ask(head, sent)
        assert status(answer) == code
        assert answer.endswith(b"0\r\n\r\n"), "all of it"


def test_a_slow_body_is_cut() -> None:
    assert status(ask(request(body=b"hi", content_length="500"), body_timeout=0.2)) == 408


@pytest.mark.parametrize("begun", [b"", b"POST /x HT", b"POST /x HTTP/1.1\r\nhost: local"])
def test_a_slow_head_is_cut(begun: bytes) -> None:
    assert ask(begun, head_timeout=0.2) == b""
