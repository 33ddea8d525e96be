"""The GitHub simulator as an app: both APIs, a gate for every request, and the controls under `/_sim/`."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Match, Route

from segue.parts.sim.github import account, ci, issues, pulls, relations
from segue.parts.sim.github.answers import Exchange, GithubCaller, GithubRefusal, Handler, parse_body
from segue.parts.sim.github.graphql import answer_graphql
from segue.parts.sim.github.hub import Hub, HubRepo
from segue.parts.sim.github.limits import GithubLimits, refuse_primary, refuse_secondary
from segue.parts.sim.github.script import GithubFault, GithubScript
from segue.parts.sim.github.shown import Presenter
from segue.sim.services import BAD_GATEWAY, LOCAL_ONLY
from segue.system.http.guard import Receive, Scope, Send, replay
from segue.system.http.server import drop_connection

_VERSIONS = ("2022-11-28", "2026-03-10")
_DATED = "2026-03-10"
_FREE = frozenset({"/rate_limit"})
_API_ROUTES: list[tuple[str, str, Handler]] = [
    *account.ROUTES,
    *issues.ROUTES,
    *relations.ROUTES,
    *pulls.ROUTES,
    *ci.ROUTES,
    ("POST", "/graphql", answer_graphql),
]


class GithubApp:
    """Serves requests as github.com does, or as an enterprise server does under `/api`."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.limits = GithubLimits()
        self._routes = [
            (Route(path, _nothing, methods=[method]), method, handler)
            for method, path, handler in _API_ROUTES
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request = Request(scope, receive)
        body = await request.body()
        path, prefix = _split_prefix(request.url.path)
        scope["segue.path"] = path
        logged = self.hub.log.add(request, body)
        logged.path = path
        fault = self.hub.faults.pick(request.method, path)
        logged.fault = fault.fault if fault else ""
        if fault is not None:
            await asyncio.sleep(fault.delay)
        if fault is not None and fault.fault == "reset":
            await drop_connection(scope, receive, reset=True)
            return
        response = await self._answer(request, path, prefix, body, fault)
        logged.status = response.status_code
        if fault is not None and fault.fault == "reset_after":
            await drop_connection(scope, receive, reset=True)
            return
        await response(scope, replay(body, receive), send)

    async def _answer(
        self, request: Request, path: str, prefix: str, body: bytes, fault: GithubFault | None
    ) -> Response:
        token = _read_token(request.headers.get("authorization", ""))
        resource = "search" if path.startswith("/search/") else "core"
        if path == "/graphql":
            resource = "graphql"
        script = self.hub.script
        try:
            caller = self._find_caller(token)
            limits = self.limits.headers(script, token, resource)
            _spoil(fault, caller.login, limits)
            dated = _check_version(request)
            if path not in _FREE:
                self.limits.count(script, token, caller.login, resource)
            if request.method == "POST" and path != "/graphql":
                self.limits.count_write(script, token)
            request.scope["segue.limits"] = self.limits.headers(script, token, resource)
            show = Presenter(self.hub, *_addresses(request, prefix), dated)
            response = await self._route(request, path, caller, show, body)
        except GithubRefusal as refusal:
            response = refusal.response()
        except _BadGateway:
            return HTMLResponse(BAD_GATEWAY, 502)
        response = self._cache(request, response, token, resource)
        for name, value in self.limits.headers(script, token, resource).items():
            response.headers.setdefault(name, value)
        response.headers["x-github-request-id"] = str(uuid.uuid4()).upper()
        response.headers["x-github-api-version-selected"] = _DATED if _is_dated(request) else _VERSIONS[0]
        response.headers.setdefault("x-oauth-scopes", "repo, read:org, workflow")
        return response

    def _find_caller(self, token: str) -> GithubCaller:
        known = self.hub.script.tokens
        if not token:
            raise GithubRefusal(401, "Requires authentication")
        if known and token not in known:
            raise GithubRefusal(401, "Bad credentials")
        if not known:
            return GithubCaller("octocat", None, None)
        return GithubCaller(known[token].login, known[token].permissions, known[token].repos)

    async def _route(
        self, request: Request, path: str, caller: GithubCaller, show: Presenter, body: bytes
    ) -> Response:
        path = self._name_repo(path)
        scope = {**request.scope, "path": path, "root_path": ""}
        for route, method, handler in self._routes:
            found, child = route.matches(scope)
            if found is Match.FULL and request.method == method:
                request.scope["path_params"] = child["path_params"]
                return await handler(Exchange(self.hub, request, caller, show, parse_body(body)))
        raise GithubRefusal(404, "Not Found")

    def _name_repo(self, path: str) -> str:
        """Return a path with a repository's name instead of its id, by which pages are linked."""
        found = re.match(r"/repositories/(\d+)(/.*|$)", path)
        if found is None:
            return path
        repo = next((known for known in self.hub.repos.values() if str(known.id) == found[1]), None)
        if repo is None:
            raise GithubRefusal(404, "Not Found")
        return f"/repos/{repo.full_name}{found[2]}"

    def _cache(self, request: Request, response: Response, token: str, resource: str) -> Response:
        """Add an ETag; answer 304, which costs nothing, when the client has it already."""
        if request.method != "GET" or response.status_code != 200:
            return response
        tag = f'W/"{hashlib.sha256(bytes(response.body)).hexdigest()}"'
        given = request.headers.get("if-none-match", "")
        if tag.removeprefix("W/") in given:
            self.limits.refund(self.hub.script, token, resource)
            response = Response(status_code=304)
        response.headers["etag"] = tag
        response.headers["cache-control"] = "private, max-age=60, s-maxage=60"
        response.headers["vary"] = "Accept, Authorization, Cookie, X-GitHub-OTP"
        return response


class _BadGateway(Exception):
    """The fault `bad_gateway`."""


def _spoil(fault: GithubFault | None, login: str, limits: dict[str, str]) -> None:
    """Answer as the fault says instead of the API."""
    match fault.fault if fault else None:
        case "primary_limit":
            assert fault is not None
            limits["x-ratelimit-reset"] = str(int(time.time()) + fault.retry_after)
            raise refuse_primary(login, limits)
        case "secondary_limit":
            assert fault is not None
            raise refuse_secondary(fault.retry_after)
        case "bad_gateway":
            raise _BadGateway
        case "unauthorized":
            raise GithubRefusal(401, "Bad credentials")
        case "forbidden":
            raise GithubRefusal(403, "Resource not accessible by personal access token")
        case "not_found":
            raise GithubRefusal(404, "Not Found")


def _is_dated(request: Request) -> bool:
    return request.headers.get("x-github-api-version") == _DATED


def _check_version(request: Request) -> bool:
    """Return whether the newest version is asked for; refuse one that does not exist."""
    version = request.headers.get("x-github-api-version", _VERSIONS[0])
    if version not in _VERSIONS:
        supported = ", ".join(_VERSIONS)
        raise GithubRefusal(400, f"{version} is not a supported version. Supported: {supported}.")
    return version == _DATED


def _split_prefix(path: str) -> tuple[str, str]:
    """Return the path without the prefix of an enterprise server, and that prefix."""
    if path in ("/api/v3", "/api/graphql"):
        return ("/graphql" if path.endswith("graphql") else "/"), "/api/v3"
    return (path.removeprefix("/api/v3"), "/api/v3") if path.startswith("/api/v3/") else (path, "")


def _addresses(request: Request, prefix: str) -> tuple[str, str]:
    """Return where the API and the pages for people are, from the host the client names."""
    host = request.headers.get("host", "api.github.com")
    scheme = "http" if request.client is not None else "https"
    web = host.removeprefix("api.")
    return f"{scheme}://{host}{prefix}", f"{scheme}://{web}"


def _read_token(header: str) -> str:
    scheme, _, value = header.partition(" ")
    return value.strip() if scheme.lower() in ("bearer", "token") else ""


async def _nothing(_request: Request) -> Response:
    return Response()


def github_app(script: GithubScript | None = None, repos: Mapping[str, Path] | None = None) -> Starlette:
    """Build the app; `repos` maps `OWNER/NAME` to bare repositories."""
    hub = Hub(script, repos)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await hub.close()

    api = GithubApp(hub)
    controls = [
        Route(path, partial(_control, hub, handler), methods=[method]) for method, path, handler in _CONTROLS
    ]
    app = Starlette(
        routes=[
            *controls,
            *hub.routes(),
            Route("/_log/{token}", partial(_show_log, hub)),
        ],
        middleware=[LOCAL_ONLY],
        exception_handlers={GithubRefusal: _refuse, HTTPException: _refuse_path},
        lifespan=lifespan,
    )
    app.router.default = api  # everything that is no control is the API
    return app


async def _refuse(_request: Request, error: Exception) -> Response:
    assert isinstance(error, GithubRefusal)
    return error.response()


async def _refuse_path(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return GithubRefusal(error.status_code, error.detail).response()


async def _show_log(hub: Hub, request: Request) -> Response:
    """Serve a log from the host that logs are redirected to; it refuses tokens, which it does not know."""
    if request.headers.get("authorization"):
        return Response("<Error><Code>InvalidAuthenticationInfo</Code></Error>", 403)
    found = hub.links.get(request.path_params["token"])
    if found is None or found.expires <= time.time():
        return Response("<Error><Code>AuthenticationFailed</Code></Error>", 403)
    return Response(found.data, media_type=found.kind)


Control = Callable[[Hub, Request], Awaitable[Any]]


async def _control(hub: Hub, handler: Control, request: Request) -> Response:
    """Do what a test asks for."""
    try:
        return JSONResponse(await handler(hub, request))
    except (KeyError, ValueError) as error:
        return JSONResponse({"error": str(error)}, 400)


def _repo(hub: Hub, request: Request) -> HubRepo:
    path = request.path_params
    repo = hub.repos.get(f"{path['owner']}/{path['repo']}".lower())
    if repo is None:
        raise GithubRefusal(404, "Not Found")
    return repo


async def _add_run(hub: Hub, request: Request) -> Any:
    """Add a workflow run: `name`, `head_branch` or `head_sha`, `jobs` with `conclusion`, `steps`, `log`."""
    repo = _repo(hub, request)
    await hub.refresh(repo)
    run = ci.add_run(hub, repo, await request.json())
    return {"id": run.id, "jobs": [{"id": job.id, "name": job.name} for job in run.jobs]}


async def _end_run(hub: Hub, request: Request) -> Any:
    """Say how the jobs of a run end: job = conclusion."""
    repo = _repo(hub, request)
    run = next(known for known in repo.runs if known.id == request.path_params["run"])
    ends = await request.json()
    for job in run.jobs:
        job.conclusion = ends.get(job.name, job.conclusion)
    ci.show_checks(hub, repo, run)
    return {}


async def _move_branch(hub: Hub, request: Request) -> Any:
    """Move branches where there is no bare repository, or say which pull requests conflict."""
    repo = _repo(hub, request)
    body = await request.json()
    repo.branches |= body.get("branches", {})
    for number in body.get("conflicts", []):
        pulls.pull_of(repo.issues[number]).conflicts = True
    return {}


async def _show_state(hub: Hub, _request: Request) -> Any:
    """Return everything that is there, and the GraphQL fields that were asked for in vain."""
    repos = {
        repo.full_name: {
            "branches": repo.branches,
            "labels": [label.name for label in repo.labels],
            "issues": [msgspec.to_builtins(issue) for issue in repo.issues.values()],
            "hooks": [{"id": hook.id, "deliveries": len(hook.deliveries)} for hook in repo.hooks],
        }
        for repo in hub.repos.values()
    }
    return {"repos": repos, "unknown_fields": sorted(set(hub.unknown_fields))}


_SIM_REPO = "/_sim/repos/{owner}/{repo}"
_CONTROLS: list[tuple[str, str, Control]] = [
    ("GET", "/_sim/state", _show_state),
    ("POST", f"{_SIM_REPO}/runs", _add_run),
    ("POST", f"{_SIM_REPO}/runs/{{run:int}}", _end_run),
    ("POST", _SIM_REPO, _move_branch),
]
