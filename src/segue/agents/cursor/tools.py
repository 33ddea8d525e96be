"""Reads what Cursor says about one use of a tool, in all the shapes its builds have had."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_NAMES = {
    "shell": "Bash",
    "read": "Read",
    "write": "Write",
    "edit": "Edit",
    "webSearch": "WebSearch",
    "webFetch": "WebFetch",
    # names of the generic shape
    "run_terminal_cmd": "Bash",
    "read_file": "Read",
    "write_file": "Write",
    "edit_file": "Edit",
    "search_replace": "Edit",
    "web_search": "WebSearch",
    "web_fetch": "WebFetch",
}
_STATUSES = ("success", "failure", "rejected", "error", "spawnError")
_SUFFIX = "ToolCall"
_STRING_CHARS = 2000
_EVENT_CHARS = 16_000
_ITEMS = 40


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One use of a tool: `status` and `result` are known once it has ended."""

    name: str
    input: Mapping[str, Any]
    status: str | None
    result: Any


def tool_use(call: Mapping[str, Any]) -> ToolUse | None:
    """What the `tool_call` of a line says; None when it has a shape nobody has seen yet."""
    kind, body = _kind_and_body(call)
    if kind is None:
        return None
    result = body.get("result", call.get("result"))
    status, value = _status(result)
    return ToolUse(_NAMES.get(kind, kind), table(body.get("args")), status, value)


def _kind_and_body(call: Mapping[str, Any]) -> tuple[str | None, Mapping[str, Any]]:
    for key, body in call.items():
        # The kind has siblings such as toolCallId, so the first key would not do.
        if key.endswith(_SUFFIX) and isinstance(body, Mapping):
            return key.removesuffix(_SUFFIX), body
    function, tool = table(call.get("function")), table(call.get("tool"))
    if isinstance(function.get("name"), str):
        return function["name"], {**function, "args": _arguments(function.get("arguments"))}
    if isinstance(tool.get("case"), str):
        return tool["case"].removesuffix(_SUFFIX), table(tool.get("value"))
    return None, {}


def _arguments(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given)
    except (ValueError, RecursionError):
        return {"arguments": given}


def _status(result: Any) -> tuple[str | None, Any]:
    """How it ended; beside the status there may be siblings such as planUri."""
    found = table(result)
    nested = table(found.get("result", found))
    if nested.get("case") in _STATUSES:
        return nested["case"], nested.get("value")
    for status in _STATUSES:
        if status in found:
            return status, found[status]
    return None, result


def table(value: Any) -> Mapping[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def bounded(value: Any) -> Any:
    """The value, small enough to be stored: long texts and lists are cut, then the whole if need be."""
    cut = _cut(value, depth=6)
    text = json.dumps(cut, ensure_ascii=False)
    return cut if len(text) <= _EVENT_CHARS else {"cut": text[:_STRING_CHARS]}


def _cut(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return clip(value, _STRING_CHARS)
    if not isinstance(value, dict | list):
        return value
    if depth == 0:
        return "…"
    if isinstance(value, list):
        return [_cut(item, depth - 1) for item in value[:_ITEMS]]
    return {clip(key, 100): _cut(item, depth - 1) for key, item in list(value.items())[:_ITEMS]}


def clip(text: str, size: int) -> str:
    """The beginning of the text, and how much is missing."""
    return text if len(text) <= size else f"{text[:size]}…[{len(text) - size} characters cut]"
