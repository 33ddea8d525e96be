"""The GitLab simulator as an app: its API with pages, faults and a log, and controls under `/_sim/`."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from segue.parts.sim.shapes import Json
from segue.parts.trackers.gitlab_sim.requests import ROUTES, Call, LabRefusal
from segue.parts.trackers.gitlab_sim.script import GitlabFault, GitlabScript
from segue.parts.trackers.gitlab_sim.state import Lab, LabJob, LabPipeline
from segue.sim.services import LOCAL_ONLY
from segue.system.http.server import drop_connection

_API = "/api/v4"
_MOST = 100


def gitlab_app(script: GitlabScript | None = None, bares: Mapping[str, Path] | None = None) -> Starlette:
    """Build the app; `bares` maps `GROUP/NAME` to bare repositories."""
    lab = Lab(script, bares)

    async def serve(request: Request) -> Response:
        return await _serve(lab, request)

    async def run_pipeline(request: Request) -> Response:
        return await _run_pipeline(lab, await request.json())

    return Starlette(
        routes=[
            *lab.routes(),
            Route("/_sim/pipelines", run_pipeline, methods=["POST"]),
            Route("/{path:path}", serve, methods=["GET", "POST", "PUT", "DELETE"]),
        ],
        middleware=[LOCAL_ONLY],
    )


async def _run_pipeline(lab: Lab, wanted: Json) -> Response:
    """Add a pipeline for what a branch is at now."""
    project = lab.find(str(wanted.get("project", "")))
    ref = str(wanted.get("ref", ""))
    sha = (await project.bare.read()).get(ref) if project else None
    if project is None or sha is None:
        return JSONResponse({"error": "no such project or branch"}, 404)
    jobs = [
        LabJob(
            lab.new_id(),
            str(one["name"]),
            str(one.get("status", "success")),
            str(one.get("log", "")),
            bool(one.get("allow_failure", False)),
        )
        for one in wanted.get("jobs", [])
    ]
    project.pipelines.append(LabPipeline(lab.new_id(), sha, ref, jobs))
    return JSONResponse({"id": project.pipelines[-1].id, "sha": sha})


async def _serve(lab: Lab, request: Request) -> Response:
    raw = await request.body()
    logged = lab.log.add(request, raw)
    path = request.scope["raw_path"].decode("ascii").partition("?")[0].removeprefix(_API)
    fault = lab.faults.pick(request.method, path)
    if fault is not None:
        logged.fault = fault.fault
        if fault.fault not in ("reset", "reset_after"):
            response = _spoil(fault)
            logged.status = response.status_code
            return response
        if fault.fault == "reset":
            await drop_connection(request.scope, request.receive, reset=True)
            return Response()
    try:
        response = _shape(request, await _answer(lab, request, path, raw))
    except LabRefusal as refused:
        response = JSONResponse(_refusal(refused), refused.status)
    logged.status = response.status_code
    if fault is not None:
        await drop_connection(request.scope, request.receive, reset=True)
    return response


async def _answer(lab: Lab, request: Request, path: str, raw: bytes) -> Any:
    header = request.headers.get("private-token", "")
    bearer = request.headers.get("authorization", "").partition(" ")[2]
    token = lab.token(header or bearer)
    if token is None:
        raise LabRefusal(401, "401 Unauthorized")
    lab.user_id(token.username)
    call = Call(lab, request, _parse(raw), token.username)
    if path == "/user":
        return call.show_user(token.username)
    _, _, rest = path.partition("/projects/")
    name, slash, below = rest.partition("/")
    project = lab.find(unquote(name))
    if project is None:
        raise LabRefusal(404, "404 Project Not Found")
    await project.refresh()
    for method, pattern, handle in ROUTES:
        found = re.fullmatch(pattern, slash + below)
        if found and method == request.method:
            return await handle(call, project, found.groups())
    raise LabRefusal(404, "404 Not found")


def _shape(request: Request, found: Any) -> Response:
    """Return the answer with its page, its ETag, and 304 where the client has it already."""
    if isinstance(found, Response):
        return found
    headers: dict[str, str] = {}
    if isinstance(found, list):
        found, headers = _cut(request, found)
    body = json.dumps(found).encode()
    status = 201 if request.method == "POST" else 200
    if request.method == "GET":
        etag = f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'
        headers["etag"] = etag
        if request.headers.get("if-none-match") == etag:
            return Response(b"", 304, headers)
    return Response(body, status, {**headers, "content-type": "application/json"})


def _cut(request: Request, found: list[Any]) -> tuple[list[Any], dict[str, str]]:
    size = min(_MOST, max(1, int(request.query_params.get("per_page", "20"))))
    page = max(1, int(request.query_params.get("page", "1")))
    pages = max(1, -(-len(found) // size))
    headers = {
        "x-page": str(page),
        "x-per-page": str(size),
        "x-total": str(len(found)),
        "x-total-pages": str(pages),
        "x-next-page": str(page + 1) if page < pages else "",
    }
    if page < pages:
        following = request.url.include_query_params(page=page + 1)
        raw = request.scope["raw_path"].decode("ascii").partition("?")[0]
        headers["link"] = f'<{following.scheme}://{following.netloc}{raw}?{following.query}>; rel="next"'
    return found[(page - 1) * size : page * size], headers


def _spoil(fault: GitlabFault) -> Response:
    if fault.fault == "bad_gateway":
        return Response("<html>502</html>", 502, media_type="text/html")
    if fault.fault == "too_many":
        return PlainTextResponse("Retry later", 429, {"retry-after": str(fault.retry_after)})
    status = {"forbidden": 403, "not_found": 404, "unauthorized": 401}[fault.fault]
    words = {403: "403 Forbidden", 404: "404 Not found", 401: "401 Unauthorized"}[status]
    return JSONResponse({"message": words}, status)


def _refusal(refused: LabRefusal) -> Json:
    said = refused.message
    return said if isinstance(said, dict) and "error" in said else {"message": said}


def _parse(raw: bytes) -> Json:
    try:
        found = json.loads(raw) if raw else {}
    except ValueError:
        raise LabRefusal(400, "400 Bad request") from None
    return found if isinstance(found, dict) else {}
