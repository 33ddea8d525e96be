"""What an agent says while it works: each simple event with its rich twin, under one id."""

from __future__ import annotations

import uuid
from typing import Any

from segue.sim.cloud.feed import Feed
from segue.sim.cloud.remote import Change

_PIECE = 24
_PUBLIC_NAMES = {"shell": "run_terminal_cmd", "read": "read_file", "write": "edit_file", "edit": "edit_file"}


def think(feed: Feed, text: str) -> None:
    """Thoughts, piece by piece."""
    for piece in _pieces(text):
        feed.say(
            ("thinking", {"text": piece}), ("interaction_update", {"type": "thinking-delta", "text": piece})
        )
    if text:
        feed.say(("interaction_update", {"type": "thinking-completed", "thinkingDurationMs": 10}))


def say(feed: Feed, text: str) -> None:
    """The reply, piece by piece."""
    for piece in _pieces(text):
        feed.say(
            ("assistant", {"text": piece}), ("interaction_update", {"type": "text-delta", "text": piece})
        )


def use_tools(feed: Feed, tools: list[dict[str, Any]], change: Change) -> None:
    """The tool calls of the script, then one for every file that is written or deleted."""
    for tool in tools:
        _use(feed, tool)
    for path, data in change.write.items():
        args = {"path": path, "fileText": data.decode()}
        result = {"path": path, "linesCreated": data.count(b"\n"), "fileSize": len(data)}
        _use(feed, {"type": "write", "args": args, "result": result})
    for path in change.delete:
        _use(feed, {"type": "delete", "name": "delete_file", "args": {"path": path}, "result": {}})


def _use(feed: Feed, tool: dict[str, Any]) -> None:
    kind = tool.get("type", "shell")
    name = tool.get("name", _PUBLIC_NAMES.get(kind, kind))
    args, result = tool.get("args", {}), tool.get("result", {})
    end = tool.get("status", "completed")
    call = {"callId": f"toolu_{uuid.uuid4().hex}", "name": name}
    rich = {"callId": call["callId"], "modelCallId": call["callId"]}
    good = end != "error"
    outcome = {"status": "success", "value": result} if good else {"status": "error", "error": result}
    feed.say(
        ("tool_call", {**call, "status": "running", "args": args}),
        (
            "interaction_update",
            {"type": "tool-call-started", **rich, "toolCall": {"type": kind, "args": args}},
        ),
    )
    feed.say(
        (
            "tool_call",
            {**call, "status": end, "args": args, "result": {"success" if good else "error": result}},
        ),
        (
            "interaction_update",
            {
                "type": "tool-call-completed",
                **rich,
                "toolCall": {"type": kind, "args": args, "result": outcome},
            },
        ),
    )


def _pieces(text: str) -> list[str]:
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]
