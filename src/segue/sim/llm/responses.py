"""OpenAI's responses API, as far as coding agents use it."""

from __future__ import annotations

import itertools
import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

from segue.sim.llm.chat import build_error as build_error
from segue.sim.llm.script import (
    BadRequest,
    LlmAnswer,
    LlmRequest,
    encode_event,
    join_text,
    require_objects,
    split_text,
)


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


def build_document(answer: LlmAnswer, _body: dict[str, Any]) -> dict[str, Any]:
    """Build the answer as one document."""
    return _response(answer, "completed", _items(answer), f"resp_{uuid.uuid4().hex}")


def build_stream(answer: LlmAnswer, _body: dict[str, Any]) -> Iterator[bytes]:
    """Yield the answer in numbered pieces."""
    for number, data in zip(itertools.count(), _events(answer), strict=False):
        yield encode_event(data | {"sequence_number": number})


def _events(answer: LlmAnswer) -> Iterator[dict[str, Any]]:
    name = f"resp_{uuid.uuid4().hex}"
    items = _items(answer)
    started = _response(answer, "in_progress", [], name)
    yield {"type": "response.created", "response": started}
    yield {"type": "response.in_progress", "response": started}
    for index, item in enumerate(items):
        yield from _item_events(index, item)
    yield {"type": "response.completed", "response": _response(answer, "completed", items, name)}


def _item_events(index: int, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    place = {"output_index": index, "item_id": item["id"]}
    nothing: dict[str, Any] = {"content": []} if item["type"] == "message" else {"arguments": ""}
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
        given = item["arguments"]
        yield {"type": "response.function_call_arguments.delta", **place, "delta": given}
        yield {"type": "response.function_call_arguments.done", **place, "arguments": given}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _items(answer: LlmAnswer) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if answer.text or not answer.tool_calls:
        part = {"type": "output_text", "text": answer.text, "annotations": []}
        name = f"msg_{uuid.uuid4().hex}"
        items.append(
            {"id": name, "type": "message", "role": "assistant", "status": "completed", "content": [part]}
        )
    items += [
        {
            "id": f"fc_{uuid.uuid4().hex}",
            "type": "function_call",
            "status": "completed",
            "call_id": call.id,
            "name": call.name,
            "arguments": json.dumps(call.arguments),
        }
        for call in answer.tool_calls
    ]
    return items


def _response(answer: LlmAnswer, status: str, items: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return {
        "id": name,
        "object": "response",
        "created_at": int(time.time()),
        "status": status,
        "model": answer.model,
        "output": items,
        "error": None,
        "usage": _usage(answer) if status == "completed" else None,
    }


def _usage(answer: LlmAnswer) -> dict[str, Any]:
    used = answer.usage
    return {
        "input_tokens": used["input"],
        "input_tokens_details": {"cached_tokens": used["cached"]},
        "output_tokens": used["output"],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": used["input"] + used["output"],
    }
