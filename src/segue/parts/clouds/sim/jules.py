"""Google Jules' API v1alpha as sessions of the simulator; its base address ends with `/v1alpha`."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from segue.parts.clouds.sim.app import (
    Handler,
    SessionRefusal,
    SimVendor,
    find_session,
    list_sessions,
    read_json,
    require,
)
from segue.parts.clouds.sim.engine import Happening, SessionEngine, SimSession, VendorHabits

_FIELDS = ("prompt", "title", "sourceContext", "requirePlanApproval", "automationMode")
_STATUSES = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}


def _format(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def _refuse(refusal: SessionRefusal) -> dict[str, Any]:
    usual = "RESOURCE_EXHAUSTED" if refusal.status == 429 else "INTERNAL"
    status = _STATUSES.get(refusal.status, usual)
    return {"error": {"code": refusal.status, "message": refusal.message, "status": status}}


def _sources(engine: SessionEngine) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the sources by name, with their addresses."""
    found = {}
    for address in engine.remotes.list_addresses():
        _, owner, repo = address.split("/", 2)
        name = f"sources/github/{owner}/{repo}"
        branch = {"displayName": "main"}
        hosted = {
            "owner": owner,
            "repo": repo,
            "isPrivate": False,
            "defaultBranch": branch,
            "branches": [branch],
        }
        found[name] = (
            f"https://{address}",
            {"name": name, "id": f"github/{owner}/{repo}", "githubRepo": hosted},
        )
    return found


async def _list_sources(engine: SessionEngine, request: Request) -> Response:
    return _answer_page(request, "sources", [source for _, source in _sources(engine).values()])


async def _show_source(engine: SessionEngine, request: Request) -> Response:
    known = _sources(engine).get(f"sources/{request.path_params['name']}")
    if known is None:
        raise SessionRefusal(404, "There is no such source.")
    return JSONResponse(known[1])


def _describe(session: SimSession) -> dict[str, Any]:
    body = session.request
    word = session.word or {"working": "IN_PROGRESS", "idle": "QUEUED"}.get(session.state, "COMPLETED")
    outputs: list[dict[str, Any]] = []
    if session.pull is not None:
        url = f"{session.repository}/pull/{session.pull}"
        pull = {"url": url, "title": "Work", "description": "", "baseRef": session.base or "main"}
        outputs.append({"pullRequest": {**pull, "headRef": session.pull_branch}})
    elif session.pushed:
        patch = {"unidiffPatch": "--- a\n+++ b\n", "baseCommitId": "0" * 40, "suggestedCommitMessage": "Work"}
        outputs.append({"changeSet": {"source": body["sourceContext"]["source"], "gitPatch": patch}})
    return {
        **{"name": f"sessions/{session.id}", "id": session.id, "prompt": body["prompt"]},
        **{"title": body.get("title") or "Work", "state": word, "outputs": outputs},
        **{"sourceContext": body.get("sourceContext"), "archived": session.archived},
        "url": f"https://jules.google.com/session/{session.id}",
        **{"createTime": _format(session.created), "updateTime": _format(session.updated)},
    }


async def _create(engine: SessionEngine, request: Request) -> Response:
    body = await read_json(request)
    require(body, _FIELDS, ("prompt",))
    context = body.get("sourceContext")
    known = _sources(engine).get(context["source"]) if context else None
    if context and known is None:
        raise SessionRefusal(400, f"Could not get source {context['source']}")
    base = (context or {}).get("githubRepoContext", {}).get("startingBranch", "")
    session = engine.create(str(secrets.randbits(62)), body, known[0] if known else "", base)
    engine.tell(session, body["prompt"])
    return JSONResponse(_describe(session))


async def _list(engine: SessionEngine, request: Request) -> Response:
    return _answer_page(request, "sessions", [_describe(one) for one in list_sessions(engine, request)])


def _answer_page(request: Request, field: str, items: list[Any]) -> Response:
    start = int(request.query_params.get("pageToken") or 0)
    end = start + min(int(request.query_params.get("pageSize") or 30), 100)
    more = {"nextPageToken": str(end)} if end < len(items) else {}
    return JSONResponse({field: items[start:end], **more} if items else {})


async def _show(engine: SessionEngine, request: Request) -> Response:
    return JSONResponse(_describe(find_session(engine, request)))


async def _say(engine: SessionEngine, request: Request) -> Response:
    session, body = find_session(engine, request), await read_json(request)
    require(body, ("prompt",), ("prompt",))
    engine.tell(session, body["prompt"])
    return JSONResponse({})


async def _approve(engine: SessionEngine, request: Request) -> Response:
    find_session(engine, request)
    return JSONResponse({})


def _show_activity(session: SimSession, one: Happening) -> dict[str, Any] | None:
    head = {"name": f"sessions/{session.id}/activities/{one.id}", "id": one.id, "createTime": _format(one.at)}
    agent = {**head, "originator": "agent"}
    match one.kind:
        case "user":
            return {**head, "originator": "user", "userMessaged": {"userMessage": one.data["text"]}}
        case "run":
            steps = [{"id": "1", "title": "Do it", "index": 0}]
            plan = {"id": f"plan-{one.id}", "steps": steps, "createTime": _format(one.at)}
            return {**agent, "planGenerated": {"plan": plan}}
        case "tool":
            ran = {
                "command": f"write {one.data['input']['path']}",
                "output": one.data["result"],
                "exitCode": 0,
            }
            progress = {"title": "Writing", "description": one.data["result"]}
            return {**agent, "progressUpdated": progress, "artifacts": [{"bashOutput": ran}]}
        case "said":
            return {**agent, "agentMessaged": {"agentMessage": one.data["text"]}}
        case "error":
            reason = f"{one.data['error']} {one.data['message']}".strip()
            return {**head, "originator": "system", "sessionFailed": {"reason": reason}}
        case "end" if not one.data["word"]:
            return {**head, "originator": "system", "sessionCompleted": {}}
        case _:
            return None


async def _activities(engine: SessionEngine, request: Request) -> Response:
    session = find_session(engine, request)
    shown = (_show_activity(session, one) for one in session.life)
    return _answer_page(request, "activities", [one for one in shown if one is not None])


_ROUTES: list[tuple[str, str, Handler]] = [
    ("GET", "/v1alpha/sources", _list_sources),
    ("GET", "/v1alpha/sources/{name:path}", _show_source),
    ("POST", "/v1alpha/sessions", _create),
    ("GET", "/v1alpha/sessions", _list),
    ("POST", "/v1alpha/sessions/{session}:sendMessage", _say),
    ("POST", "/v1alpha/sessions/{session}:approvePlan", _approve),
    ("GET", "/v1alpha/sessions/{session}", _show),
    ("GET", "/v1alpha/sessions/{session}/activities", _activities),
]

JULES = SimVendor(
    VendorHabits("jules", obeys=False, pulls=True),
    _ROUTES,
    lambda request: request.headers.get("x-goog-api-key", ""),
    _refuse,
)
