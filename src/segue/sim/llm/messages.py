"""Anthropic's messages API: reads requests, and builds answers as a document or a stream."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

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
    messages = require_objects(body, "messages")
    if not isinstance(body.get("max_tokens"), int):
        raise BadRequest("max_tokens: Field required")
    users = tuple(join_text(m.get("content")) for m in messages if m.get("role") == "user")
    return LlmRequest(
        "messages", str(body.get("model", "")), users, bool(body.get("stream")), len(json.dumps(messages))
    )


def build_document(answer: LlmAnswer, _body: dict[str, Any]) -> dict[str, Any]:
    """Build the answer as one document."""
    return _message(answer, _blocks(answer), _reason(answer), answer.usage["output"])


def build_stream(answer: LlmAnswer, _body: dict[str, Any]) -> Iterator[bytes]:
    """Yield the answer in pieces."""
    yield encode_event({"type": "message_start", "message": _message(answer, [], None, 1)})
    for index, block in enumerate(_blocks(answer)):
        yield from _block_events(index, block)
    delta = {"stop_reason": _reason(answer), "stop_sequence": None}
    usage = {"output_tokens": answer.usage["output"]}
    yield encode_event({"type": "message_delta", "delta": delta, "usage": usage})
    yield encode_event({"type": "message_stop"})


def build_error(status: int, message: str) -> dict[str, Any]:
    """Build an error in Anthropic's shape."""
    return {"type": "error", "error": {"type": _ERRORS.get(status, "api_error"), "message": message}}


def build_late_error(error: dict[str, Any], _answer: LlmAnswer) -> bytes:
    """Build the piece of a stream that ends it with an error."""
    return encode_event(error)


_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def _block_events(index: int, block: dict[str, Any]) -> Iterator[bytes]:
    if block["type"] == "text":
        empty = block | {"text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in split_text(block["text"])]
    else:
        empty = block | {"input": {}}
        deltas = [
            {"type": "input_json_delta", "partial_json": piece}
            for piece in split_text(json.dumps(block["input"]))
        ]
    yield encode_event({"type": "content_block_start", "index": index, "content_block": empty})
    for delta in deltas:
        yield encode_event({"type": "content_block_delta", "index": index, "delta": delta})
    yield encode_event({"type": "content_block_stop", "index": index})


def _blocks(answer: LlmAnswer) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if answer.text or not answer.tool_calls:
        blocks.append({"type": "text", "text": answer.text})
    return blocks + [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
        for call in answer.tool_calls
    ]


def _message(
    answer: LlmAnswer, blocks: list[dict[str, Any]], reason: str | None, output: int
) -> dict[str, Any]:
    return {
        "id": f"msg_{uuid.uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": blocks,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {
            "input_tokens": answer.usage["input"],
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": answer.usage["cached"],
            "output_tokens": output,
        },
    }


_FINISH = {"refusal": "refusal", "length": "max_tokens"}


def _reason(answer: LlmAnswer) -> str:
    if answer.finish:
        return _FINISH[answer.finish]
    return "tool_use" if answer.tool_calls else "end_turn"
