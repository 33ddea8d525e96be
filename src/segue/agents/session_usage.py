"""What one launch used, from agents that report the total of the session it went on with."""

from __future__ import annotations

import json
import re
from pathlib import Path

from segue.domain.outcome import Usage
from segue.system.files import write_atomic

_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
_BEFORE = "usage-before.json"


def used_before(folder: Path, scratch: Path, session: str | None) -> Usage:
    """The total of the session when the launch began; the same whenever the launch is adopted."""
    note = scratch / _BEFORE
    if not note.exists():
        write_atomic(note, json.dumps(_total(folder, session)).encode())
    return Usage(*json.loads(note.read_text()))


def remember(folder: Path, session: str | None, total: Usage | None) -> None:
    """Write the session's total down for the launches that go on with it."""
    if total is not None and session and _NAME.fullmatch(session):
        total_list = [total.input_tokens, total.output_tokens, total.cost_usd]
        write_atomic(folder / f"usage-{session}.json", json.dumps(total_list).encode())


def difference(total: Usage, before: Usage) -> Usage:
    """What was added; nothing is ever given back."""
    return Usage(
        max(0, total.input_tokens - before.input_tokens),
        max(0, total.output_tokens - before.output_tokens),
        round(max(0.0, total.cost_usd - before.cost_usd), 9),
    )


def _total(folder: Path, session: str | None) -> list[float]:
    note = folder / f"usage-{session}.json"
    if not session or not _NAME.fullmatch(session) or not note.is_file():
        return [0, 0, 0.0]
    found: list[float] = json.loads(note.read_text())
    return found
