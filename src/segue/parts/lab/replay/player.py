"""Plays a recorded model: answers what an agent asks as it was answered before, until it asks otherwise.

What legitimately varies is put out of the way first: ids, dates, times, durations, the agent's own places,
marks for the vendor's cache. What is left must be the same.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import PurePath
from typing import Any

from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from segue.system.http.server import drop_connection
from segue.system.recording.exchanges import ModelExchange, Recording, change_body, change_data
from segue.system.redact import Redactor

_LEFT_OUT = frozenset(
    {"metadata", "client_metadata", "prompt_cache_key", "safety_identifier", "cache_control"}
)
"""Parts of a request that say who asks, or what to cache: nothing of the work."""
_DAYS = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*"
_MONTHS = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_UUID = re.compile(
    r"(?<![0-9a-z])[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?![0-9a-z])", re.IGNORECASE
)
_PLAN = re.compile(r"\bplans/[a-z]+(?:-[a-z]+)+\.md\b")
_VARYING = (
    (re.compile(r"x-anthropic-billing-header:[^\n]*"), "<billing>"),
    (re.compile(r"\bChunk ID: [0-9a-f]+"), "Chunk ID: <id>"),
    (re.compile(r"\bsession ID \d+"), "session ID <id>"),
    (
        re.compile(
            r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?)?(?: ?Z\b| ?[+-]\d{2}:?\d{2}\b)?"
        ),
        "<date>",
    ),
    (re.compile(rf"\b(?:{_DAYS},? )?{_MONTHS} {{1,2}}\d{{1,2}}(?:,? \d{{4}}\b)?"), "<date>"),
    (re.compile(rf"\b(?:{_DAYS},? )?\d{{1,2}} {_MONTHS} \d{{4}}\b"), "<date>"),
    (
        re.compile(r"\b\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?[AP]M\b)?(?: (?:UTC|GMT|[A-Z]{3,4}T)\b)?"),
        "<time>",
    ),
    (re.compile(r"(?<=<date>)(?: (?:<time>|\d{4}\b))+"), ""),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|µs|s|sec|secs|seconds?|minutes?)\b"), "<duration>"),
)
"""What differs from one launch to the next, and what takes its place."""
_WIDTH = 160
_MOST_LINES = 80


class LaunchPlaces(Struct, frozen=True):
    """Folders of a launch by their names: `repo` for its work tree, `run` for what Segue keeps."""

    folders: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, **folders: str | Sequence[str]) -> LaunchPlaces:
        """Return the places; one name may stand for several folders."""
        pairs = [
            (folder, name)
            for name, given in folders.items()
            for folder in ([given] if isinstance(given, str) else given)
            if len(PurePath(folder).parts) > 1
        ]
        # The longest first: one may be inside of another.
        return cls(tuple(sorted(dict.fromkeys(pairs), key=lambda pair: -len(pair[0]))))

    def hide(self, text: str) -> str:
        """Replace the folders by their names, also where an agent makes a file name of them."""
        for folder, name in self.folders:
            text = re.sub(rf"{re.escape(folder)}(?![\w-])", f"<{name}>", text)
            text = re.sub(rf"{re.escape(slug(folder))}(?![A-Za-z0-9])", f"<{name}>", text)
        return text


def slug(folder: str) -> str:
    """Return a folder as Claude Code writes it in a file name."""
    return re.sub(r"[^A-Za-z0-9]", "-", folder)


class NormalRequest(Struct, frozen=True):
    """A request without what varies, and the ids that were in it, in their order."""

    value: Any
    ids: tuple[str, ...] = ()


def normalise(request: Any, places: LaunchPlaces) -> NormalRequest:
    """Return a request without what varies."""
    ids: list[str] = []

    def note(found: re.Match[str]) -> str:
        ids.append(found[0])
        return "<id>" if found.re is _UUID else "plans/<plan>.md"

    def change(text: str) -> str:
        text = _PLAN.sub(note, _UUID.sub(note, places.hide(text)))
        for pattern, instead in _VARYING:
            text = pattern.sub(instead, text)
        return text

    return NormalRequest(change_data(_reduce(request), change), tuple(ids))


def _reduce(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _reduce(item) for key, item in value.items() if key not in _LEFT_OUT}
    if isinstance(value, list):
        return [_reduce(item) for item in value]
    return value


class RequestDifference(Struct, frozen=True):
    """The first part of a request that differs, and how."""

    place: str
    """Such as `messages[2]` or `tools: Bash`."""
    diff: tuple[str, ...]


def find_difference(recorded: Any, now: Any) -> RequestDifference | None:
    """Return the first difference between two requests that were normalised; None: they are the same."""
    if recorded == now:
        return None
    place, old, new = _narrow("", recorded, now)
    return RequestDifference(place or "request", tuple(_diff(old, new)))


def _narrow(place: str, old: Any, new: Any) -> tuple[str, Any, Any]:
    """Return the smallest part that still makes sense to a reader: a message, a tool, a setting."""
    if isinstance(old, dict) and isinstance(new, dict) and not place:
        for key in dict.fromkeys((*old, *new)):
            if key not in old or key not in new:
                return key, old.get(key), new.get(key)
            if old[key] != new[key]:
                return _narrow(key, old[key], new[key])
    if isinstance(old, list) and isinstance(new, list) and "[" not in place:
        for number in range(max(len(old), len(new))):
            one, other = (many[number] if number < len(many) else None for many in (old, new))
            if one != other:
                return _name(place, number, one, other), one, other
    return place, old, new


def _name(place: str, number: int, *items: Any) -> str:
    for item in items:
        if place == "tools" and isinstance(item, dict) and isinstance(item.get("name"), str):
            return f"{place}[{number}] ({item['name']})"
    return f"{place}[{number}]"


def _diff(old: Any, new: Any) -> Iterator[str]:
    lines = list(
        difflib.unified_diff(list(_lines(old)), list(_lines(new)), "recorded", "now", lineterm="", n=2)
    )
    yield from lines[:_MOST_LINES]
    if len(lines) > _MOST_LINES:
        yield f"[{len(lines) - _MOST_LINES} more lines differ]"


def _lines(value: Any, name: str = "") -> Iterator[str]:
    """Yield data as lines that people can read: texts as they are, long ones in pieces."""
    head = f"{name}: " if name else ""
    match value:
        case None:
            return
        case dict():
            for key, item in value.items():
                yield from _lines(item, f"{name}.{key}" if name else str(key))
        case list():
            for number, item in enumerate(value):
                yield from _lines(item, f"{name}[{number}]")
        case str() if "\n" in value or len(value) > _WIDTH:
            yield head.rstrip()
            for line in value.splitlines():
                yield from (f"  {line[at : at + _WIDTH]}" for at in range(0, len(line) or 1, _WIDTH))
        case str():
            yield f"{head}{value}"
        case _:
            yield f"{head}{json.dumps(value)}"


_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]


class OtherRequest(Struct, frozen=True):
    """The first request that was not recorded like this."""

    number: int
    """Of the recorded request, from 1."""
    of: int
    """How many were recorded."""
    found: RequestDifference | None = None
    """None: there was no request to compare it with, or none came."""
    extra: bool = False
    """Whether more was asked than is recorded."""


class RecordedModel:
    """The model of one recorded launch."""

    def __init__(
        self,
        recording: Recording,
        recorded: LaunchPlaces,
        now: LaunchPlaces,
        instead: Mapping[str, str],
        redactor: Redactor,
    ) -> None:
        """`instead` says which folder takes the place of a recorded one in the answers."""
        self._exchanges, self._redactor = recording.exchanges, redactor
        self._recorded, self._now = recorded, now
        self._instead = dict(sorted(instead.items(), key=lambda pair: -len(pair[0])))
        self._left = [number for number, one in enumerate(self._exchanges) if _asks(one)]
        self.difference: OtherRequest | None = None
        self.differs = asyncio.Event()

    @cached_property
    def _normal(self) -> list[NormalRequest]:
        return [normalise(one.request, self._recorded) for one in self._exchanges]

    @property
    def asked(self) -> int:
        """How many recorded requests there are that ask something."""
        return sum(map(_asks, self._exchanges))

    def app(self, secret: str) -> Starlette:
        """Build the app that answers below a secret path."""

        async def answer(request: Request) -> Response:
            query = f"?{request.url.query}" if request.url.query else ""
            path = request.url.path.removeprefix(f"/{secret}") + query
            return self._respond(request, self.play(request.method, path, await request.body()))

        return Starlette(routes=[Route(f"/{secret}{{rest:path}}", answer, methods=_METHODS)])

    def play(self, method: str, path: str, body: bytes) -> ModelExchange | None:
        """Return the recorded exchange that a request belongs to; None: there is none."""
        if method != "POST":
            same = (one for one in self._exchanges if (one.method, one.path) == (method, path))
            return next(same, None)
        if self.difference is not None:
            return None
        asked = normalise(change_data(_parse(body), self._redactor.text), self._now)
        for number in self._left:
            if self._exchanges[number].path == path and self._normal[number].value == asked.value:
                self._left.remove(number)
                pairs = zip(self._normal[number].ids, asked.ids, strict=False)
                self._instead |= {old: new for old, new in pairs if old != new}
                return self._exchanges[number]
        self._differ(path, asked)
        return None

    def finish(self) -> OtherRequest | None:
        """Return the difference, once the agent has ended: what was recorded must have been asked."""
        if self.difference is None and self._left:
            self.difference = OtherRequest(self._count(self._left[0]), self.asked)
        return self.difference

    def _differ(self, path: str, asked: NormalRequest) -> None:
        alike = [number for number in self._left if self._exchanges[number].path == path] or self._left
        if alike:
            found = find_difference(self._normal[alike[0]].value, asked.value)
            self.difference = OtherRequest(self._count(alike[0]), self.asked, found)
        else:
            last = self._normal[-1].value if self._normal else None
            found = find_difference(last, asked.value)
            self.difference = OtherRequest(self.asked + 1, self.asked, found, extra=True)
        self.differs.set()

    def _count(self, number: int) -> int:
        return 1 + sum(map(_asks, self._exchanges[:number]))

    def _respond(self, request: Request, found: ModelExchange | None) -> Response:
        if found is None:
            message = "This was not recorded: the replay ends here."
            return JSONResponse(
                {"type": "error", "error": {"type": "invalid_request", "message": message}}, 400
            )
        body = change_body(found.body, self._translate).encode() if found.body else b""
        headers = dict(found.headers)
        if "retry-after" in headers:
            headers["retry-after"] = "0"  # the wait was real once; repeating it shows nothing
        if found.whole and found.status:
            return Response(body, found.status, headers)
        return StreamingResponse(_cut(request, body), found.status or 502, headers)

    def _translate(self, text: str) -> str:
        for old, new in self._instead.items():
            text = text.replace(old, new)
        return text


async def _cut(request: Request, body: bytes) -> AsyncIterator[bytes]:
    """Send what came before the connection broke, and break it again."""
    if body:
        yield body
    await drop_connection(request.scope, request.receive, reset=False)


def _asks(one: ModelExchange) -> bool:
    return one.method == "POST"


def _parse(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body.decode("utf-8", "replace")
