"""GitHub Copilot's agent tasks as sessions of the simulator, with the part of GitHub's API that they need."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from segue.parts.clouds.sim.app import (
    Handler,
    SessionRefusal,
    SimVendor,
    bearer,
    find_session,
    list_sessions,
    read_json,
    require,
)
from segue.parts.clouds.sim.engine import SessionEngine, SimSession, VendorHabits
from segue.parts.sim.cloud.remote import Remote

_FIELDS = ("prompt", "model", "custom_agent", "create_pull_request", "base_ref", "head_ref")
_REPO = "/repos/{owner}/{name}"
_TASKS = "/agents/repos/{owner}/{name}/tasks"


def _format(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def _refuse(refusal: SessionRefusal) -> dict[str, Any]:
    return {"message": refusal.message, "documentation_url": "https://docs.github.com/rest"}


def _find_remote(engine: SessionEngine, request: Request) -> tuple[str, Remote]:
    url = f"https://github.com/{request.path_params['owner']}/{request.path_params['name']}"
    remote = engine.remotes.find(url)
    if remote is None:
        raise SessionRefusal(404, "Not Found")
    return url, remote


async def _show_repository(engine: SessionEngine, request: Request) -> Response:
    _, remote = _find_remote(engine, request)
    return JSONResponse({"default_branch": await remote.find_default_branch()})


async def _show_ref(engine: SessionEngine, request: Request) -> Response:
    _, remote = _find_remote(engine, request)
    branch = request.path_params["branch"]
    commit = await remote.find_tip(branch)
    if commit is None:
        raise SessionRefusal(404, "Not Found")
    return JSONResponse({"ref": f"refs/heads/{branch}", "object": {"type": "commit", "sha": commit}})


async def _make_ref(engine: SessionEngine, request: Request) -> Response:
    _, remote = _find_remote(engine, request)
    body = await read_json(request)
    require(body, ("ref", "sha"), ("ref", "sha"))
    if await remote.find_tip(body["ref"].removeprefix("refs/heads/")) is not None:
        raise SessionRefusal(422, "Reference already exists")
    await remote.point(body["ref"], body["sha"])
    return JSONResponse({"ref": body["ref"], "object": {"type": "commit", "sha": body["sha"]}}, 201)


def _describe(session: SimSession, whole: bool = True) -> dict[str, Any]:
    state = session.word or {"working": "in_progress", "idle": "queued"}.get(session.state, "completed")
    artifacts: list[dict[str, Any]] = []
    if session.pushed:
        data: dict[str, Any] = {"head_ref": session.pushed[-1], "base_ref": session.base}
        artifacts.append({"provider": "github", "type": "branch", "data": data})
    if session.pull is not None:
        # A database id, not the number that people see.
        data = {"id": 9_000_000 + session.pull, "global_id": f"PR_{session.id[:8]}"}
        artifacts.append({"provider": "github", "type": "pull", "data": data})
    page = f"https://github.com/copilot/tasks/{session.id}"
    task = {
        **{"id": session.id, "url": page, "html_url": page, "name": "Work", "state": state},
        **{"creator": {"id": 1}, "repository": {"id": 1}, "session_count": 1, "artifacts": artifacts},
        **{
            "created_at": _format(session.created),
            "updated_at": _format(session.updated),
            "archived_at": None,
        },
    }
    if not whole:
        return task
    error = next((one for one in reversed(session.life) if one.kind == "error"), None)
    said = f"{error.data['error']} {error.data['message']}".strip() if error else ""
    ended = _format(session.updated) if session.state == "ended" else None
    one = {
        **{"id": f"s-{session.id}", "state": state, "prompt": session.request["prompt"]},
        **{"head_ref": session.branch, "base_ref": session.base, "model": session.request.get("model")},
        **{"created_at": _format(session.created), "completed_at": ended},
        **{
            "usage": {"type": "ai_credits", "amount": 1_500_000_000},
            "error": {"message": said} if said else None,
        },
    }
    return {**task, "sessions": [one]}


async def _create(engine: SessionEngine, request: Request) -> Response:
    url, remote = _find_remote(engine, request)
    body = await read_json(request)
    require(body, _FIELDS, ("prompt",))
    head = body.get("head_ref") or ""
    if head and await remote.find_tip(head) is None:
        raise SessionRefusal(422, f"head_ref {head} does not exist")
    session = engine.create(str(uuid.uuid4()), body, url, body.get("base_ref") or "")
    session.branch = head
    engine.tell(session, body["prompt"])
    return JSONResponse(_describe(session), 201)


async def _list(engine: SessionEngine, request: Request) -> Response:
    url, _ = _find_remote(engine, request)
    found = [one for one in list_sessions(engine, request) if one.repository == url]
    if since := request.query_params.get("since"):
        found = [one for one in found if one.updated >= datetime.fromisoformat(since).timestamp()]
    size = min(int(request.query_params.get("per_page") or 30), 100)
    start = (int(request.query_params.get("page") or 1) - 1) * size
    shown = [_describe(one, whole=False) for one in found[start : start + size]]
    return JSONResponse({"tasks": shown, "total_active_count": engine.count_active()})


async def _show(engine: SessionEngine, request: Request) -> Response:
    return JSONResponse(_describe(find_session(engine, request)))


_ROUTES: list[tuple[str, str, Handler]] = [
    ("GET", _REPO, _show_repository),
    ("GET", _REPO + "/git/ref/heads/{branch:path}", _show_ref),
    ("POST", _REPO + "/git/refs", _make_ref),
    ("POST", _TASKS, _create),
    ("GET", _TASKS, _list),
    ("GET", _TASKS + "/{session}", _show),
    ("GET", "/agents/tasks/{session}", _show),
]

COPILOT = SimVendor(VendorHabits("copilot", obeys=False, pulls=False), _ROUTES, bearer, _refuse)
