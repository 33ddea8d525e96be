"""Devin's API v3 as sessions of the simulator."""

from __future__ import annotations

import uuid
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from segue.parts.clouds.sim.app import (
    Handler,
    SessionRefusal,
    SimVendor,
    bearer,
    find_repository,
    find_session,
    list_sessions,
    read_json,
    require,
)
from segue.parts.clouds.sim.engine import SessionEngine, SimSession, VendorHabits

_FIELDS = (
    *("prompt", "title", "tags", "repos", "max_acu_limit", "playbook_id", "knowledge_ids", "secret_ids"),
    *("session_secrets", "attachment_urls", "structured_output_schema", "structured_output_required"),
    *("bypass_approval", "devin_mode", "create_as_user_id"),
)
_BASE = "/v3/organizations/{org}/sessions"


def _describe(session: SimSession) -> dict[str, Any]:
    word = session.word or {"working": "running/working"}.get(session.state, "running/finished")
    status, _, detail = word.partition("/")
    pulls = []
    if session.pull is not None:
        pulls = [{"pr_url": f"{session.repository}/pull/{session.pull}", "pr_state": "open"}]
    return {
        **{"session_id": session.id, "url": f"https://app.devin.ai/sessions/{session.id}"},
        **{"status": status, "status_detail": detail or None, "title": session.request.get("title")},
        **{
            "tags": session.request.get("tags") or [],
            "pull_requests": pulls,
            "is_archived": session.archived,
        },
        **{"created_at": int(session.created), "updated_at": int(session.updated)},
        **{"acus_consumed": 1.5 * session.turns, "structured_output": None},
    }


async def _create(engine: SessionEngine, request: Request) -> Response:
    body = await read_json(request)
    require(body, _FIELDS, ("prompt",))
    repos = body.get("repos") or []
    url = find_repository(engine, f"https://github.com/{repos[0]}") if repos else ""
    session = engine.create(f"devin-{uuid.uuid4().hex}", body, url)
    engine.tell(session, body["prompt"])
    return JSONResponse(_describe(session))


async def _list(engine: SessionEngine, request: Request) -> Response:
    query, found = request.query_params, list_sessions(engine, request)
    if tags := query.getlist("tags"):
        found = [one for one in found if set(tags) <= set(one.request.get("tags") or [])]
    if since := query.get("created_after"):
        found = [one for one in found if one.created >= int(since)]
    return _answer_page(request, [_describe(one) for one in found])


def _answer_page(request: Request, items: list[Any]) -> Response:
    start = int(request.query_params.get("after") or 0)
    end = start + min(int(request.query_params.get("first") or 100), 200)
    more = end < len(items)
    page = {"items": items[start:end], "end_cursor": str(end) if more else None, "has_next_page": more}
    return JSONResponse(page)


async def _show(engine: SessionEngine, request: Request) -> Response:
    return JSONResponse(_describe(find_session(engine, request)))


async def _delete(engine: SessionEngine, request: Request) -> Response:
    session = find_session(engine, request)
    engine.halt(session)
    session.word = "exit"
    return JSONResponse(_describe(session))


async def _messages(engine: SessionEngine, request: Request) -> Response:
    session = find_session(engine, request)
    said = [one for one in session.life if one.kind in ("user", "said")]
    items = [
        {
            "event_id": one.id,
            "source": "user" if one.kind == "user" else "devin",
            "message": one.data["text"],
            "created_at": int(one.at),
        }
        for one in said
    ]
    return _answer_page(request, items)


async def _say(engine: SessionEngine, request: Request) -> Response:
    session, body = find_session(engine, request), await read_json(request)
    require(body, ("message",), ("message",))
    if session.word == "exit":
        raise SessionRefusal(404, "The session has ended.")
    engine.tell(session, body["message"])
    return JSONResponse(_describe(session))


_ROUTES: list[tuple[str, str, Handler]] = [
    ("POST", _BASE, _create),
    ("GET", _BASE, _list),
    ("GET", _BASE + "/{session}", _show),
    ("DELETE", _BASE + "/{session}", _delete),
    ("GET", _BASE + "/{session}/messages", _messages),
    ("POST", _BASE + "/{session}/messages", _say),
]

DEVIN = SimVendor(
    VendorHabits("devin", obeys=True, pulls=True),
    _ROUTES,
    bearer,
    lambda refusal: {"detail": refusal.message},
)
