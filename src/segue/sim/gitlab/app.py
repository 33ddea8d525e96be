"""The GitLab simulator as an app: what merge requests need of the API, and controls under `/_sim/`."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from segue.sim.gitlab.script import GitlabFault, GitlabScript
from segue.sim.gitlab.shown import (
    Json,
    show_discussion,
    show_job,
    show_note,
    show_pipeline,
    show_project,
    show_request,
    show_user,
)
from segue.sim.gitlab.state import (
    Lab,
    LabDiscussion,
    LabJob,
    LabNote,
    LabPipeline,
    LabProject,
    LabRequest,
    new_discussion,
)
from segue.sim.script import check_script
from segue.sim.services import refuse_web_page
from segue.system.http.server import drop_connection

_API = "/api/v4"
_MOST = 100


class LabRefusal(Exception):
    """A request that is refused."""

    def __init__(self, status: int, message: Any) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class Call:
    """One request to the API, after its path was taken apart."""

    def __init__(self, lab: Lab, request: Request, body: Json, user: str) -> None:
        self.lab, self.request, self.user = lab, request, user
        self.given: Json = {**dict(request.query_params), **body}
        self.url = f"{request.url.scheme}://{request.headers['host']}"

    def want(self, name: str) -> str:
        """Return a parameter that must be there."""
        if not str(self.given.get(name, "")).strip():
            raise LabRefusal(400, {"error": f"{name} is missing"})
        return str(self.given[name])

    def require_level(self, level: int) -> None:
        """Refuse users who may not do this."""
        if self.lab.level_of(self.user) < level:
            raise LabRefusal(403, "403 Forbidden")


Handler = Callable[[Call, LabProject, Sequence[str]], Awaitable[Any]]


async def _project(call: Call, project: LabProject, _parts: Sequence[str]) -> Any:
    default = await project.bare.find_default() or "main"
    return show_project(call.lab, project, call.user, default, call.url)


async def _list_requests(call: Call, project: LabProject, _parts: Sequence[str]) -> Any:
    given = call.given
    return [
        show_request(call.lab, project, one, call.url)
        for one in sorted(project.requests.values(), key=lambda one: -one.iid)
        if given.get("state", "all") in ("all", one.state)
        and given.get("source_branch", one.source) == one.source
        and given.get("target_branch", one.target) == one.target
    ]


async def _open_request(call: Call, project: LabProject, _parts: Sequence[str]) -> Any:
    call.require_level(30)
    source, target, title = (call.want(name) for name in ("source_branch", "target_branch", "title"))
    branches = await project.bare.read()
    for name, branch in (("source_branch", source), ("target_branch", target)):
        if branch not in branches:
            raise LabRefusal(400, {name: ["does not exist"]})
    for one in project.requests.values():
        if (one.source, one.target, one.state) == (source, target, "opened"):
            said = f"Another open merge request already exists for this source branch: !{one.iid}"
            raise LabRefusal(409, [said])
    iid = max(project.requests, default=0) + 1
    description = str(call.given.get("description") or "")
    request = LabRequest(call.lab.new_id(), iid, call.user, source, target, title, description)
    request.labels = _labels(call.given.get("labels"))
    project.requests[iid] = request
    await project.refresh()
    return show_request(call.lab, project, request, call.url)


async def _get_request(call: Call, project: LabProject, parts: Sequence[str]) -> Any:
    return show_request(call.lab, project, _find_request(project, parts), call.url)


async def _change_request(call: Call, project: LabProject, parts: Sequence[str]) -> Any:
    call.require_level(30)
    request, given = _find_request(project, parts), call.given
    request.title = str(given.get("title", request.title))
    request.description = str(given.get("description", request.description) or "")
    request.target = str(given.get("target_branch", request.target))
    if "labels" in given:
        request.labels = _labels(given["labels"])
    removed = _labels(given.get("remove_labels"))
    request.labels = [*dict.fromkeys([*request.labels, *_labels(given.get("add_labels"))])]
    request.labels = [one for one in request.labels if one not in removed]
    event = given.get("state_event")
    if event in ("close", "reopen"):
        request.state = "closed" if event == "close" else "opened"
    return show_request(call.lab, project, request, call.url)


async def _merge_request(call: Call, project: LabProject, parts: Sequence[str]) -> Any:
    call.require_level(30)
    request = _find_request(project, parts)
    branches = await project.bare.read()
    if request.state != "opened" or request.conflicts or request.title.startswith("Draft:"):
        raise LabRefusal(405, "405 Method Not Allowed")
    message = f"Merge branch '{request.source}' into '{request.target}'"
    merged = await project.bare.merge(request.target, branches[request.target], request.sha, message, "merge")
    if merged is None:
        raise LabRefusal(422, "Branch cannot be merged")
    request.state = "merged"
    return show_request(call.lab, project, request, call.url)


async def _list_discussions(call: Call, project: LabProject, parts: Sequence[str]) -> Any:
    return [show_discussion(call.lab, one, call.url) for one in _find_request(project, parts).discussions]


async def _get_discussion(call: Call, project: LabProject, parts: Sequence[str]) -> Any:
    return show_discussion(call.lab, _find_discussion(project, parts), call.url)


async def _open_discussion(call: Call, project: LabProject, parts: Sequence[str]) -> Any:
    position = call.given.get("position")
    note = LabNote(call.lab.new_id(), call.user, call.want("body"), resolvable=True)
    note.position = dict(position) if isinstance(position, Mapping) else None
    discussion = new_discussion(note)
    _find_request(project, parts).discussions.append(discussion)
    return show_discussion(call.lab, discussion, call.url)


async def _resolve_discussion(call: Call, project: LabProject, parts: Sequence[str]) -> Any:
    call.require_level(30)
    discussion, resolved = _find_discussion(project, parts), call.want("resolved").lower() == "true"
    for note in discussion.notes:
        note.resolved = resolved if note.resolvable else False
    return show_discussion(call.lab, discussion, call.url)


async def _add_to_discussion(call: Call, project: LabProject, parts: Sequence[str]) -> Any:
    discussion = _find_discussion(project, parts)
    note = LabNote(call.lab.new_id(), call.user, call.want("body"), discussion.notes[0].resolvable)
    discussion.notes.append(note)
    return show_note(call.lab, note, call.url)


async def _list_notes(call: Call, project: LabProject, parts: Sequence[str]) -> Any:
    notes = [note for one in _find_request(project, parts).discussions for note in one.notes]
    return [show_note(call.lab, note, call.url) for note in reversed(notes)]


async def _add_note(call: Call, project: LabProject, parts: Sequence[str]) -> Any:
    note = LabNote(call.lab.new_id(), call.user, call.want("body"))
    _find_request(project, parts).discussions.append(new_discussion(note, single=True))
    return show_note(call.lab, note, call.url)


async def _list_pipelines(call: Call, project: LabProject, parts: Sequence[str]) -> Any:
    source = _find_request(project, parts).source
    found = [one for one in reversed(project.pipelines) if one.ref == source]
    return [show_pipeline(project, one, call.url) for one in found]


async def _list_jobs(call: Call, project: LabProject, parts: Sequence[str]) -> Any:
    pipeline = next((one for one in project.pipelines if str(one.id) == parts[0]), None)
    if pipeline is None:
        raise LabRefusal(404, "404 Not found")
    return [show_job(project, pipeline, job, call.url) for job in pipeline.jobs]


async def _trace(_call: Call, project: LabProject, parts: Sequence[str]) -> Any:
    jobs = [job for one in project.pipelines for job in one.jobs if str(job.id) == parts[0]]
    if not jobs:
        raise LabRefusal(404, "404 Not found")
    return PlainTextResponse(jobs[0].log)


async def _member(call: Call, _project: LabProject, parts: Sequence[str]) -> Any:
    name = next((name for name, number in call.lab.people.items() if str(number) == parts[0]), "")
    level = call.lab.level_of(name) if name else 0
    if not level:
        raise LabRefusal(404, "404 Not found")
    return {**show_user(call.lab, name, call.url), "access_level": level}


async def _approvals(_call: Call, project: LabProject, parts: Sequence[str]) -> Any:
    request = _find_request(project, parts)
    return {"iid": request.iid, "approved": True, "approvals_required": 0, "approved_by": []}


_REQUEST = r"/merge_requests/(\d+)"
_DISCUSSION = rf"{_REQUEST}/discussions/([0-9a-f]+)"
_ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "", _project),
    ("GET", "/merge_requests", _list_requests),
    ("POST", "/merge_requests", _open_request),
    ("GET", _REQUEST, _get_request),
    ("PUT", _REQUEST, _change_request),
    ("PUT", rf"{_REQUEST}/merge", _merge_request),
    ("GET", rf"{_REQUEST}/discussions", _list_discussions),
    ("POST", rf"{_REQUEST}/discussions", _open_discussion),
    ("GET", _DISCUSSION, _get_discussion),
    ("PUT", _DISCUSSION, _resolve_discussion),
    ("POST", rf"{_DISCUSSION}/notes", _add_to_discussion),
    ("GET", rf"{_REQUEST}/notes", _list_notes),
    ("POST", rf"{_REQUEST}/notes", _add_note),
    ("GET", rf"{_REQUEST}/pipelines", _list_pipelines),
    ("GET", rf"{_REQUEST}/approvals", _approvals),
    ("GET", r"/pipelines/(\d+)/jobs", _list_jobs),
    ("GET", r"/jobs/(\d+)/trace", _trace),
    ("GET", r"/members/all/(\d+)", _member),
)


def gitlab_app(script: GitlabScript | None = None, bares: Mapping[str, Path] | None = None) -> Starlette:
    """Build the app; `bares` maps `GROUP/NAME` to bare repositories."""
    lab = Lab.make(script or GitlabScript(), bares or {})

    async def serve(request: Request) -> Response:
        return await _serve(lab, request)

    async def load(request: Request) -> Response:
        if refusal := refuse_web_page(request):
            return refusal
        try:
            lab.load(check_script(await request.json(), GitlabScript))
        except ValueError as error:
            return JSONResponse({"error": str(error)}, 400)
        return JSONResponse({})

    async def run_pipeline(request: Request) -> Response:
        return refuse_web_page(request) or await _run_pipeline(lab, await request.json())

    return Starlette(
        routes=[
            Route("/_sim/log", lab.log.answer, methods=["GET", "DELETE"]),
            Route("/_sim/script", load, methods=["POST"]),
            Route("/_sim/pipelines", run_pipeline, methods=["POST"]),
            Route("/{path:path}", serve, methods=["GET", "POST", "PUT", "DELETE"]),
        ]
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
    if refusal := refuse_web_page(request):
        return refusal
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
        return show_user(lab, token.username, call.url)
    _, _, rest = path.partition("/projects/")
    name, slash, below = rest.partition("/")
    project = lab.find(unquote(name))
    if project is None:
        raise LabRefusal(404, "404 Project Not Found")
    await project.refresh()
    for method, pattern, handle in _ROUTES:
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


def _find_request(project: LabProject, parts: Sequence[str]) -> LabRequest:
    found = project.requests.get(int(parts[0]))
    if found is None:
        raise LabRefusal(404, "404 Not found")
    return found


def _find_discussion(project: LabProject, parts: Sequence[str]) -> LabDiscussion:
    for one in _find_request(project, parts).discussions:
        if one.id == parts[1]:
            return one
    raise LabRefusal(404, "404 Discussion Not Found")


def _labels(given: Any) -> list[str]:
    listed = given if isinstance(given, list) else str(given or "").split(",")
    return [str(one).strip() for one in listed if str(one).strip()]


def _parse(raw: bytes) -> Json:
    try:
        found = json.loads(raw) if raw else {}
    except ValueError:
        raise LabRefusal(400, "400 Bad request") from None
    return found if isinstance(found, dict) else {}
