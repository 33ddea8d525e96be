"""How a launch is said to have ended when its service fails, for each program that we test as it is.

`segue help agents` shows it as a table; tests/e2e/test_vendors.py asserts every cell.
"""

from __future__ import annotations

from typing import Final

PROGRAMS: Final = {
    "claude": "Claude Code",
    "codex": "Codex",
    "gemini": "Gemini",
    "opencode": "OpenCode",
    "copilot": "Copilot",
    "qwen": "Qwen",
}
"""The columns."""

ENDINGS: Final = {
    "rate": ("too many requests", "rate_limit"),
    "quota": ("the plan's usage is used up", "usage_limit"),
    "credit": ("no credit is left", "usage_limit"),
    "plan": ("the plan does not include the model", "usage_limit"),
    "key": ("the key is wrong or has expired", "auth"),
    "model": ("nobody knows the model", "not_started"),
    "refusal": ("the model refuses", "refused"),
    "length": ("the answer is cut at its longest", "truncated"),
    "context": ("the conversation is too long", "context"),
    "size": ("the request is too large", "context"),
    "down": ("the service is down", "outage"),
    "overload": ("the service fails within an answer", "outage"),
    "cut": ("the connection is cut within an answer", "outage"),
    "silence": ("the service never answers", "hang"),
}
"""What happens, and the kind of failure that every program should show."""

OTHERWISE: Final = {
    ("plan", "copilot"): "auth",
    ("quota", "qwen"): "rate_limit",
    ("refusal", "gemini"): "",
    ("refusal", "copilot"): "",
    ("refusal", "qwen"): "",
    ("length", "gemini"): "",
    ("length", "opencode"): "",
    ("length", "copilot"): "",
    ("length", "qwen"): "",
    ("overload", "gemini"): "",
}
"""What some of them show instead; empty: nothing, so that it looks as if nothing was to be done."""


def shown_by(program: str, case: str) -> str:
    """Return the kind of failure that a program shows; empty if it shows none."""
    return OTHERWISE.get((case, program), ENDINGS[case][1])


def ending_rows() -> list[tuple[str, ...]]:
    """Return the rows of the table."""
    return [
        (what, *(f"`{kind}`" if (kind := shown_by(name, case)) else "not reported" for name in PROGRAMS))
        for case, (what, _) in ENDINGS.items()
    ]
