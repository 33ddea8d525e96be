"""The HTTP client: bounded connections, times and sizes, and one policy for retries.

Nothing that is raised or logged here contains a header, a body or a password.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import random
import socket
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct

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
        said = self.headers.get("retry-after", "").strip()
        try:
            seconds = float(said)
        except ValueError:
            at = parse_date(said)
            seconds = (
                -1.0
                if at is None
                else max(0.0, at - (parse_date(self.headers.get("date", "")) or time.time()))
            )
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
        self._base_url = base_url.rstrip("/")
        self._headers = dict(headers)
        self._policy = policy or HttpPolicy()
        self._slots = asyncio.Semaphore(self._policy.connections)
        self._client: httpx2.AsyncClient | None = None
        self._quiet_until = 0.0
        self._refusal: HttpResponse | None = None

    async def __aenter__(self) -> HttpClient:
        import httpx2

        policy, place = self._policy, urlsplit(self._base_url)
        every = policy.connections + policy.streams
        is_local = place.hostname in LOOPBACK
        self._client = httpx2.AsyncClient(
            headers=self._headers,
            timeout=httpx2.Timeout(policy.timeout, connect=_CONNECT_SECONDS, pool=None),
            limits=httpx2.Limits(max_connections=every, max_keepalive_connections=policy.connections),
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
        again = method in _IDEMPOTENT if repeatable is None else repeatable
        content = None if body is None else json.dumps(body).encode()
        parts = {"content": content, "params": query, "headers": _headers(content, headers)}
        for attempt, pause in enumerate(self._pauses(), 1):
            found = await self._attempt(method, path, parts, deadline)
            wait = self._wait(found, again, pause, attempt, deadline)
            if wait is None:
                break
            why = "no response" if isinstance(found, HttpError) else f"status {found.status}"
            place = path.partition("?")[0]  # without the query, which may have a key
            _log.info("%s %s: %s; attempt %d in %.1f s", method, place, why, attempt + 1, wait)
            await asyncio.sleep(wait)
        if isinstance(found, HttpError):
            raise found
        return found

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
                good = response.status_code == 200
                body = b"" if good else await self._body(response)
                yield _response(response, body), _pieces(response, path)
                return
        except httpx2.HTTPError as error:
            problem = _problem("GET", path, error)
        raise problem

    async def _attempt(
        self, method: str, path: str, parts: Mapping[str, Any], deadline: float | None
    ) -> HttpResponse | HttpError:
        import httpx2

        if refused := await self._wait_out_refusal(deadline):
            return refused
        sent = False
        try:
            async with asyncio.timeout_at(deadline), self._slots, asyncio.timeout(self._policy.timeout):
                sent = True
                return await self._exchange(method, path, parts)
        except TimeoutError:
            return HttpError(f"{method} {path}: no response in time", sent=sent)
        except httpx2.HTTPError as error:
            return _problem(method, path, error)
        except HttpError as error:
            return error

    async def _exchange(self, method: str, path: str, parts: Mapping[str, Any]) -> HttpResponse:
        assert self._client is not None
        async with self._client.stream(method, self._base_url + path, **parts) as response:
            return _response(response, await self._body(response))

    async def _wait_out_refusal(self, deadline: float | None) -> HttpResponse | None:
        """Wait as long as the server asked for; return its refusal if the deadline comes first."""
        while (wait := self._quiet_until - _now()) > 0:
            if deadline is not None and _now() + wait > deadline:
                return self._refusal
            await asyncio.sleep(wait)
        return None

    def _wait(
        self, found: HttpResponse | HttpError, again: bool, pause: float, attempt: int, deadline: float | None
    ) -> float | None:
        """Return the seconds until the next attempt; None if this was the last."""
        wait: float | None = pause
        if isinstance(found, HttpError):
            wait = pause if again or not found.sent else None
        elif found.status == _TOO_MANY:
            wait = self._honour_retry_after(found, pause)
            # Waiting costs nothing, so it continues until the deadline.
            attempt = 0 if deadline is not None else attempt
        elif found.status not in _GATEWAY_ERRORS or not again:
            wait = None
        if wait is None or attempt >= self._policy.attempts:
            return None
        return None if deadline is not None and _now() + wait > deadline else wait

    def _honour_retry_after(self, refusal: HttpResponse, pause: float) -> float:
        said = refusal.retry_after()
        if not said:
            return pause
        wait = min(said, self._policy.longest_wait)
        self._refusal, self._quiet_until = refusal, max(self._quiet_until, _now() + wait)
        # All clients wait for the same moment; jitter keeps them from arriving together.
        return wait + random.uniform(0, self._policy.pause / 4)  # noqa: S311 - not for secrets

    def _pauses(self) -> Iterator[float]:
        for doubling in itertools.count():
            yield self._policy.pause * 2 ** min(doubling, 4) * random.uniform(0.75, 1.25)  # noqa: S311

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


def _headers(content: bytes | None, more: Mapping[str, str] | None) -> dict[str, str]:
    return {**({"content-type": "application/json"} if content is not None else {}), **(more or {})}


def _response(response: httpx2.Response, body: bytes) -> HttpResponse:
    return HttpResponse(
        response.status_code, {name.lower(): value for name, value in response.headers.items()}, body
    )


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
    cause = _cause(error)
    number = cause.errno or 0 if cause is not None else 0
    words = os.strerror(number) if number > 0 else str(cause or "")
    return HttpError(
        f"{method} {path}: {words or type(error).__name__}",
        sent=not isinstance(error, never_sent),
        unknown_host=isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_NONAME,
    )


def _cause(error: BaseException) -> OSError | None:
    """Return what the operating system said about a failed connection."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno is not None:
            return seen
        seen = seen.__cause__ or seen.__context__
    return None


def _now() -> float:
    return asyncio.get_running_loop().time()
