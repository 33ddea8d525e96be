"""OpenAI's responses API, as far as coding agents use it."""

from __future__ import annotations

import itertools
import json
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from segue.sim.llm.chat import build_error as build_error
from segue.sim.llm.script import (
    BadRequest,
    LlmAnswer,
    LlmRequest,
    LlmToolCall,
    encode_event,
    join_text,
    require_objects,
    split_text,
)

_EXEC = "exec"


def read_request(body: dict[str, Any]) -> LlmRequest:
    """Read a request; raises BadRequest."""
    given = body.get("input")
    if given is None:
        raise BadRequest("Missing required parameter: 'input'.")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else require_objects(body, "input")
    users = tuple(join_text(item.get("content")) for item in items if item.get("role") == "user")
    return LlmRequest(
        "responses", str(body.get("model", "")), users, bool(body.get("stream")), len(json.dumps(items))
    )


def build_document(answer: LlmAnswer, body: dict[str, Any]) -> dict[str, Any]:
    """Build the answer as one document."""
    status = "incomplete" if answer.finish else "completed"
    return _response(answer, status, _items(answer, body), f"resp_{uuid.uuid4().hex}")


def build_stream(answer: LlmAnswer, body: dict[str, Any]) -> Iterator[bytes]:
    """Yield the answer in numbered pieces."""
    for number, data in zip(itertools.count(), _events(answer, body), strict=False):
        yield encode_event(data | {"sequence_number": number})


def _events(answer: LlmAnswer, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    name = f"resp_{uuid.uuid4().hex}"
    items = _items(answer, body)
    started = _response(answer, "in_progress", [], name)
    yield {"type": "response.created", "response": started}
    yield {"type": "response.in_progress", "response": started}
    for index, item in enumerate(items):
        yield from _item_events(index, item)
    status = "incomplete" if answer.finish else "completed"
    yield {"type": f"response.{status}", "response": _response(answer, status, items, name)}


def _item_events(index: int, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    place = {"output_index": index, "item_id": item["id"]}
    nothing: dict[str, Any] = {_CONTENT[item["type"]]: [] if item["type"] == "message" else ""}
    begun = item | nothing | {"status": "in_progress"}
    yield {"type": "response.output_item.added", "output_index": index, "item": begun}
    if item["type"] == "message":
        part = item["content"][0]
        spot = place | {"content_index": 0}
        yield {"type": "response.content_part.added", **spot, "part": part | {"text": ""}}
        for piece in split_text(part["text"]):
            yield {"type": "response.output_text.delta", **spot, "delta": piece}
        yield {"type": "response.output_text.done", **spot, "text": part["text"]}
        yield {"type": "response.content_part.done", **spot, "part": part}
    else:
        part = _CONTENT[item["type"]]
        kind = f"response.{item['type']}_{part}"
        yield {"type": f"{kind}.delta", **place, "delta": item[part]}
        yield {"type": f"{kind}.done", **place, part: item[part]}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


_CONTENT = {"message": "content", "function_call": "arguments", "custom_tool_call": "input"}
"""The field of an item that comes in pieces."""


def _items(answer: LlmAnswer, body: dict[str, Any]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if answer.text or not answer.tool_calls:
        part = {"type": "output_text", "text": answer.text, "annotations": []}
        name = f"msg_{uuid.uuid4().hex}"
        items.append(
            {"id": name, "type": "message", "role": "assistant", "status": "completed", "content": [part]}
        )
    offered = dict(_offered([body.get("tools"), body.get("input")]))
    items += [_call_item(call, offered) for call in answer.tool_calls]
    return items


def _offered(data: Any) -> Iterator[tuple[str, str]]:
    """Yield the tools in a request and their types; Codex also gives them as an item of the input."""
    for item in data if isinstance(data, list) else ():
        if isinstance(item, list):
            yield from _offered(item)
        elif isinstance(item, dict) and item.get("type") in ("additional_tools", "namespace"):
            yield from _offered(item.get("tools"))
        elif isinstance(item, dict) and item.get("type") in ("function", "custom"):
            yield str(item.get("name")), item["type"]


def _call_item(call: LlmToolCall, offered: Mapping[str, str]) -> dict[str, Any]:
    """Make the item that calls a tool.

    Where the tool is not offered but Codex's `exec` is, which runs JavaScript, the call becomes a line of it.
    """
    kind, given = offered.get(call.name, "function"), json.dumps(call.arguments)
    shared = {"status": "completed", "call_id": call.id}
    if kind == "custom":
        text = str(call.arguments.get("input", given))
        return {"id": f"ctc_{uuid.uuid4().hex}", "type": "custom_tool_call", **shared,
                "name": call.name, "input": text}  # fmt: skip
    if call.name not in offered and offered.get(_EXEC) == "custom":
        value = call.arguments.get("input") if call.name == "apply_patch" else None
        text = f"text(await tools.{call.name}({json.dumps(value) if value else given}));"
        return _call_item(LlmToolCall(_EXEC, {"input": text}, call.id), offered)
    return {"id": f"fc_{uuid.uuid4().hex}", "type": "function_call", **shared,
            "name": call.name, "arguments": given}  # fmt: skip


def _response(answer: LlmAnswer, status: str, items: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return {
        "id": name,
        "object": "response",
        "created_at": int(time.time()),
        "status": status,
        "model": answer.model,
        "output": items,
        "error": None,
        "incomplete_details": {"reason": _FINISH[answer.finish]} if answer.finish else None,
        "usage": _usage(answer) if status in ("completed", "incomplete") else None,
    }


_FINISH = {"refusal": "content_filter", "length": "max_output_tokens"}


def build_late_error(error: dict[str, Any], answer: LlmAnswer) -> bytes:
    """Build the piece of a stream that ends it with an error."""
    known = error["error"]
    failed = _response(answer, "failed", [], f"resp_{uuid.uuid4().hex}")
    said = {"code": known.get("code") or known.get("type"), "message": known.get("message")}
    return encode_event({"type": "response.failed", "response": failed | {"error": said}})


def _usage(answer: LlmAnswer) -> dict[str, Any]:
    used = answer.usage
    return {
        "input_tokens": used["input"],
        "input_tokens_details": {"cached_tokens": used["cached"]},
        "output_tokens": used["output"],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": used["input"] + used["output"],
    }
