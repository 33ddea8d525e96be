"""Read what Cursor says about one use of a tool, in all the shapes that its versions have had."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from segue.agents.local.values import Json, as_table

_NAMES = {
    "shell": "Bash",
    "read": "Read",
    "write": "Write",
    "edit": "Edit",
    "webSearch": "WebSearch",
    "webFetch": "WebFetch",
    # the generic shape has other names
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


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One use of a tool; `status` and `result` are known once it has ended."""

    name: str
    input: Json
    status: str | None
    result: Any


def read_tool_use(call: Json) -> ToolUse | None:
    """Return what the `tool_call` of a line says; None if its shape is unknown."""
    kind, body = _find_kind(call)
    if kind is None:
        return None
    result = body.get("result", call.get("result"))
    status, value = _read_status(result)
    return ToolUse(_NAMES.get(kind, kind), as_table(body.get("args")), status, value)


def _find_kind(call: Json) -> tuple[str | None, Json]:
    for key, body in call.items():
        # Other keys, such as toolCallId, may come first.
        if key.endswith(_SUFFIX) and isinstance(body, dict):
            return key.removesuffix(_SUFFIX), body
    function, tool = as_table(call.get("function")), as_table(call.get("tool"))
    if isinstance(function.get("name"), str):
        return function["name"], {**function, "args": _read_arguments(function.get("arguments"))}
    if isinstance(tool.get("case"), str):
        return tool["case"].removesuffix(_SUFFIX), as_table(tool.get("value"))
    return None, {}


def _read_arguments(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given)
    except (ValueError, RecursionError):
        return {"arguments": given}


def _read_status(result: Any) -> tuple[str | None, Any]:
    """Return how it ended; next to the status there may be other keys, such as planUri."""
    found = as_table(result)
    nested = as_table(found.get("result", found))
    if nested.get("case") in _STATUSES:
        return nested["case"], nested.get("value")
    for status in _STATUSES:
        if status in found:
            return status, found[status]
    return None, result
