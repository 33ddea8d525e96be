"""One request to a cloud agent's API, and what its answer contains."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import datetime
from typing import Any

from segue.agents.cloud.errors import make_bad_answer, make_unreachable, read_refusal
from segue.agents.cloud.sse import SseFrame, SseParser
from segue.system.http.client import HttpClient, HttpError, HttpResponse, parse_date

_MILLISECONDS = 1e11
"""Larger numbers are no seconds since 1970: they are milliseconds."""


async def send(http: HttpClient, method: str, path: str, deadline: float, **more: Any) -> HttpResponse:
    """Send a request; raises CloudError unless it succeeds."""
    try:
        answer = await http.request(method, path, deadline=deadline, **more)
    except HttpError as error:
        raise make_unreachable(error) from None
    if not 200 <= answer.status < 300:
        raise read_refusal(answer)
    return answer


async def ask(http: HttpClient, method: str, path: str, deadline: float, **more: Any) -> Mapping[str, Any]:
    """Send a request and return the object in its answer."""
    return read_body(await send(http, method, path, deadline, **more))


async def listen(
    http: HttpClient, path: str, headers: Mapping[str, str], silence: float
) -> AsyncGenerator[SseFrame | None, None]:
    """Yield the events of a stream, after a None that says that it is open; raises CloudError."""
    parser = SseParser()
    try:
        asked = {"Accept": "text/event-stream", **headers}
        async with http.stream(path, asked, silence) as (head, pieces):
            if head.status != 200:
                raise read_refusal(head)
            yield None
            async with aclosing(pieces):
                async for piece in pieces:
                    for frame in parser.feed(piece):
                        yield frame
    except HttpError as error:
        raise make_unreachable(error) from None


def read_body(answer: HttpResponse) -> Mapping[str, Any]:
    """Return the object in an answer."""
    try:
        found = answer.json()
    except ValueError:
        raise make_bad_answer(answer, "it is not JSON") from None
    if not isinstance(found, Mapping):
        raise make_bad_answer(answer, "it is not an object")
    return found


def read_name(answer: HttpResponse, found: Mapping[str, Any], field: str, what: str) -> str:
    """Return the id of what was created; an answer without one does not say whether anything was."""
    name = found.get(field)
    if not isinstance(name, str) or not name:
        raise make_bad_answer(answer, f"no id of {what}")
    return name


def compute_age(answer: HttpResponse, created: Any) -> float | None:
    """Return the seconds since something was created, by the server's clock; ours may be wrong."""
    now, then = parse_date(answer.headers.get("date", "")), parse_time(created)
    return max(0.0, now - then) if now is not None and then is not None else None


def parse_time(text: Any) -> float | None:
    """Return a time as seconds since the epoch; None if it is invalid or has no zone."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        return text / 1000 if text > _MILLISECONDS else float(text)
    try:
        then = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return then.timestamp() if then.tzinfo else None
