"""The reader of the driver's lines: whatever comes, it neither fails nor calls a failure a success."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.agents.acp.lines import AcpLines
from segue.agents.acp.profiles import load_profiles
from segue.agents.acp.tools import AcpToolCall, choose_option, is_allowed
from segue.domain.events import AgentText, AgentUsage, Event, event_data
from segue.domain.job import Mode
from segue.domain.outcome import FailureKind, Usage
from tests.agents.stand_in import VALUES, ended

TYPES = ("start", "session", "text", "thought", "proposal", "tool", "permission", "usage", "plan", "raw")
KEYS = (
    "text",
    "message",
    "chars",
    "state",
    "status",
    "name",
    "allowed",
    "id",
    "update",
    "answer",
    "stop_reason",
)
LINES = st.builds(
    lambda kind, more: {"type": kind, **more},
    st.sampled_from([*TYPES, "result", "error", "died", "other"]) | VALUES,
    st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=5),
)
END = {"type": "result", "stop_reason": "end_turn", "answer": {}}


def read(*lines: dict[str, Any], mode: Mode = Mode.EDIT) -> AcpLines:
    reader = AcpLines("gemini", load_profiles()["gemini"], mode)
    for line in lines:
        reader.read(json.dumps(line))
    return reader


@given(st.lists(LINES, max_size=8), st.sampled_from(Mode), st.integers(0, 60))
def test_any_lines_are_read(lines: list[dict[str, Any]], mode: Mode, cut: int) -> None:
    reader = AcpLines("copilot", load_profiles()["copilot"], mode)
    text = "\n".join(json.dumps(line) for line in lines)
    for line in text[: len(text) - cut].split("\n"):
        for event in reader.read(line) or []:
            json.dumps(event_data(event), allow_nan=False)
    found = reader.outcome(ended(), 0.0)
    json.dumps(found.facts, allow_nan=False)
    if not any(isinstance(line["type"], str) and line["type"] == "result" for line in lines):
        assert found.failure is not None


@given(st.lists(st.text(max_size=30), min_size=1, max_size=10))
def test_pieces_become_one_message(pieces: list[str]) -> None:
    reader = AcpLines("gemini", load_profiles()["gemini"], Mode.ASK)
    events: list[Event] = []
    for piece in pieces:
        events += reader.read(json.dumps({"type": "text", "text": piece, "message": ""})) or []
    events += reader.read(json.dumps(END)) or []
    whole = "".join(pieces)
    assert events == ([AgentText(whole)] if whole.strip() else [])
    assert reader.outcome(ended(), 0.0).text == (whole if whole.strip() else "")


BETWEEN = (
    {"type": "thought", "text": "hm"},
    {"type": "usage", "update": {"used": 7}},
    {"type": "plan", "entries": []},
    {"type": "mode", "id": "ask"},
    {"type": "retry", "message": "again"},
    {"type": "permission", "allowed": True},
    {"type": "raw", "line": {"method": "x"}},
    {"type": "tool", "state": "updated", "id": "1"},
    {"type": "what nobody knows"},
)


@pytest.mark.parametrize("line", BETWEEN)
@pytest.mark.parametrize("message", ["", "m1"])
def test_what_comes_in_the_middle_of_an_answer_does_not_cut_it(line: dict[str, Any], message: str) -> None:
    start, end = ({"type": "text", "text": text, "message": message} for text in ('{"plan', '": 1}'))
    assert read(start, line, end, END, mode=Mode.ASK).outcome(ended(), 0.0).text == '{"plan": 1}'


def test_an_agent_that_only_uses_tools_gives_no_answer() -> None:
    tool = {"type": "tool", "state": "completed", "name": "Read", "id": "1", "status": "success"}
    failure = read(tool, END, mode=Mode.ASK).outcome(ended(), 0.0).failure
    assert failure is not None
    assert failure.kind is FailureKind.NO_RESULT
    assert read(tool, END, mode=Mode.EDIT).outcome(ended(), 0.0).failure is None


@given(st.text(), st.sampled_from(["all", "edits", "read"]))
def test_what_has_no_known_kind_may_only_be_done_where_all_may(kind: str, policy: str) -> None:
    known = {"read", "search", "think", "edit", "delete", "move"}
    assert is_allowed(kind, policy) == (
        policy == "all" or kind in known - ({"edit", "delete", "move"} if policy == "read" else set())
    )


def test_the_last_message_is_the_answer_and_subagents_do_not_count() -> None:
    tool = {"type": "tool", "state": "completed", "name": "Bash", "id": "1", "status": "success"}
    inner = {"type": "text", "text": "from inside", "message": "", "subagent": True}
    reader = read(
        {"type": "text", "text": "first", "message": "a"}, tool, {"type": "text", "text": "last"}, inner, END
    )
    assert reader.outcome(ended(), 0.0).text == "last"


@pytest.mark.parametrize(
    ("reason", "code", "kind"),
    [
        ("idle", None, None),
        ("ended", None, None),
        ("output", None, FailureKind.OUTPUT_LIMIT),
        (None, 1, FailureKind.CRASH),
    ],
)
def test_an_ending_after_the_result(reason: str | None, code: int | None, kind: FailureKind | None) -> None:
    found = read(END).outcome(ended(code, None, reason), 0.0).failure
    assert (found.kind if found else None) is kind


def test_half_a_line_is_truncated() -> None:
    reader = read({"type": "text", "text": "x"})
    reader.read('{"type": "result", "stop_re')
    found = reader.outcome(ended(), 0.0).failure
    assert found
    assert found.kind is FailureKind.TRUNCATED


def test_tokens_of_all_steps_where_the_protocol_tells_of_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenCode counts sessions in a database of its own, those of its sub-agents apart."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    (tmp_path / "opencode").mkdir()
    kinds = ("tokens_input", "tokens_cache_read", "tokens_cache_write", "tokens_output", "tokens_reasoning")
    with closing(sqlite3.connect(tmp_path / "opencode" / "opencode.db")) as database:
        database.execute(f"create table session (id, parent_id, cost, {', '.join(kinds)})")
        rows = [("s", None, 0.5, 3000, 600, 150, 80, 10), ("t", "s", 0.25, 100, 0, 0, 5, 0)]
        database.executemany("insert into session values (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        database.commit()
    last = {"inputTokens": 1050, "outputTokens": 30, "totalTokens": 1280, "cachedReadTokens": 200}
    for session, expected in (("s", Usage(3850, 95, 0.75, 600)), ("unknown", Usage(1250, 30, None, 200))):
        reader = AcpLines("opencode", load_profiles()["opencode"], Mode.EDIT)
        reader.read(json.dumps({"type": "session", "id": session}))
        assert reader.read(json.dumps({**END, "answer": {"usage": last}})) == []
        assert reader.outcome(ended(), 0.0).usage == expected
        (told,) = [event for event in reader.rest if isinstance(event, AgentUsage)]
        assert told.count() == expected


def test_tokens_of_each_request_add_up_where_qwen_tells_them_one_by_one() -> None:
    reader = AcpLines("qwen", load_profiles()["qwen"], Mode.EDIT)
    one = {"type": "usage", "update": {"tokens": {"inputTokens": 900, "outputTokens": 9, "totalTokens": 909}}}
    for line in (one, one, {"type": "result", "stop_reason": "end_turn", "answer": {}}):
        reader.read(json.dumps(line))
    used = reader.outcome(ended(), 0.0).usage
    assert used is not None
    assert (used.input_tokens, used.output_tokens) == (1800, 18)


def test_tokens_in_the_place_where_gemini_puts_them() -> None:
    quota = {"_meta": {"quota": {"token_count": {"input_tokens": 9, "output_tokens": 2}}}}
    reader = AcpLines("gemini", load_profiles()["gemini"], Mode.EDIT)
    (event,) = reader.read(json.dumps({**END, "answer": quota})) or []
    assert isinstance(event, AgentUsage)
    usage = reader.outcome(ended(), 0.0).usage
    assert usage
    assert (usage.input_tokens, usage.output_tokens) == (9, 2)


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        ({"kind": "read"}, "Read"),
        ({"kind": "edit"}, "Edit"),
        ({"kind": "edit", "rawInput": {"content": "x"}}, "Write"),
        ({"kind": "edit", "rawInput": {"content": "x", "old_string": "y"}}, "Edit"),
        (
            {"kind": "edit", "content": [{"type": "diff", "path": "a", "oldText": None, "newText": "x"}]},
            "Write",
        ),
        (
            {"kind": "edit", "content": [{"type": "diff", "path": "a", "oldText": "y", "newText": "x"}]},
            "Edit",
        ),
        ({"kind": "execute", "title": "make"}, "Bash"),
        ({"kind": "fetch"}, "WebFetch"),
        ({"kind": "search", "title": "Searching the web for: x"}, "WebSearch"),
        ({"kind": "search", "title": "'TODO'"}, "Search"),
        ({"kind": "other", "title": "todowrite"}, "todowrite"),
        ({"kind": "other", "title": "many words here"}, "Other"),
        ({"kind": 7, "title": None}, "Other"),
    ],
)
def test_tools_have_names_all_agents_share(facts: dict[str, Any], name: str) -> None:
    call = AcpToolCall("id")
    call.learn(facts)
    assert call.name() == name


def test_a_call_of_a_tool_that_is_not_there_has_failed_whatever_opencode_says() -> None:
    call = AcpToolCall("id")
    call.learn({"title": "no_such_tool"})
    unknown = {"tool": "no_such_tool", "error": "Model tried to call unavailable tool 'no_such_tool'."}
    call.learn({"status": "completed", "title": "Invalid Tool", "rawInput": unknown})
    assert call.line("completed")["status"] == "failure"


@given(VALUES, st.booleans())
def test_options_of_any_shape(options: Any, allowed: bool) -> None:
    assert choose_option(options, allowed) is None


def test_a_yes_for_once_comes_before_one_for_ever() -> None:
    options = [{"optionId": "a", "kind": "allow_always"}, {"optionId": "b", "kind": "allow_once"}]
    assert choose_option(options, True) == "b"
    assert choose_option(options[:1], True) == "a"
    assert choose_option(options, False) is None


def test_the_fields_of_an_error_count_before_its_words() -> None:
    data = {"status": 429, "error": {"details": [{"retryDelay": "3600s"}]}}
    error = {"type": "error", "stage": "prompt", "code": -32603, "message": "Internal error", "data": data}
    failure = read(error).outcome(ended(1), 1000.0).failure
    assert failure is not None
    assert (failure.kind, failure.until) == (FailureKind.RATE_LIMIT, 4600.0)
