"""What the simulated services share: scripts, faults of requests and who counts them, a log, and a guard."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import Struct, field
from msgspec.structs import asdict
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from segue.domain.options import NonNegative, Options
from segue.sim.script import Deck, check_script


class RequestFault(Options, frozen=True):
    """A fault of requests; each service adds its own details."""

    known: ClassVar[Mapping[str, str]]
    """The faults of the service, each with its meaning."""

    fault: str
    """what goes wrong"""
    on: str = "*"
    """the requests, as `POST /v1/agents`; `*` stands for one part of a path, or alone for all"""
    after: NonNegative = 0
    """how many matching requests pass before"""
    times: NonNegative = 1
    """how many requests it spoils; 0: all"""

    def __post_init__(self) -> None:
        check_faults([self.fault], self.known)

    def matches(self, method: str, path: str) -> bool:
        """Return whether a request may have the fault."""
        wanted, _, where = self.on.partition(" ")
        parts = "[^/]*".join(re.escape(part) for part in where.split("*"))
        return wanted in ("", "*", method) and (where in ("", "*") or re.fullmatch(parts, path) is not None)


F = TypeVar("F", bound=RequestFault)


class FaultCounter(Struct, Generic[F]):
    """The faults of requests, and how many matching requests each has seen."""

    faults: list[F]
    _seen: dict[int, int] = field(default_factory=dict)

    def pick(self, method: str, path: str) -> F | None:
        """Count the request for every fault that matches it, and return the first fault that is due."""
        chosen: F | None = None
        for index, fault in enumerate(self.faults):
            if not fault.matches(method, path):
                continue
            seen = self._seen[index] = self._seen.get(index, 0) + 1
            is_due = seen > fault.after and (not fault.times or seen <= fault.after + fault.times)
            chosen = fault if chosen is None and is_due else chosen
        return chosen


def check_faults(names: Iterable[str], known: Mapping[str, str]) -> None:
    """Raise ValueError for a fault that does not exist."""
    for name in names:
        if name not in known:
            raise ValueError(f"there is no fault {name!r}; there are {', '.join(known)}")


S = TypeVar("S")

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


class LoggedRequest(Struct):
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


class RequestLog(Struct):
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


class ScriptPlayer(Generic[S]):
    """Plays the script of one service, logs its requests, and has the controls under `/_sim/`."""

    def __init__(self, kind: type[S], script: S | None) -> None:
        self._kind = kind
        self.log = RequestLog()
        self.play(kind() if script is None else script)

    def play(self, script: S) -> None:
        """Play a script from its beginning; what is there stays."""
        self.script = script
        self.deck: Deck[Any] = Deck(getattr(script, "on", ()))
        self.faults: FaultCounter[Any] = FaultCounter(list(getattr(script, "faults", ())))

    async def serve(
        self, request: Request, answer: Callable[[LoggedRequest], Awaitable[Response]]
    ) -> Response:
        """Log a request and answer it."""
        logged = self.log.add(request, await request.body())
        response = await answer(logged)
        logged.status = response.status_code
        return response

    def routes(self) -> list[Route]:
        """Return the routes of the log, and of what takes a script, or the part of one, under its name."""
        parts = [name for name in ("on", "faults") if hasattr(self.script, name)]
        loads = [Route(f"/_sim/{name}", self._take, methods=["POST"]) for name in ("script", *parts)]
        return [Route("/_sim/log", self.log.answer, methods=["GET", "DELETE"]), *loads]

    async def _take(self, request: Request) -> Response:
        name = request.url.path.rpartition("/")[2]
        try:
            sent = await request.json()
            is_part = name == "faults" and isinstance(sent, list)
            script: Any = check_script({name: sent} if is_part else sent, self._kind)
        except ValueError as error:
            return JSONResponse({"error": str(error)}, 400)
        match name:
            case "on":
                self.deck.put_first(script.on)
            case "faults":
                self.faults.faults.extend(script.faults)
            case _:
                self.play(script)
        return JSONResponse({})


class LocalOnly:
    """Middleware that refuses what a web page may have made a browser send: a foreign host, or a form."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        # Only this machine's programs reach a Unix socket, and they name any host.
        is_reachable = scope["type"] == "http" and scope.get("client") is not None
        if is_reachable and _may_be_from_web_page(Request(scope)):
            await Response("only for programs on this machine", 403)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


BAD_GATEWAY = "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
"""What a proxy says when there is no answer from the service."""

LOCAL_ONLY = Middleware(LocalOnly)
"""The outermost middleware of every simulated service."""


def _may_be_from_web_page(request: Request) -> bool:
    is_form = (
        request.url.path.startswith("/_sim")
        and request.method == "POST"
        and not request.headers.get("content-type", "").startswith("application/json")
    )
    return is_form or request.url.hostname not in ("127.0.0.1", "localhost")


def _parse_body(body: bytes) -> Any:
    if not body or len(body) > _MAX_BODY:
        return None if not body else f"{len(body)} bytes"
    try:
        return json.loads(body)
    except ValueError:
        return body.decode("utf-8", "replace")
