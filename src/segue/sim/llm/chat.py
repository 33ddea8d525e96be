"""OpenAI's chat completions: reads requests, and builds answers as a document or a stream."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

from segue.sim.llm.script import (
    BadRequest,
    LlmAnswer,
    LlmRequest,
    encode_data,
    join_text,
    require_objects,
    split_text,
)


def read_request(body: dict[str, Any]) -> LlmRequest:
    """Read a request; raises BadRequest."""
    messages = require_objects(body, "messages")
    users = tuple(join_text(m.get("content")) for m in messages if m.get("role") == "user")
    wanted = body.get("response_format")
    if isinstance(wanted, dict) and wanted.get("type") == "json_schema":
        schema = wanted.get("json_schema")
        if not isinstance(schema, dict) or not schema.get("name"):
            raise BadRequest("Missing required parameter: 'response_format.json_schema.name'.")
    return LlmRequest(
        "chat", str(body.get("model", "")), users, bool(body.get("stream")), len(json.dumps(messages))
    )


def build_document(answer: LlmAnswer, _body: dict[str, Any]) -> dict[str, Any]:
    """Build the answer as one document."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if answer.tool_calls:
        message["tool_calls"] = _calls(answer)
    choice = {"index": 0, "message": message, "finish_reason": _reason(answer), "logprobs": None}
    return _head("chat.completion", answer) | {"choices": [choice], "usage": _usage(answer)}


def build_stream(answer: LlmAnswer, body: dict[str, Any]) -> Iterator[bytes]:
    """Yield the answer in pieces."""
    head = _head("chat.completion.chunk", answer)

    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        return encode_data(head | {"choices": [choice]})

    yield chunk({"role": "assistant", "content": ""})
    for piece in split_text(answer.text):
        yield chunk({"content": piece})
    for index, call in enumerate(_calls(answer)):
        yield chunk({"tool_calls": [{"index": index, **call}]})
    yield chunk({}, _reason(answer))
    if (body.get("stream_options") or {}).get("include_usage"):
        yield encode_data(head | {"choices": [], "usage": _usage(answer)})
    yield b"data: [DONE]\n\n"


def build_error(status: int, message: str) -> dict[str, Any]:
    """Build an error in OpenAI's shape."""
    kind, code = _ERRORS.get(status, ("server_error", None))
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def build_late_error(error: dict[str, Any], _answer: LlmAnswer) -> bytes:
    """Build the piece of a stream that ends it with an error."""
    return encode_data(error)


_ERRORS: dict[int, tuple[str, str | None]] = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}


def _head(kind: str, answer: LlmAnswer) -> dict[str, Any]:
    name = f"chatcmpl-{uuid.uuid4().hex}"
    return {"id": name, "object": kind, "created": int(time.time()), "model": answer.model}


def _calls(answer: LlmAnswer) -> list[dict[str, Any]]:
    return [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for call in answer.tool_calls
    ]


_FINISH = {"refusal": "content_filter", "length": "length"}


def _reason(answer: LlmAnswer) -> str:
    if answer.finish:
        return _FINISH[answer.finish]
    return "tool_calls" if answer.tool_calls else "stop"


def _usage(answer: LlmAnswer) -> dict[str, Any]:
    used = answer.usage
    return {
        "prompt_tokens": used["input"],
        "completion_tokens": used["output"],
        "total_tokens": used["input"] + used["output"],
        "prompt_tokens_details": {"cached_tokens": used["cached"]},
    }
