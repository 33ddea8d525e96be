"""Whatever a program prints, its reader neither fails nor takes it for a success, and keeps what is new."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.agents.acp.lines import AcpLines
from segue.agents.acp.profiles import load_profiles
from segue.agents.claude.lines import ClaudeLines
from segue.agents.codex.lines import CodexLines
from segue.agents.cursor.lines import CursorLines
from segue.agents.local.launch import Reader
from segue.domain.events import AgentRaw, event_data
from segue.domain.job import Mode
from tests.agents.items import of
from tests.agents.stand_in import VALUES, ended

READERS: dict[str, Callable[[], Reader]] = {
    "acp": lambda: AcpLines("copilot", load_profiles()["copilot"], Mode.EDIT),
    "claude": lambda: ClaudeLines(Mode.EDIT),
    "codex": lambda: CodexLines(Mode.EDIT),
    "cursor": lambda: CursorLines(Mode.EDIT),
}
TYPES = (
    *("system", "assistant", "user", "stream_event", "rate_limit_event", "tool_call", "thinking"),
    *("thread.started", "turn.completed", "turn.failed", "item.started", "item.completed", "error"),
    *("start", "session", "text", "thought", "tool", "permission", "usage", "raw", "died"),
)
KEYS = (
    *("subtype", "message", "content", "text", "id", "item", "usage", "status", "state", "name", "update"),
    *("session_id", "thread_id", "tool_call", "call_id", "error", "errors", "answer", "rate_limit_info"),
)
INNER = st.dictionaries(st.sampled_from((*KEYS, "type")), VALUES | st.sampled_from(TYPES), max_size=4)
LINES = st.builds(
    lambda kind, more: json.dumps({"type": kind, **more}),
    st.sampled_from(TYPES) | VALUES,
    st.dictionaries(st.sampled_from(KEYS), VALUES | INNER | st.lists(INNER, max_size=2), max_size=5),
)


@pytest.mark.parametrize("name", READERS)
@given(printed=st.lists(LINES | st.text(), max_size=8), cut=st.integers(0, 60))
def test_any_lines_are_read(name: str, printed: list[str], cut: int) -> None:
    reader = READERS[name]()
    text = "\n".join(printed)
    for line in text[: len(text) - cut].split("\n"):
        for event in reader.read(line) or []:
            json.dumps(event_data(event), allow_nan=False)
    found = reader.outcome(ended(), 0.0)
    json.dumps(found.facts, allow_nan=False)
    is_end = "turn.completed" in text
    assert found.failure is not None or is_end


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_unknown_lines_are_kept_and_counted(name: str) -> None:
    reader = READERS[name]()
    news: list[dict[str, Any]] = [{"type": "news", "x": 1}, {"type": None}, {"no": "type"}]
    events = [event for line in news for event in reader.read(json.dumps(line)) or []]
    assert [raw.line for raw in of(events, AgentRaw) if raw.line] == news
    assert reader.outcome(ended(), 0.0).facts["unknown_lines"] == len(news)
