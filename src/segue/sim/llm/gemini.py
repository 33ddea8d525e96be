"""Google's Gemini API: reads requests, and builds answers as a document or a stream."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

from segue.sim.llm.script import LlmAnswer, LlmRequest, encode_data, require_objects, split_text


def read_request(body: dict[str, Any]) -> LlmRequest:
    """Read a request, to which `model` and `stream` were added from its path; raises BadRequest."""
    contents = require_objects(body, "contents")
    users = tuple(_text(turn) for turn in contents if turn.get("role", "user") in ("user", "function"))
    return LlmRequest(
        "gemini", str(body.get("model", "")), users, bool(body.get("stream")), len(json.dumps(contents))
    )


def build_document(answer: LlmAnswer, _body: dict[str, Any]) -> dict[str, Any]:
    """Build the answer as one document."""
    texts = [answer.text] if answer.text or not answer.tool_calls else []
    parts = [*({"text": text} for text in texts), *_calls(answer)]
    return _document(answer, f"sim-{uuid.uuid4().hex}", parts, last=True)


def build_stream(answer: LlmAnswer, _body: dict[str, Any]) -> Iterator[bytes]:
    """Yield the answer in pieces; the last one says that it is the last."""
    name = f"sim-{uuid.uuid4().hex}"
    for piece in split_text(answer.text):
        yield encode_data(_document(answer, name, [{"text": piece}], last=False))
    yield encode_data(_document(answer, name, _calls(answer) or [{"text": ""}], last=True))


def build_error(status: int, message: str) -> dict[str, Any]:
    """Build an error in Google's shape."""
    return {"error": {"code": status, "message": message, "status": _ERRORS.get(status, "INTERNAL")}}


def build_late_error(error: dict[str, Any], _answer: LlmAnswer) -> bytes:
    """Build the piece of a stream that ends it with an error."""
    return encode_data(error)


_FINISH = {"refusal": "SAFETY", "length": "MAX_TOKENS"}
_ERRORS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}


def _text(turn: dict[str, Any]) -> str:
    """Join the texts of a turn; results of tools count as text."""
    parts = turn.get("parts")
    said = []
    for part in parts if isinstance(parts, list) else []:
        if isinstance(part, dict):
            result = part.get("functionResponse")
            said.append(json.dumps(result) if result else str(part.get("text") or ""))
    return "\n".join(text for text in said if text)


def _calls(answer: LlmAnswer) -> list[dict[str, Any]]:
    return [
        {"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}}
        for call in answer.tool_calls
    ]


def _document(answer: LlmAnswer, name: str, parts: list[dict[str, Any]], last: bool) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if last:
        candidate["finishReason"] = _FINISH[answer.finish] if answer.finish else "STOP"
    used = answer.usage
    return {
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": used["input"],
            "cachedContentTokenCount": used["cached"],
            "candidatesTokenCount": used["output"],
            "totalTokenCount": used["input"] + used["output"],
        },
        "modelVersion": answer.model,
        "responseId": name,
    }
