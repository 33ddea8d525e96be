"""The only door to HTTP: bounded connections, times and sizes, and one policy for trying again.

Nothing that is raised or logged here holds a header, a body or an address with a password in it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import httpx2

_IDEMPOTENT = frozenset({"GET", "HEAD", "PUT", "DELETE"})
_PASSING = frozenset({502, 503, 504})
"""Statuses of something between here and there; what was asked for may have been done all the same."""

_TOO_MANY = 429
_CONNECT_SECONDS = 10.0
_FARTHEST = 86_400.0
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True)
class HttpPolicy:
    """How much is asked at once, how long is waited, and how often it is tried again."""

    connections: int = 20
    streams: int = 20
    """Streams have connections of their own, so that they do not hold up everything else."""
    timeout: float = 30.0
    max_bytes: int = 16 * 1024 * 1024
    pause: float = 1.0
    """Seconds before the second attempt; doubled up to sixteen times as long."""
    attempts: int = 6
    longest_wait: float = 300.0
    """What a server may ask for with Retry-After; after that it is tried all the same."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """What a server answered; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    def json(self) -> Any:
        """The body as JSON; ValueError when it is none."""
        try:
            # Numbers that are none, such as NaN, are refused by databases.
            return json.loads(self.body, parse_constant=lambda _name: None)
        except RecursionError:
            raise ValueError("the body is nested too deeply") from None

    def retry_after(self) -> float | None:
        """How many seconds the server wants to be left alone, if it says so."""
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
    """There was no answer. `sent` is False only if the request certainly never arrived."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class HttpClient:
    """A client for one server; use it as a context."""

    def __init__(self, base_url: str, headers: Mapping[str, str], policy: HttpPolicy | None = None) -> None:
        self._base_url = base_url.rstrip("/")
        self._headers = dict(headers)
        self._policy = policy or HttpPolicy()
        self._turns = asyncio.Semaphore(self._policy.connections)
        self._client: httpx2.AsyncClient | None = None
        self._quiet_until = 0.0
        self._refusal: HttpResponse | None = None

    async def __aenter__(self) -> HttpClient:
        import httpx2

        policy = self._policy
        every = policy.connections + policy.streams
        self._client = httpx2.AsyncClient(
            headers=self._headers,
            timeout=httpx2.Timeout(policy.timeout, connect=_CONNECT_SECONDS, pool=None),
            limits=httpx2.Limits(max_connections=every, max_keepalive_connections=policy.connections),
            follow_redirects=False,  # the key must not travel to another server
            trust_env=urlsplit(self._base_url).hostname not in LOOPBACK,
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
        """Ask until there is an answer that will not change, or until the deadline of the event loop's clock.

        `repeatable`: asking twice does no more than asking once; known for every method but POST and PATCH.
        Raises HttpError when there was no answer at all.
        """
        again = method in _IDEMPOTENT if repeatable is None else repeatable
        content = None if body is None else json.dumps(body).encode()
        parts = {"content": content, "params": query, "headers": _headers(content, headers)}
        for attempt, pause in enumerate(self._pauses(), 1):
            found = await self._attempt(method, path, parts, deadline)
            wait = self._wait(found, again, pause, attempt, deadline)
            if wait is None:
                break
            await asyncio.sleep(wait)
        if isinstance(found, HttpError):
            raise found
        return found

    @asynccontextmanager
    async def stream(
        self, path: str, headers: Mapping[str, str], silence: float
    ) -> AsyncIterator[tuple[HttpResponse, AsyncGenerator[bytes, None]]]:
        """An answer that goes on and on: its head, and its pieces as they come.

        The body of a refusal is in the head already. Raises HttpError, also from the pieces: when the
        connection breaks, or when nothing comes for so many seconds.
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
                yield _answer(response, body), _pieces(response, path)
                return
        except httpx2.HTTPError as error:
            problem = _problem("GET", path, error)
        raise problem

    async def _attempt(
        self, method: str, path: str, parts: Mapping[str, Any], deadline: float | None
    ) -> HttpResponse | HttpError:
        import httpx2

        if refused := await self._left_alone(deadline):
            return refused
        sent = False
        try:
            async with asyncio.timeout_at(deadline), self._turns, asyncio.timeout(self._policy.timeout):
                sent = True
                return await self._exchange(method, path, parts)
        except TimeoutError:
            return HttpError(f"{method} {path}: no answer in time", sent=sent)
        except httpx2.HTTPError as error:
            return _problem(method, path, error)
        except HttpError as error:
            return error

    async def _exchange(self, method: str, path: str, parts: Mapping[str, Any]) -> HttpResponse:
        assert self._client is not None
        async with self._client.stream(method, self._base_url + path, **parts) as response:
            return _answer(response, await self._body(response))

    async def _left_alone(self, deadline: float | None) -> HttpResponse | None:
        """Wait as long as the server has asked for; its refusal when that is longer than there is time."""
        while (wait := self._quiet_until - _now()) > 0:
            if deadline is not None and _now() + wait > deadline:
                return self._refusal
            await asyncio.sleep(wait)
        return None

    def _wait(
        self, found: HttpResponse | HttpError, again: bool, pause: float, attempt: int, deadline: float | None
    ) -> float | None:
        """Seconds until the next attempt; None when this was the last."""
        wait: float | None = pause
        if isinstance(found, HttpError):
            wait = pause if again or not found.sent else None
        elif found.status == _TOO_MANY:
            wait = self._asked_to_wait(found, pause)
            # It costs nothing and may go on for minutes: as long as there is time.
            attempt = 0 if deadline is not None else attempt
        elif found.status not in _PASSING or not again:
            wait = None
        if wait is None or attempt >= self._policy.attempts:
            return None
        return None if deadline is not None and _now() + wait > deadline else wait

    def _asked_to_wait(self, refusal: HttpResponse, pause: float) -> float:
        said = refusal.retry_after()
        if not said:
            return pause
        wait = min(said, self._policy.longest_wait)
        self._refusal, self._quiet_until = refusal, max(self._quiet_until, _now() + wait)
        # Everybody waits for the same instant; a little spread keeps them from arriving together.
        return wait + random.uniform(0, self._policy.pause / 4)  # noqa: S311 - not for secrets

    def _pauses(self) -> Iterator[float]:
        for doubling in itertools.count():
            yield self._policy.pause * 2 ** min(doubling, 4) * random.uniform(0.75, 1.25)  # noqa: S311

    async def _body(self, response: httpx2.Response) -> bytes:
        size, pieces = 0, []
        async for piece in response.aiter_bytes():
            size += len(piece)
            if size > self._policy.max_bytes:
                raise HttpError(f"an answer of more than {self._policy.max_bytes} bytes", sent=True)
            pieces.append(piece)
        return b"".join(pieces)


def parse_date(text: str) -> float | None:
    """An HTTP date as seconds since the epoch."""
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _headers(content: bytes | None, more: Mapping[str, str] | None) -> dict[str, str]:
    return {**({"content-type": "application/json"} if content is not None else {}), **(more or {})}


def _answer(response: httpx2.Response, body: bytes) -> HttpResponse:
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
    """The error without its own text, which may quote a header."""
    import httpx2

    never_sent = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)
    return HttpError(f"{method} {path}: {type(error).__name__}", sent=not isinstance(error, never_sent))


def _now() -> float:
    return asyncio.get_running_loop().time()
