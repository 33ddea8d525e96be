"""Asks a search service over HTTP: patiently, within bounds, and with plain words when it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from segue.domain.errors import SearchFailed
from segue.searchers.options import SearchSettings
from segue.system.http.client import HttpClient, HttpError, HttpPolicy, HttpResponse

KEPT = "the work so far; the task can be tried again without a search"

_MAX_BYTES = 4 * 1024 * 1024
_LONGEST_QUERY = 400
"""Characters that Brave and Tavily take."""

_SAID = 300
_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True)
class Service:
    """How one service is reached."""

    name: str
    base_url: str
    headers: Mapping[str, str]
    options: SearchSettings
    clean: Callable[[str], str]
    """Takes secrets out of a text, the service's key among them: some quote the key they reject."""

    def failed(self, message: str, hint: str) -> SearchFailed:
        """The search gave no answer."""
        return SearchFailed(self.clean(f"{self.name}: {message}"), kept=KEPT, hint=hint)


def cleaned_query(service: Service, query: str) -> str:
    """The query on one line, without secrets, no longer than services take."""
    clean = service.clean(query).encode("utf-8", "replace").decode()
    words = " ".join("".join(c if c.isprintable() else " " for c in clean).split())[:_LONGEST_QUERY].strip()
    if not words:
        raise service.failed("the query is empty", "Ask for something")
    return words


async def ask(
    service: Service, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Any = None
) -> HttpResponse:
    """What the service answers once it is not busy; raises SearchFailed when that takes too long."""
    options = service.options
    policy = HttpPolicy(timeout=options.timeout, max_bytes=_MAX_BYTES, attempts=4, pause=0.5)
    deadline = asyncio.get_running_loop().time() + options.max_wait + options.timeout
    try:
        async with HttpClient(service.base_url, service.headers, policy) as http:
            return await _until_well(http, method, path, query, body, deadline)
    except HttpError as error:
        raise service.failed(
            f"no answer ({error})",
            "Check search.base_url and the network; raise search.timeout if the service is slow",
        ) from None


def document(service: Service, answer: HttpResponse) -> dict[str, Any]:
    """The answer as a JSON object; raises SearchFailed for a refusal and for anything else."""
    if answer.status != 200:
        raise refusal(service, answer)
    try:
        found = answer.json()
    except (ValueError, UnicodeDecodeError):
        found = None
    if not isinstance(found, dict):
        raise service.failed(
            f"the answer is no JSON object ({answer.body[:60].decode('utf-8', 'replace')!r})",
            "Check that search.base_url is the address of the service itself",
        )
    return found


def refusal(service: Service, answer: HttpResponse) -> SearchFailed:
    """What a status means for a person."""
    said = f"HTTP {answer.status}: {words_of(answer)}".removesuffix(": ")
    if answer.status in (401, 403):
        return service.failed(f"the key was rejected ({said})", "Check the variable search.api_key_env names")
    if answer.status == 429:
        wait = answer.retry_after()
        asks = f", it asks to wait {wait:.0f} s" if wait else ""
        return service.failed(
            f"too many requests ({said}{asks})", "Wait, raise search.max_wait, or check the account's plan"
        )
    if answer.status >= _SERVER_ERROR:
        return service.failed(f"the service is down ({said})", "Try again later, or set search.service")
    return service.failed(f"the service refused the search ({said})", "Check search.base_url")


def words_of(answer: HttpResponse) -> str:
    """What the service itself says about a refusal."""
    try:
        found: Any = answer.json()
    except (ValueError, UnicodeDecodeError):
        return ""
    for name in ("detail", "error", "message"):
        inner = found.get(name) if isinstance(found, dict) else None
        found = inner if isinstance(inner, dict | str) else found
    if isinstance(found, dict):
        found = " ".join(str(found[name]) for name in ("code", "detail") if found.get(name))
    return str(found)[:_SAID]


async def _until_well(
    http: HttpClient, method: str, path: str, query: Mapping[str, str] | None, body: Any, deadline: float
) -> HttpResponse:
    """Our HTTP tries again by itself, but not after a plain 500; a search does no harm twice."""
    for pause in (0.5, 1.0, 0.0):
        answer = await http.request(method, path, query=query, body=body, repeatable=True, deadline=deadline)
        late = asyncio.get_running_loop().time() + pause > deadline
        if answer.status != _SERVER_ERROR or not pause or late:
            break
        await asyncio.sleep(pause)
    return answer
