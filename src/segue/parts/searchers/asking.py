"""Asks a search service over HTTP: retries within limits, explains failures, and reads what it found."""

from __future__ import annotations

import asyncio
import html
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from segue.domain.errors import CredentialsError, SearchFailed
from segue.domain.verdict import Hit
from segue.parts.searchers.options import SearchSettings
from segue.system.http.client import HttpClient, HttpError, HttpPolicy, HttpResponse
from segue.system.redact import Redactor
from segue.system.services import Services

KEPT = "the work so far; the task can be tried again without a search"

_MAX_BYTES = 4 * 1024 * 1024
_LONGEST_QUERY = 400
"""Characters that Brave and Tavily accept."""

_TITLE, _TEXT, _URL = 300, 1500, 2000
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")
_SAID = 300
_SERVER_ERROR = 500


class Service(Struct, frozen=True):
    """The address, headers and options of one service."""

    name: str
    base_url: str
    headers: Mapping[str, str]
    options: SearchSettings
    clean: Callable[[str], str]
    """Removes secrets from a text, including the service's key: some quote the key they reject."""

    def failed(self, message: str, hint: str) -> SearchFailed:
        """Return the error for a search without an answer."""
        return SearchFailed(self.clean(f"{self.name}: {message}"), kept=KEPT, hint=hint)


def open_keyed(
    name: str,
    address: str,
    usual_key: str,
    headers: Callable[[str], dict[str, str]],
    options: SearchSettings,
    services: Services,
) -> Service:
    """Return a service that wants a key; raises CredentialsError when there is none."""
    variable = options.api_key_env or usual_key
    key = os.environ.get(variable, "").strip()
    if not key:
        raise CredentialsError(
            f"The key of the search service {name}, {variable}, is not set.",
            hint=f"export {variable}=…, or set search.api_key_env",
        )
    own, redactor = Redactor([key]), services.redactor
    clean = lambda text: own.text(redactor.text(text))  # noqa: E731
    return Service(name, options.base_url or address, headers(key), options, clean)


def clean_query(service: Service, query: str) -> str:
    """Return the query on one line, without secrets, no longer than services accept."""
    clean = service.clean(query).encode("utf-8", "replace").decode()
    words = " ".join("".join(c if c.isprintable() else " " for c in clean).split())[:_LONGEST_QUERY].strip()
    if not words:
        raise service.failed("the query is empty", "Ask for something")
    return words


async def ask(
    service: Service, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Any = None
) -> HttpResponse:
    """Return the service's answer, after retries if it is busy; raises SearchFailed if it takes too long."""
    options = service.options
    policy = HttpPolicy(timeout=options.timeout, max_bytes=_MAX_BYTES, attempts=4, pause=0.5)
    deadline = asyncio.get_running_loop().time() + options.max_wait + options.timeout
    try:
        headers = {"accept": "application/json", **service.headers}
        async with HttpClient(service.base_url, headers, policy) as http:
            return await _retry(http, method, path, query, body, deadline)
    except HttpError as error:
        raise service.failed(
            f"no answer ({error})",
            "Check search.base_url and the network; raise search.timeout if the service is slow",
        ) from None


def document(service: Service, answer: HttpResponse) -> dict[str, Any]:
    """Return the answer as a JSON object; raises SearchFailed for anything else."""
    if answer.status != 200:
        raise refusal(service, answer)
    try:
        found = answer.json()
    except (ValueError, UnicodeDecodeError):
        found = None
    if not isinstance(found, dict):
        raise service.failed(
            f"the answer is not a JSON object ({answer.body[:60].decode('utf-8', 'replace')!r})",
            "Check that search.base_url is the address of the service itself",
        )
    return found


def refusal(service: Service, answer: HttpResponse) -> SearchFailed:
    """Return the error for a status, in words for people."""
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
    """Return the service's own error message."""
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


async def _retry(
    http: HttpClient, method: str, path: str, query: Mapping[str, str] | None, body: Any, deadline: float
) -> HttpResponse:
    """Retry after a plain 500 too, which our HTTP client does not: repeating a search is harmless."""
    for pause in (0.5, 1.0, 0.0):
        answer = await http.request(method, path, query=query, body=body, repeatable=True, deadline=deadline)
        late = asyncio.get_running_loop().time() + pause > deadline
        if answer.status != _SERVER_ERROR or not pause or late:
            break
        await asyncio.sleep(pause)
    return answer


def hits(items: Any, fields: tuple[str, str, str], most: int) -> list[Hit]:
    """Return the first well-formed hits among the items; `fields` name title, address and text."""
    found: dict[str, Hit] = {}
    for item in items if isinstance(items, list) else []:
        hit = _hit(item, fields) if isinstance(item, Mapping) else None
        if hit is not None:
            found.setdefault(hit.url, hit)
        if len(found) == most:
            break
    return list(found.values())


def _hit(item: Mapping[str, Any], fields: tuple[str, str, str]) -> Hit | None:
    title, url, text = (item.get(name) for name in fields)
    if not isinstance(url, str) or not url.startswith(("http://", "https://")) or len(url) > _URL:
        return None
    if not url.isprintable() or " " in url:
        return None
    return Hit(_plain(title, _TITLE) or url, url, _plain(text, _TEXT))


def _plain(value: Any, most: int) -> str:
    """Return text without markup and control characters, on one line, cut at a word."""
    given = value[: most * 8] if isinstance(value, str) else ""
    text = html.unescape(_TAG.sub("", given)).encode("utf-8", "replace").decode()
    flat = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return flat if len(flat) <= most else flat[:most].rpartition(" ")[0] + " …"
