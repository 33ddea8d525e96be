"""OpenAI's chat completions: what is asked, and the answer whole or in pieces."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

from segue.sim.llm.script import Answer, Ask
from segue.sim.llm.wire import BadRequest, data_line, objects, pieces, text_of


def ask(body: dict[str, Any]) -> Ask:
    """Read the request; raises BadRequest when it is not one."""
    messages = objects(body, "messages")
    users = tuple(text_of(m.get("content")) for m in messages if m.get("role") == "user")
    wanted = body.get("response_format")
    if isinstance(wanted, dict) and wanted.get("type") == "json_schema":
        schema = wanted.get("json_schema")
        if not isinstance(schema, dict) or not schema.get("name"):
            raise BadRequest("Missing required parameter: 'response_format.json_schema.name'.")
    return Ask("chat", str(body.get("model", "")), users, bool(body.get("stream")), len(json.dumps(messages)))


def whole(answer: Answer, _body: dict[str, Any]) -> dict[str, Any]:
    """The answer in one document."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if answer.tool_calls:
        message["tool_calls"] = _calls(answer)
    choice = {"index": 0, "message": message, "finish_reason": _reason(answer), "logprobs": None}
    return _head("chat.completion", answer) | {"choices": [choice], "usage": _usage(answer)}


def stream(answer: Answer, body: dict[str, Any]) -> Iterator[bytes]:
    """The answer piece by piece."""
    head = _head("chat.completion.chunk", answer)

    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        return data_line(head | {"choices": [choice]})

    yield chunk({"role": "assistant", "content": ""})
    for piece in pieces(answer.text):
        yield chunk({"content": piece})
    for index, call in enumerate(_calls(answer)):
        yield chunk({"tool_calls": [{"index": index, **call}]})
    yield chunk({}, _reason(answer))
    if (body.get("stream_options") or {}).get("include_usage"):
        yield data_line(head | {"choices": [], "usage": _usage(answer)})
    yield b"data: [DONE]\n\n"


def error(status: int, message: str) -> dict[str, Any]:
    """An error in OpenAI's shape."""
    kind, code = _ERRORS.get(status, ("server_error", None))
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


_ERRORS: dict[int, tuple[str, str | None]] = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}


def _head(kind: str, answer: Answer) -> dict[str, Any]:
    name = f"chatcmpl-{uuid.uuid4().hex}"
    return {"id": name, "object": kind, "created": int(time.time()), "model": answer.model}


def _calls(answer: Answer) -> list[dict[str, Any]]:
    return [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for call in answer.tool_calls
    ]


def _reason(answer: Answer) -> str:
    return "tool_calls" if answer.tool_calls else "stop"


def _usage(answer: Answer) -> dict[str, Any]:
    used = answer.usage
    return {
        "prompt_tokens": used["input"],
        "completion_tokens": used["output"],
        "total_tokens": used["input"] + used["output"],
        "prompt_tokens_details": {"cached_tokens": used["cached"]},
    }
