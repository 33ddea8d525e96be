"""What the simulated services share: scripts, a log of requests, a guard, and how they run as commands."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from msgspec import Struct, field
from msgspec.structs import asdict
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from segue.domain.errors import UsageError
from segue.sim.script import Deck, check_script, load_script
from segue.system.http.server import run_server

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
        """Play a script from its beginning."""
        self.script = script
        self.deck: Deck[Any] = Deck(script.on)  # type: ignore[attr-defined]

    async def load(self, request: Request) -> Response:
        """Play another script from its beginning or, for `/_sim/on`, put entries before the others."""
        if refusal := refuse_web_page(request):
            return refusal
        try:
            script = check_script(await request.json(), self._kind)
        except ValueError as error:
            return JSONResponse({"error": str(error)}, 400)
        if request.url.path.endswith("/on"):
            self.deck.put_first(script.on)  # type: ignore[attr-defined]
        else:
            self.play(script)
        return JSONResponse({})

    async def serve(
        self, request: Request, answer: Callable[[LoggedRequest], Awaitable[Response]]
    ) -> Response:
        """Log a request and answer it, unless a web page may have sent it."""
        if refusal := refuse_web_page(request):
            return refusal
        logged = self.log.add(request, await request.body())
        response = await answer(logged)
        logged.status = response.status_code
        return response

    def routes(self) -> list[Route]:
        """Return the routes of the controls."""
        loads = [Route(f"/_sim/{name}", self.load, methods=["POST"]) for name in ("script", "on")]
        return [Route("/_sim/log", self.log.answer, methods=["GET", "DELETE"]), *loads]


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


def run_cloud(port: int, repos: Sequence[str], script: Path | None, report: Callable[[str], None]) -> None:
    """Serve Cursor's cloud agents; `report` gets the line with the address."""
    from segue.sim.cloud.app import cloud_app
    from segue.sim.cloud.script import CloudScript

    table = dict(_split_repo(repo) for repo in repos)
    loaded = load_script(script, CloudScript) if script else CloudScript()
    _check_bare({**loaded.repos, **table})
    _serve(cloud_app(loaded, table), port, report)


def run_sessions(
    vendor: str, port: int, repos: Sequence[str], script: Path | None, report: Callable[[str], None]
) -> None:
    """Serve the cloud agents of a vendor; `report` gets the line with the address."""
    from segue.sim.sessions.app import session_app
    from segue.sim.sessions.script import SessionScript
    from segue.sim.sessions.vendors import load_vendor

    table = dict(_split_repo(repo) for repo in repos)
    loaded = load_script(script, SessionScript) if script else SessionScript()
    _check_bare({**loaded.repos, **table})
    _serve(session_app(load_vendor(vendor), loaded, table), port, report)


def run_github(
    port: int,
    repos: Sequence[str],
    script: Path | None,
    unix: Path | None,
    report: Callable[[str], None],
) -> None:
    """Serve GitHub's API; `report` gets the line with the address."""
    from segue.sim.github.app import github_app
    from segue.sim.github.script import GithubScript

    table = dict(_split_repo(repo) for repo in repos)
    loaded = load_script(script, GithubScript) if script else GithubScript()
    named = {name: repo.bare for name, repo in loaded.repos.items() if repo.bare is not None}
    _check_bare({**named, **table})
    run_server(github_app(loaded, table), port, lambda url: report(f"listening on {url}"), unix)


def run_gitlab(port: int, repos: Sequence[str], script: Path | None, report: Callable[[str], None]) -> None:
    """Serve GitLab's API; `report` gets the line with the address."""
    from segue.sim.gitlab.app import gitlab_app
    from segue.sim.gitlab.script import GitlabScript

    table = dict(_split_repo(repo) for repo in repos)
    loaded = load_script(script, GitlabScript) if script else GitlabScript()
    _check_bare({**loaded.projects, **table})
    _serve(gitlab_app(loaded, table), port, report)


def run_llm(port: int, script: Path | None, report: Callable[[str], None]) -> None:
    """Serve language models; `report` gets the line with the address."""
    from segue.sim.llm.app import llm_app
    from segue.sim.llm.script import LlmScript

    _serve(llm_app(load_script(script, LlmScript) if script else None), port, report)


def run_search(port: int, script: Path | None, report: Callable[[str], None]) -> None:
    """Serve web searches; `report` gets the line with the address."""
    from segue.sim.search.app import SearchScript, search_app

    _serve(search_app(load_script(script, SearchScript) if script else None), port, report)


def run_slack(port: int, script: Path | None, report: Callable[[str], None]) -> None:
    """Serve a channel of Slack; `report` gets the line with the address."""
    from segue.sim.chat.slack import SlackScript, slack_app

    _serve(slack_app(load_script(script, SlackScript) if script else None), port, report)


def run_ntfy(port: int, script: Path | None, report: Callable[[str], None]) -> None:
    """Serve ntfy; `report` gets the line with the address."""
    from segue.sim.chat.ntfy import NtfyScript, ntfy_app

    _serve(ntfy_app(load_script(script, NtfyScript) if script else None), port, report)


def _serve(app: Starlette, port: int, report: Callable[[str], None]) -> None:
    run_server(app, port, lambda url: report(f"listening on {url}"))


def _check_bare(repos: Mapping[str, Path]) -> None:
    for url, bare in repos.items():
        if not (bare / "objects").is_dir():
            raise UsageError(
                f"{url}: {bare} is not a bare git repository.",
                hint=f"Create one with: git init --bare {bare}",
            )


def _split_repo(repo: str) -> tuple[str, Path]:
    url, found, path = repo.partition("=")
    if not found or not url or not path:
        raise UsageError(
            f"--repo {repo} is not of the form URL=PATH.", hint="--repo https://github.com/me/app=app.git"
        )
    return url, Path(path).absolute()
