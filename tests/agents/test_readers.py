"""What all readers of agents' lines have in common."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable

import pytest

from segue.agents.acp.lines import AcpLines
from segue.agents.acp.profiles import load_profiles
from segue.agents.claude.lines import ClaudeLines
from segue.agents.codex.lines import CodexLines
from segue.agents.cursor.lines import CursorLines
from segue.agents.local.launch import Reader
from segue.agents.scripted.agent import ScriptedLines
from segue.domain.job import Mode
from tests.agents.stand_in import ended

READERS: dict[str, Callable[[], Reader]] = {
    "acp": lambda: AcpLines("gemini", load_profiles()["gemini"], Mode.EDIT),
    "claude": lambda: ClaudeLines(Mode.EDIT),
    "codex": lambda: CodexLines(Mode.EDIT),
    "cursor": lambda: CursorLines(Mode.EDIT),
    "scripted": ScriptedLines,
}


@pytest.mark.parametrize("name", READERS)
def test_a_launch_that_has_ended_is_forgotten_without_a_full_collection(name: str) -> None:
    reader = READERS[name]()
    reader.read(json.dumps({"type": "result", "session_id": "s", "result": "Done."}))
    reader.outcome(ended(), 0.0)
    known = weakref.ref(reader)
    gc.disable()
    try:
        del reader
        assert known() is None
    finally:
        gc.enable()
