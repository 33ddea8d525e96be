"""Plays a recorded model: answers what an agent asks as it was answered before, until it asks otherwise."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from segue.runtime.replay.requests import (
    LaunchPlaces,
    NormalRequest,
    RequestDifference,
    find_difference,
    normalise,
)
from segue.system.http.server import drop_connection
from segue.system.recording.exchanges import ModelExchange, Recording, change_body, change_data
from segue.system.redact import Redactor

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
