"""Seed 003: a command-line agent as a LiteLLM model."""

from __future__ import annotations

from segue.agents.cursor.lines import CursorLines
from segue.domain.job import Mode


def test_output_handling_a_line_that_is_json_is_text_like_any_other() -> None:
    lines = CursorLines(Mode.ASK)
    assert lines.read("The answer is:") is None
    assert lines.read('{"status": "ok"}') is None, "it is no event of a stream"
    assert lines.read('{"type": "system", "model": "x"}') is not None
    assert lines.read('{"status": "ok"}') is not None
