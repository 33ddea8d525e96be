"""Claude Managed Agents as sessions of the simulator: agents, environments, sessions, events, a stream."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

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
from segue.parts.clouds.sim.engine import Happening, SessionEngine, SimSession, VendorHabits

_BETA = "managed-agents-2026-04-01"
_FIELDS = (
    *("agent", "environment_id", "title", "metadata", "resources", "initial_events", "vault_ids", "budget"),
)
_PAGE = 100
_STOP_REASONS = ("end_turn", "requires_action", "retries_exhausted", "budget_reached", "refusal")


def _format(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def _refuse(refusal: SessionRefusal) -> dict[str, Any]:
    kinds = {
        401: "authentication_error",
        402: "billing_error",
        403: "permission_error",
        404: "not_found_error",
    }
    usual = kinds.get(refusal.status, "rate_limit_error" if refusal.status == 429 else "api_error")
    return {"type": "error", "error": {"type": refusal.kind or usual, "message": refusal.message}}


def _read_key(request: Request) -> str:
    return request.headers.get("x-api-key") or bearer(request)


def _admit(request: Request) -> None:
    if _BETA not in request.headers.get("anthropic-beta", ""):
        raise SessionRefusal(
            400, f"This API needs the header anthropic-beta: {_BETA}", "invalid_request_error"
        )


async def _make_thing(engine: SessionEngine, request: Request) -> Response:
    """Create an agent or an environment."""
    _admit(request)
    body = await read_json(request)
    kind = "agent" if request.url.path.endswith("agents") else "environment"
    require(body, list(body), ["name", "model"] if kind == "agent" else ["name"])
    name = f"{'agent' if kind == 'agent' else 'env'}_{uuid.uuid4().hex[:16]}"
    now = _format(datetime.now(UTC).timestamp())
    thing = {"id": name, "type": kind, "created_at": now, "updated_at": now, "archived_at": None, **body}
    if kind == "agent":
        thing |= {
            "version": 1,
            "model": {"id": body["model"]} if isinstance(body["model"], str) else body["model"],
        }
    engine.things[name] = thing
    return JSONResponse(thing)


def _describe_agent(engine: SessionEngine, named: Any) -> dict[str, Any]:
    name = named if isinstance(named, str) else named.get("id")
    known = engine.things.get(name) or {"model": {"id": "claude-opus-5-5"}, "version": 1, "name": "agent"}
    model = named.get("model") if isinstance(named, dict) else None
    return {
        **{"id": name, "type": "agent", "name": known["name"], "version": known["version"]},
        **{"model": {"id": model} if isinstance(model, str) else known["model"]},
        **{"description": None, "system": None, "tools": [], "skills": [], "mcp_servers": []},
        **{"multiagent": None, "execution_identity": {"type": "service_account"}},
    }


def _describe(engine: SessionEngine, session: SimSession) -> dict[str, Any]:
    request, turns = session.request, max(1, session.turns)
    used = {
        "input_tokens": 1000 * turns,
        "output_tokens": 200 * turns,
        "cache_read_input_tokens": 50 * turns,
        "cache_creation": {"ephemeral_5m_input_tokens": 10 * turns, "ephemeral_1h_input_tokens": 0},
        "list_cost": {"amount": str(12 * turns), "currency": "USD"},
        **engine.script.usage,
    }
    status = {"idle": "idle", "working": "running", "ended": "idle"}[session.state]
    if session.state == "ended" and session.word and session.word not in _STOP_REASONS:
        status = session.word
    return {
        **{"id": session.id, "type": "session", "title": request.get("title")},
        **{"status": session.word if session.state == "working" and session.word else status},
        "agent": _describe_agent(engine, request["agent"]),
        "environment_id": request["environment_id"],
        "metadata": request.get("metadata") or {},
        "budget": request.get("budget"),
        "resources": [_describe_resource(session, given) for given in request.get("resources") or []],
        **{"vault_ids": request.get("vault_ids") or [], "outcome_evaluations": []},
        **{"created_at": _format(session.created), "updated_at": _format(session.updated)},
        "archived_at": _format(session.updated) if session.archived else None,
        "stats": {"active_seconds": 1.0, "duration_seconds": session.updated - session.created},
        "usage": used if session.turns else {},
    }


def _describe_resource(session: SimSession, given: dict[str, Any]) -> dict[str, Any]:
    now = _format(session.created)
    mounted = given.get("mount_path") or "/workspace/" + given["url"].rpartition("/")[2]
    shown = {name: value for name, value in given.items() if name != "authorization_token"}
    return {"id": "sesrsc_1", "created_at": now, "updated_at": now, **shown, "mount_path": mounted}


async def _create(engine: SessionEngine, request: Request) -> Response:
    _admit(request)
    body = await read_json(request)
    require(body, _FIELDS, ("agent", "environment_id"))
    metadata = body.get("metadata") or {}
    if len(metadata) > 16 or any(len(k) > 64 or len(str(v)) > 512 for k, v in metadata.items()):
        raise SessionRefusal(400, "metadata: too long", "invalid_request_error")
    found = [r for r in body.get("resources") or [] if r.get("type") == "github_repository"]
    checkout = (found[0].get("checkout") or {}) if found else {}
    url = find_repository(engine, found[0]["url"]) if found else ""
    base = checkout.get("name") or checkout.get("sha") or ""
    session = engine.create(f"sesn_{uuid.uuid4().hex}", body, url, base)
    # A new session is idle, and its history says so.
    session.add("end", word="end_turn")
    for event in body.get("initial_events") or []:
        engine.tell(session, _text_of(event))
    return JSONResponse(_describe(engine, session))


async def _list(engine: SessionEngine, request: Request) -> Response:
    _admit(request)
    query = request.query_params
    found = list_sessions(engine, request)
    if since := query.get("created_at[gte]"):
        found = [one for one in found if one.created >= datetime.fromisoformat(since).timestamp()]
    if agent := query.get("agent_id"):
        found = [one for one in found if _describe_agent(engine, one.request["agent"])["id"] == agent]
    found = [one for one in found if not one.archived or query.get("include_archived") == "true"]
    return _answer_page(request, [_describe(engine, one) for one in found])


def _answer_page(request: Request, items: list[Any]) -> Response:
    start = int(request.query_params.get("page") or 0)
    limit = int(request.query_params.get("limit") or _PAGE)
    end = start + min(limit, 1000)
    return JSONResponse({"data": items[start:end], "next_page": str(end) if end < len(items) else None})


async def _show(engine: SessionEngine, request: Request) -> Response:
    _admit(request)
    return JSONResponse(_describe(engine, find_session(engine, request)))


def _text_of(event: dict[str, Any]) -> str:
    return "".join(block.get("text", "") for block in event.get("content") or [])


async def _send(engine: SessionEngine, request: Request) -> Response:
    _admit(request)
    session, body = find_session(engine, request), await read_json(request)
    require(body, ("events",), ("events",))
    if session.archived:
        raise SessionRefusal(400, "The session is archived.", "invalid_request_error")
    sent = []
    for event in body["events"]:
        if event.get("type") == "user.message":
            happened = engine.tell(session, _text_of(event))
        elif event.get("type") == "user.interrupt":
            happened = session.add("interrupt")
            if session.state == "working":
                engine.halt(session)
                session.word = ""
                session.add("end", word="end_turn")
        else:
            raise SessionRefusal(400, f"Unknown event {event.get('type')}", "invalid_request_error")
        # Queued: it is processed a moment later.
        sent.append({**_show_events(happened)[0], "processed_at": None})
    return JSONResponse({"data": sent})


async def _archive(engine: SessionEngine, request: Request) -> Response:
    _admit(request)
    session = find_session(engine, request)
    if session.state == "working":
        raise SessionRefusal(400, "A running session cannot be archived.", "invalid_request_error")
    session.archived = True
    return JSONResponse(_describe(engine, session))


def _show_events(happening: Happening) -> list[dict[str, Any]]:
    """Return what one happening looks like here: a tool is two events."""
    data = happening.data
    name, head = f"sevt_{happening.id}", {"processed_at": _format(happening.at)}
    block = [{"type": "text", "text": data.get("text", "")}]
    match happening.kind:
        case "user":
            return [{"id": name, "type": "user.message", "content": block, **head}]
        case "interrupt":
            return [{"id": name, "type": "user.interrupt", **head}]
        case "run":
            return [{"id": name, "type": "session.status_running", **head}]
        case "said":
            return [{"id": name, "type": "agent.message", "content": block, **head}]
        case "tool":
            use = {"id": name, "type": "agent.tool_use", "name": data["name"], "input": data["input"], **head}
            text = [{"type": "text", "text": data["result"]}]
            result = {"type": "agent.tool_result", "tool_use_id": name, "content": text, "is_error": False}
            return [use, {"id": f"{name}r", **result, **head}]
        case "error":
            retry = {"type": "retrying" if data["error"].startswith("repository_") else "exhausted"}
            error = {"type": data["error"], "message": data["message"], "retry_status": retry}
            return [{"id": name, "type": "session.error", "error": error, **head}]
        case "end" if data["word"] in ("", *_STOP_REASONS):
            return [
                {"id": name, "type": "session.status_idle", "stop_reason": _stop_reason(data["word"]), **head}
            ]
        case "end" if data["word"] == "terminated":
            return [{"id": name, "type": "session.status_terminated", **head}]
        case _:
            return [{"id": name, "type": f"session.{data.get('word', happening.kind)}", **head}]


def _stop_reason(word: str) -> dict[str, Any]:
    more = {"event_ids": ["sevt_1"]} if word == "requires_action" else {}
    return {"type": word or "end_turn", **more}


def _all_events(session: SimSession) -> list[dict[str, Any]]:
    return [event for happening in session.life for event in _show_events(happening)]


async def _events(engine: SessionEngine, request: Request) -> Response:
    _admit(request)
    events, query = _all_events(find_session(engine, request)), request.query_params
    if wanted := query.getlist("types[]"):
        events = [event for event in events if event["type"] in wanted]
    if since := query.get("created_at[gte]"):
        begin = datetime.fromisoformat(since)
        events = [event for event in events if datetime.fromisoformat(event["processed_at"]) >= begin]
    if query.get("order") == "desc":
        events.reverse()
    return _answer_page(request, events)


async def _stream(engine: SessionEngine, request: Request) -> Response:
    _admit(request)
    session = find_session(engine, request)
    start = len(session.life)

    async def follow() -> AsyncIterator[bytes]:
        position = start
        yield b": open\n\n"
        while True:
            changed = session.changed
            for happening in session.life[position:]:
                position += 1
                for event in _show_events(happening):
                    yield f"event: message\ndata: {json.dumps(event)}\n\n".encode()
            if position == len(session.life):
                await asyncio.wait([asyncio.ensure_future(changed.wait())], timeout=5.0)
                yield b": still there\n\n"

    return StreamingResponse(follow(), media_type="text/event-stream")


_ROUTES: list[tuple[str, str, Handler]] = [
    ("POST", "/v1/agents", _make_thing),
    ("POST", "/v1/environments", _make_thing),
    ("POST", "/v1/sessions", _create),
    ("GET", "/v1/sessions", _list),
    ("GET", "/v1/sessions/{session}", _show),
    ("POST", "/v1/sessions/{session}/events", _send),
    ("GET", "/v1/sessions/{session}/events", _events),
    ("GET", "/v1/sessions/{session}/events/stream", _stream),
    ("POST", "/v1/sessions/{session}/archive", _archive),
]

CLAUDE = SimVendor(VendorHabits("claude", obeys=True, pulls=False), _ROUTES, _read_key, _refuse)
