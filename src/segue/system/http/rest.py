"""Asks a REST API with a token: remembers ETags, follows pages, and says what a refusal means."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Self, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec
from msgspec import Struct

from segue.domain.errors import CredentialsError, SegueError, Unavailable
from segue.system.http.client import HttpClient, HttpError, HttpPolicy, HttpResponse

T = TypeVar("T")

_MAX_BYTES = 32 * 1024**2
_LOGS = HttpPolicy(attempts=3, pause=0.5, timeout=120, max_bytes=8 * 1024**2, keep_end=True, longest_wait=60)
"""A log may be huge; what failed is at its end."""
_MOST_PAGES = 20
_SAID = 400
_REMEMBERED = 200
_REDIRECTS = (301, 302, 303, 307, 308)


class Refused(SegueError):
    """The service understood the request and refused it."""

    def __init__(self, status: int, said: str, message: str, hint: str = "", kept: str = "") -> None:
        super().__init__(message, kept=kept, hint=hint)
        self.status, self.said = status, said


class RestWords(Struct, frozen=True):
    """What messages about an API say beside the facts."""

    kept: str = ""
    setting: str = "the address of the API"
    page: str = "docs/guides/issues.md"


class Rest:
    """One API, with a token that no message contains."""

    def __init__(
        self,
        name: str,
        api: str,
        headers: Mapping[str, str],
        clean: Callable[[str], str],
        page: int = 100,
        words: RestWords = RestWords(),  # noqa: B008 - it cannot change
    ) -> None:
        self._words = words
        self._http: HttpClient | None = None
        self._name, self._api, self._clean, self._page = name, api, clean, page
        self._headers = {"accept": "application/json", "user-agent": "segue", **headers}
        self._policy = HttpPolicy(attempts=3, pause=0.5, max_bytes=_MAX_BYTES, longest_wait=60)
        self._seen: dict[str, HttpResponse] = {}
        """The last answer to each question, with its ETag: the same one again costs nothing."""

    async def __aenter__(self) -> Self:
        """Keep connections open in a block; without one, each request opens its own."""
        self._http = await HttpClient(self._api, self._headers, self._policy).__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        http, self._http = self._http, None
        if http is not None:
            await http.__aexit__(*exc)

    @property
    def address(self) -> str:
        """Where the API is."""
        return self._api

    async def get(self, path: str, kind: type[T], **query: str) -> T:
        """Return what is at a path."""
        return self._read(await self._fetch(_join(path, query)), kind)

    async def list(self, path: str, kind: type[T], inside: str = "", **query: str) -> list[T]:
        """Return everything in a list, page by page; `inside` names the field that has it."""
        found: list[T] = []
        async for answer in self._pages(_join(path, {"per_page": str(self._page), **query})):
            items = self._read(answer, dict[str, Any])[inside] if inside else self._read(answer, list[Any])
            found += self._convert(items, list[kind])  # type: ignore[valid-type]
        return found

    async def send(self, method: str, path: str, body: Any, kind: type[T]) -> T:
        """Send something and return the answer."""
        return self._read(await self._ask(method, path, body), kind)

    async def do(self, method: str, path: str, body: Any = None) -> None:
        """Send something whose answer does not matter."""
        await self._ask(method, path, body)

    async def text(self, path: str) -> str:
        """Return a text, such as a log, or its end if it is huge; another server does not get the token."""
        answer = await self._ask("GET", path, policy=_LOGS)
        where = answer.headers.get("location", "")
        if answer.status in _REDIRECTS and where:
            parts = urlsplit(where)
            base = f"{parts.scheme}://{parts.netloc}"
            try:
                async with HttpClient(base, {"user-agent": "segue"}, _LOGS) as http:
                    answer = await http.request("GET", where.removeprefix(base))
            except HttpError as error:
                raise Unavailable(self._name, f"the log cannot be read: {error}") from None
            self._check("GET", path, answer)
        return answer.body.decode("utf-8", "replace")

    async def _pages(self, path: str) -> AsyncIterator[HttpResponse]:
        for _ in range(_MOST_PAGES):
            answer = await self._fetch(path)
            yield answer
            following = _next_link(answer.headers.get("link", ""))
            # Followed as the service gives it, but never to another server.
            if not following.startswith(f"{self._api}/"):
                return
            path = following.removeprefix(self._api)

    async def _fetch(self, path: str) -> HttpResponse:
        """Return the answer to a GET, the last one again where nothing has changed."""
        before = self._seen.get(path)
        answer = await self._ask(
            "GET", path, headers={"if-none-match": before.headers["etag"]} if before else {}
        )
        if answer.status == 304 and before is not None:
            return before
        if "etag" in answer.headers:
            if len(self._seen) >= _REMEMBERED:
                self._seen.clear()
            self._seen[path] = answer
        return answer

    async def _ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        policy: HttpPolicy | None = None,
    ) -> HttpResponse:
        try:
            if self._http is not None and policy is None:
                answer = await self._http.request(method, path, body=body, headers=headers)
            else:
                async with HttpClient(self._api, self._headers, policy or self._policy) as http:
                    answer = await http.request(method, path, body=body, headers=headers)
        except HttpError as error:
            if error.unknown_host:
                raise SegueError(
                    f"There is no server at {self._api}.", hint=f"Check {self._words.setting}"
                ) from None
            raise Unavailable(self._name, self._clean(str(error))) from None
        self._check(method, path, answer)
        return answer

    def _check(self, method: str, path: str, answer: HttpResponse) -> None:
        """Raise what a refusal means; a redirect and 304 are answers."""
        if answer.status < 400:
            return
        said = self._clean(_words(answer))
        wait = _wait_of(answer)
        if answer.status >= 500 or answer.status == 429 or (answer.status == 403 and wait is not None):
            raise Unavailable(self._name, f"HTTP {answer.status} {said}".strip(), wait)
        if answer.status == 401:
            raise CredentialsError(
                f"{self._name} rejects the token (HTTP 401 {said}).".replace(" )", ")"),
                kept=self._words.kept,
                hint=f"Set a token that is valid: see {self._words.page}",
            )
        where = path.partition("?")[0]
        needs = answer.headers.get("x-accepted-github-permissions", "")
        hint = f"The token needs: {self._clean(needs)}" if needs and answer.status in (403, 404) else ""
        message = f"{self._name} refuses {method} {where}: HTTP {answer.status} {said}"
        raise Refused(answer.status, said, message, hint, self._words.kept)

    def _read(self, answer: HttpResponse, kind: type[T]) -> T:
        try:
            return self._convert(answer.json(), kind)
        except ValueError:
            raise SegueError(
                f"{self._name} answers with something else than JSON.", hint=f"Check {self._words.setting}"
            ) from None

    def _convert(self, data: Any, kind: type[T]) -> T:
        try:
            return msgspec.convert(data, kind, strict=False)
        except msgspec.ValidationError as error:
            raise SegueError(f"{self._name} answers in a form that Segue does not know: {error}") from None


def _join(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _next_link(header: str) -> str:
    for part in header.split(","):
        address, _, rest = part.strip().partition(">")
        if 'rel="next"' in rest:
            return address.removeprefix("<")
    return ""


def _wait_of(answer: HttpResponse) -> float | None:
    """Return how long a limit lasts: what the service asks for, or until its count starts again."""
    asked = answer.retry_after()
    if asked is not None:
        return asked
    headers = answer.headers
    left = headers.get("x-ratelimit-remaining", headers.get("ratelimit-remaining"))
    if left != "0":
        return 60.0 if "secondary rate limit" in _words(answer).lower() else None
    import time

    try:
        reset = float(headers.get("x-ratelimit-reset", headers.get("ratelimit-reset", "")))
    except ValueError:
        return 60.0
    return max(0.0, reset - time.time())


def _words(answer: HttpResponse) -> str:
    """Return the service's own words about a refusal."""
    try:
        data = answer.json()
    except (ValueError, UnicodeDecodeError):
        return ""
    if not isinstance(data, dict):
        return ""
    said = data.get("message", data.get("error", ""))
    more = data.get("errors")
    words = [said if isinstance(said, str) else msgspec.json.encode(said).decode()]
    listed = more if isinstance(more, list) else []
    words += [str(one.get("message", "")) if isinstance(one, dict) else str(one) for one in listed]
    return "; ".join(filter(None, words))[:_SAID]
