"""The reader of the driver's lines: whatever comes, it neither fails nor calls a failure a success."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.agents.acp.lines import AcpLines
from segue.agents.acp.profiles import load_profiles
from segue.agents.acp.tools import AcpToolCall, choose_option
from segue.domain.events import AgentText, AgentUsage, Event
from segue.domain.job import Mode
from segue.domain.outcome import FailureKind
from tests.agents.stand_in import ended

END = {"type": "result", "stop_reason": "end_turn", "answer": {}}


def read(*lines: dict[str, Any], mode: Mode = Mode.EDIT) -> AcpLines:
    reader = AcpLines("gemini", load_profiles()["gemini"], mode)
    for line in lines:
        reader.read(json.dumps(line))
    return reader


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


def test_the_last_message_is_the_answer_and_subagents_do_not_count() -> None:
    tool = {"type": "tool", "state": "completed", "name": "Bash", "id": "1", "status": "success"}
    inner = {"type": "text", "text": "from inside", "message": "", "subagent": True}
    reader = read(
        {"type": "text", "text": "first", "message": "a"}, tool, {"type": "text", "text": "last"}, inner, END
    )
    assert reader.outcome(ended(), 0.0).text == "last"


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
        (
            {"kind": "edit", "content": [{"type": "diff", "path": "a", "oldText": None, "newText": "x"}]},
            "Write",
        ),
        (
            {"kind": "edit", "content": [{"type": "diff", "path": "a", "oldText": "y", "newText": "x"}]},
            "Edit",
        ),
        ({"kind": "execute", "title": "make"}, "Bash"),
        ({"kind": "search", "title": "Searching the web for: x"}, "WebSearch"),
        ({"kind": "other", "title": "todowrite"}, "todowrite"),
        ({"kind": "other", "title": "many words here"}, "Other"),
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
