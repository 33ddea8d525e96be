"""GitHub's REST and GraphQL APIs: pages, caching, rate limits, and no request sent twice by accident.

More of the API is added as functions that take a client, in files beside this one.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

from msgspec import Struct

from segue import __version__
from segue.domain.errors import CredentialsError, SegueError, Unavailable
from segue.domain.plain import plain
from segue.system.github.access import GithubAccess
from segue.system.http.client import LOOPBACK, HttpClient, HttpError, HttpPolicy, HttpResponse

SERVICE = "GitHub"
API_VERSION = "2022-11-28"
_POLICY = HttpPolicy(connections=4, streams=1, attempts=1)
_REPEATABLE = frozenset({"GET", "PUT", "DELETE", "PATCH"})
"""Methods that may be sent again: here a PATCH sets fields to values."""
_MOST_PAGES = 100
_CACHED = 200
_ENTERPRISE = "/api/v3"
_WRITE_PAUSE = 1.0
"""Seconds between two writes, as GitHub asks for."""
_SECONDARY_PAUSE = 60.0
_NEXT = re.compile(r'<([^>]+)>\s*;[^,]*\brel="?next"?')
_WORDS = 300


class GithubRefused(SegueError):
    """GitHub refused a request; `status` and `errors` say why."""

    def __init__(self, status: int, words: str, errors: Sequence[str] = (), permission: str = "") -> None:
        more = f" ({'; '.join(errors)})" if errors else ""
        wanted = f"The token needs the permission {permission}." if permission else ""
        super().__init__(f"GitHub refused: {words}{more} [{status}].", hint=wanted)
        self.status = status
        self.words = words
        self.errors = tuple(errors)
        self.permission = permission


class AnswerLost(Exception):
    """A request that must not be sent twice got no answer: look whether it was served, then send it again."""


class _CachedAnswer(Struct, frozen=True):
    etag: str
    body: Any
    link: str


class GithubClient:
    """GitHub's API for one token, used as a context manager.

    Every method raises Unavailable while GitHub is away or asks to wait, which `segue.domain.patience`
    waits for, GithubRefused for what it refuses, and CredentialsError for a token that it rejects.
    """

    def __init__(self, access: GithubAccess, policy: HttpPolicy = _POLICY) -> None:
        self.access = access
        headers = {
            "authorization": f"Bearer {access.token}",
            "accept": "application/vnd.github+json",
            "x-github-api-version": API_VERSION,
            "user-agent": f"segue/{__version__}",
        }
        enterprise = access.api_url.endswith(_ENTERPRISE)
        self._prefix = _ENTERPRISE if enterprise else ""
        self._graphql_path = "/api/graphql" if enterprise else "/graphql"
        self._http = HttpClient(access.api_url.removesuffix(_ENTERPRISE), headers, policy)
        self._cache: dict[str, _CachedAnswer] = {}
        self._quiet_until = 0.0
        self._next_write = 0.0
        self._writing = asyncio.Lock()
        self._is_local = urlsplit(access.api_url).hostname in LOOPBACK
        self._login: str | None = None

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._http.__aexit__(*exc)

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """Return what is there; what has not changed since it was last read costs nothing."""
        return (await self._read(self._place(path, query))).body

    async def pages(
        self, path: str, query: Mapping[str, str] | None = None, *, items: str = "", most: int = 10_000
    ) -> list[Any]:
        """Return all items of a list, over its pages; `items` names them where they are in an object."""
        found: list[Any] = []
        place: str | None = self._place(path, {"per_page": "100", **(query or {})})
        for _ in range(_MOST_PAGES):
            if place is None or len(found) >= most:
                break
            answer = await self._read(place)
            part = answer.body.get(items) if items and isinstance(answer.body, dict) else answer.body
            if not isinstance(part, list):
                raise GithubRefused(200, f"{path} is not a list")
            found += part
            place = self._next(answer.link)
        return found[:most]

    async def send(self, method: str, path: str, body: Any = None) -> Any:
        """Change something and return the answer. A POST that got no answer raises AnswerLost."""
        async with self._writing:
            await self._pace()
            response = await self._exchange(method, self._place(path), body=body, again=method in _REPEATABLE)
        return _parse(response)

    async def graphql(self, query: str, variables: Mapping[str, Any], *, repeatable: bool = True) -> Any:
        """Return the data of a query or mutation; an error beside the data is a refusal."""
        body = {"query": query, "variables": variables}
        response = await self._exchange("POST", self._graphql_path, body=body, again=repeatable)
        answer = _parse(response)
        errors = answer.get("errors") if isinstance(answer, dict) else None
        if errors:
            kinds = {str(error.get("type", "")) for error in errors if isinstance(error, dict)}
            words = [
                plain(str(error.get("message", "")), _WORDS) for error in errors if isinstance(error, dict)
            ]
            if "RATE_LIMITED" in kinds:
                raise self._wait_for(response, words[0] if words else "rate limit")
            status = 404 if "NOT_FOUND" in kinds else 403 if "FORBIDDEN" in kinds else 422
            raise GithubRefused(status, "; ".join(words) or "unknown error")
        return answer["data"]

    async def download(self, path: str, limit: int = 64 * 1024**2) -> bytes:
        """Return a log or an archive; it may be on another server, which gets no token."""
        response = await self._exchange("GET", self._place(path), again=True)
        if response.status not in (301, 302, 303, 307, 308):
            return response.body
        place = urlsplit(response.headers.get("location", ""))
        if place.scheme not in ("https", "http") or (place.scheme == "http" and not self._is_local):
            raise GithubRefused(response.status, "the log is at an address that is not safe")
        rest = f"{place.path}?{place.query}" if place.query else place.path
        policy = HttpPolicy(timeout=120.0, max_bytes=limit, attempts=3)
        async with HttpClient(f"{place.scheme}://{place.netloc}", {}, policy) as plain_client:
            try:
                found = await plain_client.request("GET", rest)
            except HttpError as error:
                raise Unavailable(SERVICE, str(error)) from None
        if found.status != 200:
            raise GithubRefused(found.status, "the log cannot be read")
        return found.body

    async def login(self) -> str:
        """Return whose token it is; empty for one that belongs to no person, as in Actions."""
        if self._login is None:
            try:
                user = await self.get("/user")
                self._login = str(user.get("login", ""))
            except GithubRefused:
                self._login = ""
        return self._login

    async def _read(self, place: str) -> _CachedAnswer:
        known = self._cache.get(place)
        headers = {"if-none-match": known.etag} if known else {}
        response = await self._exchange("GET", place, headers=headers, again=True)
        if response.status == 304 and known is not None:
            return known
        answer = _CachedAnswer(
            response.headers.get("etag", ""), _parse(response), response.headers.get("link", "")
        )
        self._cache.pop(place, None)
        if answer.etag:
            self._cache[place] = answer
            if len(self._cache) > _CACHED:
                del self._cache[next(iter(self._cache))]
        return answer

    async def _exchange(
        self,
        method: str,
        place: str,
        *,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        again: bool,
    ) -> HttpResponse:
        """Send a request once; an answer that asks to wait, and no answer at all, become exceptions."""
        if (wait := self._quiet_until - time.time()) > 0:
            raise Unavailable(SERVICE, "it asked to wait", wait)
        try:
            response = await self._http.request(method, place, body=body, headers=headers, repeatable=again)
        except HttpError as error:
            if error.sent and not again:
                raise AnswerLost(f"GitHub: {error}") from None
            raise Unavailable(SERVICE, str(error)) from None
        if response.status >= 500:
            if not again:
                raise AnswerLost(f"GitHub answered {response.status} to {method} {place}")
            raise Unavailable(SERVICE, f"it answers {response.status}", response.retry_after())
        if response.status >= 400:
            raise self._refusal(response)
        return response

    def _refusal(self, response: HttpResponse) -> Exception:
        words, errors = _read_error(response)
        limited = response.status in (403, 429) and (
            response.status == 429
            or "retry-after" in response.headers
            or response.headers.get("x-ratelimit-remaining") == "0"
            or "rate limit" in words.lower()
        )
        if limited:
            return self._wait_for(response, words)
        if response.status == 401:
            return CredentialsError(
                f"GitHub rejects the token: {words}.", hint="Log in with: gh auth login   or set GITHUB_TOKEN"
            )
        permission = response.headers.get("x-accepted-github-permissions", "")
        return GithubRefused(response.status, words, errors, plain(permission, _WORDS))

    def _wait_for(self, response: HttpResponse, words: str) -> Unavailable:
        """Ask for nothing until GitHub allows it: as long as it says, or until the limit is reset."""
        wait = response.retry_after()
        if wait is None and response.headers.get("x-ratelimit-remaining") == "0":
            reset = response.headers.get("x-ratelimit-reset", "")
            wait = max(1.0, int(reset) - time.time()) if reset.isdecimal() else None
        wait = _SECONDARY_PAUSE if wait is None else wait
        self._quiet_until = max(self._quiet_until, time.time() + wait)
        return Unavailable(SERVICE, plain(words, _WORDS), wait)

    async def _pace(self) -> None:
        """Leave a second between two writes."""
        now = time.monotonic()
        if self._next_write > now and not self._is_local:
            await asyncio.sleep(self._next_write - now)
        self._next_write = time.monotonic() + _WRITE_PAUSE

    def _place(self, path: str, query: Mapping[str, str] | None = None) -> str:
        return f"{self._prefix}{path}?{urlencode(query)}" if query else self._prefix + path

    def _next(self, link: str) -> str | None:
        """Return where the next page is, below the API's own address."""
        found = _NEXT.search(link)
        if found is None:
            return None
        if not found[1].startswith(f"{self.access.api_url}/"):
            raise GithubRefused(200, "the next page is on another server")
        return self._prefix + found[1].removeprefix(self.access.api_url)


def _parse(response: HttpResponse) -> Any:
    if not response.body:
        return None
    try:
        return response.json()
    except ValueError:
        raise Unavailable(SERVICE, "its answer is not JSON") from None


def _read_error(response: HttpResponse) -> tuple[str, list[str]]:
    try:
        body = response.json()
    except ValueError:
        return f"status {response.status}", []
    if not isinstance(body, dict):
        return f"status {response.status}", []
    errors = [
        str(error.get("message") or " ".join(str(error.get(k, "")) for k in ("field", "code")).strip())
        if isinstance(error, dict)
        else str(error)
        for error in body.get("errors") or []
    ]
    return plain(str(body.get("message", "")), _WORDS), [plain(error, _WORDS) for error in errors[:5]]
