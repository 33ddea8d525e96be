"""Remembers every request a simulator has seen, and turns away those that a web page may have sent."""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

_KEPT_BODY = 1024 * 1024
_HEADERS = (
    "idempotency-key",
    "last-event-id",
    "accept",
    "content-type",
    "user-agent",
    "x-cursor-client-type",
)
"""Headers worth keeping. Never the key."""


@dataclass(slots=True)
class Seen:
    """One request. `status` is 0 while there is no answer, and stays so when the connection was cut."""

    n: int
    method: str
    path: str
    query: dict[str, str]
    auth: str
    headers: dict[str, str]
    body: Any
    status: int = 0
    fault: str = ""
    at: float = field(default_factory=time.time)
    """When it came in, in seconds since the epoch."""


@dataclass(slots=True)
class RequestLog:
    """All requests, oldest first."""

    seen: list[Seen] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def add(self, request: Request, body: bytes) -> Seen:
        """Note a request."""
        scheme = request.headers.get("authorization", "").partition(" ")[0]
        seen = Seen(
            next(self._numbers),
            request.method,
            request.url.path,
            dict(request.query_params),
            scheme or ("x-api-key" if "x-api-key" in request.headers else ""),
            {name: request.headers[name] for name in _HEADERS if name in request.headers},
            _kept(body),
        )
        self.seen.append(seen)
        return seen

    async def answer(self, request: Request) -> Response:
        """`GET /_sim/log`, with `method` and `path` as filters; DELETE forgets everything."""
        if request.method == "DELETE":
            self.seen.clear()
        wanted = {
            name: request.query_params[name] for name in ("method", "path") if name in request.query_params
        }
        found = [s for s in self.seen if all(getattr(s, name) == value for name, value in wanted.items())]
        return JSONResponse({"requests": [asdict(seen) for seen in found]})


def from_a_web_page(request: Request) -> bool:
    """Whether a browser may have been talked into sending this: a foreign host, or a form."""
    if request.url.hostname not in ("127.0.0.1", "localhost"):
        return True
    if request.url.path.startswith("/_sim") and request.method == "POST":
        return not request.headers.get("content-type", "").startswith("application/json")
    return False


def _kept(body: bytes) -> Any:
    if not body or len(body) > _KEPT_BODY:
        return None if not body else f"{len(body)} bytes"
    try:
        return json.loads(body)
    except ValueError:
        return body.decode("utf-8", "replace")
