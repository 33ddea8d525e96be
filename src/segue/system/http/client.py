"""The HTTP client: bounded connections, times and sizes, and one policy for retries.

No error and no log contains a header, a body or a password.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct

from segue.system.retry import pauses

if TYPE_CHECKING:
    import httpx2

_log = logging.getLogger(__name__)

_IDEMPOTENT = frozenset({"GET", "HEAD", "PUT", "DELETE"})
_GATEWAY_ERRORS = frozenset({502, 503, 504})
"""Statuses of proxies and gateways; the request may have been served all the same."""
_TOO_MANY = 429
_CONNECT_SECONDS = 10.0
_FARTHEST = 86_400.0
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class HttpPolicy(Struct, frozen=True):
    """Limits of a client: connections, times, sizes and retries."""

    connections: int = 20
    streams: int = 20
    """Streams have their own connections, so that they do not block everything else."""
    timeout: float = 30.0
    max_bytes: int = 16 * 1024 * 1024
    keep_end: bool = False
    """Of a response that is larger, return the end, as of a log; else it is an error."""
    pause: float = 1.0
    """Seconds before the second attempt; doubled each time, up to sixteen times as long."""
    attempts: int = 6
    longest_wait: float = 300.0
    """The longest Retry-After that is respected."""


class HttpResponse(Struct, frozen=True):
    """The response of a server; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    def json(self) -> Any:
        """Return the body as JSON; raises ValueError if it is not JSON."""
        try:
            # Databases reject NaN and infinity.
            return json.loads(self.body, parse_constant=lambda _name: None)
        except RecursionError:
            raise ValueError("the body is nested too deeply") from None

    def retry_after(self) -> float | None:
        """Return how many seconds the server asks to wait, if it does."""
        header = self.headers.get("retry-after", "").strip()
        try:
            seconds = float(header)
        except ValueError:
            at = parse_date(header)
            if at is None:
                return None
            seconds = max(0.0, at - (parse_date(self.headers.get("date", "")) or time.time()))
        return min(seconds, _FARTHEST) if 0 <= seconds < float("inf") else None


class HttpError(Exception):
    """There was no response. `sent` is False only if the request certainly never arrived."""

    def __init__(self, message: str, *, sent: bool, unknown_host: bool = False) -> None:
        super().__init__(message)
        self.sent = sent
        self.unknown_host = unknown_host
        """True if there is no server of this name, which waiting does not change."""


class HttpClient:
    """A client for one server, used as a context manager."""

    def __init__(self, base_url: str, headers: Mapping[str, str], policy: HttpPolicy | None = None) -> None:
        self._base_url, self._headers = base_url.rstrip("/"), dict(headers)
        self._policy = policy or HttpPolicy()
        self._slots = asyncio.Semaphore(self._policy.connections)
        self._client: httpx2.AsyncClient | None = None
        self._quiet_until = 0.0
        self._refusal: HttpResponse | None = None

    async def __aenter__(self) -> HttpClient:
        import httpx2

        policy, place = self._policy, urlsplit(self._base_url)
        is_local = place.hostname in LOOPBACK
        self._client = httpx2.AsyncClient(
            headers=self._headers,
            timeout=httpx2.Timeout(policy.timeout, connect=_CONNECT_SECONDS, pool=None),
            limits=httpx2.Limits(
                max_connections=policy.connections + policy.streams,
                max_keepalive_connections=policy.connections,
            ),
            follow_redirects=False,  # the key must not be sent to another server
            trust_env=not is_local,
            verify=not (is_local and place.scheme == "http"),  # reading the certificates takes a moment
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._client is not None
        await self._client.aclose()

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool | None = None,
        deadline: float | None = None,
    ) -> HttpResponse:
        """Send a request and retry it until the response is final or the loop's clock reaches the deadline.

        `repeatable`: the request may be sent twice; by default true for all methods but POST and PATCH.
        Raises HttpError when there was no response at all.
        """
        may_repeat = method in _IDEMPOTENT if repeatable is None else repeatable
        parts: dict[str, Any] = {"params": query, "headers": dict(headers or {})}
        if body is not None:
            parts["content"] = json.dumps(body).encode()
            parts["headers"] = {"content-type": "application/json", **parts["headers"]}
        for attempt, pause in zip(
            count(1), pauses(self._policy.pause, 16 * self._policy.pause), strict=False
        ):
            answer = await self._attempt(method, path, parts, deadline)
            wait = self._wait(answer, may_repeat, pause)
            # Waiting for a refusal to end costs nothing, so it continues until the deadline.
            waits_on = (
                deadline is not None and isinstance(answer, HttpResponse) and answer.status == _TOO_MANY
            )
            if wait is None or (attempt >= self._policy.attempts and not waits_on):
                break
            if deadline is not None and _now() + wait > deadline:
                break
            why = "no response" if isinstance(answer, HttpError) else f"status {answer.status}"
            place = path.partition("?")[0]  # without the query, which may have a key
            _log.info("%s %s: %s; attempt %d in %.1f s", method, place, why, attempt + 1, wait)
            await asyncio.sleep(wait)
        if isinstance(answer, HttpError):
            raise answer
        return answer

    @asynccontextmanager
    async def stream(
        self, path: str, headers: Mapping[str, str], silence: float
    ) -> AsyncIterator[tuple[HttpResponse, AsyncGenerator[bytes, None]]]:
        """Open an endless response: yield its head and an iterator over its pieces.

        The head of a refusal contains its body. Raises HttpError, also from the iterator, when the
        connection breaks or nothing arrives for `silence` seconds.
        """
        import httpx2

        assert self._client is not None
        timeout = httpx2.Timeout(silence, connect=_CONNECT_SECONDS, pool=None)
        problem: HttpError
        try:
            async with self._client.stream(
                "GET", self._base_url + path, headers=dict(headers), timeout=timeout
            ) as response:
                body = b"" if response.status_code == 200 else await self._body(response)
                yield _response(response, body), _pieces(response, path)
                return
        except httpx2.HTTPError as error:
            problem = _problem("GET", path, error)
        raise problem

    async def _attempt(
        self, method: str, path: str, parts: Mapping[str, Any], deadline: float | None
    ) -> HttpResponse | HttpError:
        import httpx2

        assert self._client is not None
        while (wait := self._quiet_until - _now()) > 0:  # the server asked every request to wait
            if self._refusal is not None and deadline is not None and _now() + wait > deadline:
                return self._refusal
            await asyncio.sleep(wait)
        sent = False
        try:
            async with asyncio.timeout_at(deadline), self._slots, asyncio.timeout(self._policy.timeout):
                sent = True
                async with self._client.stream(method, self._base_url + path, **parts) as response:
                    return _response(response, await self._body(response))
        except TimeoutError:
            return HttpError(f"{method} {path}: no response in time", sent=sent)
        except httpx2.HTTPError as error:
            return _problem(method, path, error)
        except HttpError as error:
            return error

    def _wait(self, answer: HttpResponse | HttpError, may_repeat: bool, pause: float) -> float | None:
        """Return the seconds until the next attempt; None if there should be none."""
        if isinstance(answer, HttpError):
            return pause if may_repeat or not answer.sent else None
        if answer.status == _TOO_MANY:
            asked = min(answer.retry_after() or 0.0, self._policy.longest_wait)
            if asked:
                self._refusal, self._quiet_until = answer, max(self._quiet_until, _now() + asked)
            return asked + pause / 4 if asked else pause
        return pause if answer.status in _GATEWAY_ERRORS and may_repeat else None

    async def _body(self, response: httpx2.Response) -> bytes:
        most, size = self._policy.max_bytes, 0
        pieces: deque[bytes] = deque()
        async for piece in response.aiter_bytes():
            size += len(piece)
            pieces.append(piece)
            if size > most and not self._policy.keep_end:
                raise HttpError(f"a response of more than {most} bytes", sent=True)
            while size - len(pieces[0]) >= most:
                size -= len(pieces.popleft())
        return b"".join(pieces)[-most:]


def parse_date(text: str) -> float | None:
    """Return an HTTP date as seconds since the epoch; None if it is invalid."""
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _response(response: httpx2.Response, body: bytes) -> HttpResponse:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return HttpResponse(response.status_code, headers, body)


async def _pieces(response: httpx2.Response, path: str) -> AsyncGenerator[bytes, None]:
    import httpx2

    problem: HttpError | None = None
    try:
        async for piece in response.aiter_bytes():
            yield piece
    except httpx2.HTTPError as error:
        problem = _problem("GET", path, error)
    if problem is not None:
        raise problem


def _problem(method: str, path: str, error: httpx2.HTTPError) -> HttpError:
    """Return the error without its own message, which may quote a header."""
    import httpx2

    never_sent = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)
    cause: BaseException | None = error
    while cause is not None and not (isinstance(cause, OSError) and cause.errno is not None):
        cause = cause.__cause__ or cause.__context__
    number = cause.errno or 0 if isinstance(cause, OSError) else 0
    words = os.strerror(number) if number > 0 else str(cause or "")
    return HttpError(
        f"{method} {path}: {words or type(error).__name__}",
        sent=not isinstance(error, never_sent),
        unknown_host=isinstance(cause, socket.gaierror) and number == socket.EAI_NONAME,
    )


def _now() -> float:
    return asyncio.get_running_loop().time()
