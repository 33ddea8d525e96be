"""What the simulated services share: a log of requests, and a guard against requests of web pages."""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

_MAX_BODY = 1024 * 1024
_HEADERS = (
    "idempotency-key",
    "last-event-id",
    "accept",
    "content-type",
    "user-agent",
    "x-cursor-client-type",
)
"""Headers that are logged. Never the key."""


@dataclass(slots=True)
class LoggedRequest:
    """One request. `status` is 0 until it is answered, and stays 0 if the connection was cut."""

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

    requests: list[LoggedRequest] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def add(self, request: Request, body: bytes) -> LoggedRequest:
        """Log a request."""
        scheme = request.headers.get("authorization", "").partition(" ")[0]
        logged = LoggedRequest(
            next(self._numbers),
            request.method,
            request.url.path,
            dict(request.query_params),
            scheme or ("x-api-key" if "x-api-key" in request.headers else ""),
            {name: request.headers[name] for name in _HEADERS if name in request.headers},
            _parse_body(body),
        )
        self.requests.append(logged)
        return logged

    async def answer(self, request: Request) -> Response:
        """Answer `GET /_sim/log`, with `method` and `path` as filters; DELETE clears the log."""
        if request.method == "DELETE":
            self.requests.clear()
        wanted = {
            name: request.query_params[name] for name in ("method", "path") if name in request.query_params
        }
        found = [
            asdict(logged)
            for logged in self.requests
            if all(getattr(logged, name) == value for name, value in wanted.items())
        ]
        return JSONResponse({"requests": found})


def refuse_web_page(request: Request) -> Response | None:
    """Refuse what a web page may have made a browser send: a foreign host, or a form."""
    form = (
        request.url.path.startswith("/_sim")
        and request.method == "POST"
        and not request.headers.get("content-type", "").startswith("application/json")
    )
    if form or request.url.hostname not in ("127.0.0.1", "localhost"):
        return Response("only for programs on this machine", 403)
    return None


def _parse_body(body: bytes) -> Any:
    if not body or len(body) > _MAX_BODY:
        return None if not body else f"{len(body)} bytes"
    try:
        return json.loads(body)
    except ValueError:
        return body.decode("utf-8", "replace")
