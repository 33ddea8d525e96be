"""What readers of an agent's JSON lines share: values of any shape are taken as they come, none is fatal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from segue.agents.cursor.tools import bounded, clip
from segue.domain.event import Event, EventType

TEXT_CHARS = 64 * 1024
"""As much of a message is kept."""

_RAW_CHARS = 2000
_CUT_MARK = " bytes cut]"


def parsed(text: str) -> Mapping[str, Any] | None:
    """The object a line holds; None when it holds none."""
    try:
        # Numbers that are none, such as NaN, are refused by databases.
        line = json.loads(text, parse_constant=lambda _name: None)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None


def torn(text: str) -> bool:
    """Whether a line that is no JSON was cut by its writer, not by us because of its length."""
    return not text.endswith(_CUT_MARK)


def broken(text: str) -> list[Event] | None:
    """A line that looked like JSON: in short when it is long, as output when it is not."""
    if len(text) <= _RAW_CHARS:
        return None
    return [Event(EventType.AGENT_RAW, {"type": "broken", "text": clip(text, _RAW_CHARS)})]


def raw(line: Mapping[str, Any]) -> Event:
    """A line as it came, in short."""
    return Event(EventType.AGENT_RAW, {"type": clip(str(line.get("type")), 100), "line": bounded(dict(line))})


def string(value: Any) -> str:
    """The value if it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def count(value: Any) -> int:
    """The value if it is a positive whole number, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def money(value: Any) -> float:
    """The value if it is an amount, else 0."""
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if known and 0 < value < 1e9 else 0.0
