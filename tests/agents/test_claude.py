"""The claude agent: flags, environment, every line Claude Code was seen to print, every way it ends."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue import check_agent
from segue.agents.claude.agent import ClaudeAgent, ClaudeOptions
from segue.agents.claude.lines import ClaudeLines
from segue.agents.local.launch import SessionUsage
from segue.domain.events import AgentRaw, AgentText, AgentThought, AgentTool, Event, event_data
from segue.domain.job import Limits, Mode
from segue.domain.outcome import Failure, FailureKind, Outcome, Usage
from segue.system.process.processes import Processes
from segue.system.services import Services
from tests.agents.items import lend, of, outcome
from tests.agents.stand_in import PROMPT, VALUES, StandIn, ended

SESSION = "6e97d3f2-38b4-4fdd-bd64-1592f00c183c"
NOW = 1_800_000_000.0
INIT = {
    "type": "system",
    "subtype": "init",
    "session_id": SESSION,
    "model": "claude-opus-5-5",
    "tools": ["Bash"],
}
MODEL = {"inputTokens": 100, "outputTokens": 20, "cacheReadInputTokens": 5, "cacheCreationInputTokens": 3}
OK = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "All done.",
    "session_id": SESSION,
    "terminal_reason": "completed",
    "total_cost_usd": 0.25,
    "num_turns": 2,
    "permission_denials": [],
    "modelUsage": {"claude-opus-5-5": MODEL},
    "result_index": 0,
}
BAD = {**OK, "is_error": True, "terminal_reason": "api_error", "result": "API Error", "modelUsage": {}}
DENIED = {"tool_name": "Bash", "tool_use_id": "call_1", "tool_input": {}}


def assistant(*content: dict[str, Any], **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "model": "claude-opus-5-5", "content": list(content)}
    return {"type": "assistant", "message": message, "parent_tool_use_id": None, **more}


def used(name: str, key: str = "call_1", **given: Any) -> dict[str, Any]:
    return assistant({"type": "tool_use", "id": key, "name": name, "input": given})


def gave(content: str, key: str = "call_1", error: bool = False, decision: str = "accept") -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": key, "content": content, "is_error": error}
    meta = [{"id": key, "permission_decision": {"decision": decision}}]
    return {"type": "user", "message": {"role": "user", "content": [block]}, "tool_result_meta": meta}


def read(lines: ClaudeLines, *printed: dict[str, Any]) -> list[Event]:
    return [event for line in printed for event in lines.read(json.dumps(line)) or []]


def concluded(*printed: dict[str, Any], mode: Mode = Mode.EDIT, **how: Any) -> Outcome:
    lines = ClaudeLines(mode)
    read(lines, *printed)
    return lines.outcome(ended(**how), NOW)


def failed(*printed: dict[str, Any], mode: Mode = Mode.EDIT, **how: Any) -> Failure:
    failure = concluded(*printed, mode=mode, **how).failure
    assert failure is not None
    return failure


def test_a_launch_that_went_well() -> None:
    lines = ClaudeLines(Mode.EDIT)
    events = read(
        lines,
        INIT,
        assistant({"type": "thinking", "thinking": "hmm"}),
        used("Write", file_path="a.txt"),
        gave("File created"),
        assistant({"type": "text", "text": "All done."}),
        OK,
    )
    tools = of(events, AgentTool)
    assert [(tool.name, tool.state, tool.input) for tool in tools] == [
        ("Write", "started", {"file_path": "a.txt"}),
        ("Write", "completed", {"file_path": "a.txt"}),
    ]
    assert tools[1].status == "success"
    assert of(events, AgentText) == [AgentText("All done.")]
    assert of(events, AgentThought) == [AgentThought("hmm")]
    found = lines.outcome(ended(), NOW)
    assert (found.failure, found.text, found.session) == (None, "All done.", SESSION)
    assert (found.model, found.usage) == ("claude-opus-5-5", Usage(108, 20, 0.25, 5))
    assert lines.outcome(ended(), NOW).facts == {
        "num_turns": 2,
        "results": 1,
        "terminal_reason": "completed",
        "tools": 1,
        "tools_success": 1,
    }


def test_the_last_of_several_results_counts() -> None:
    woken = {**OK, "result": "The server has started.", "total_cost_usd": 0.4, "result_index": 1}
    found = concluded(INIT, OK, INIT, assistant({"type": "text", "text": "The server"}), woken)
    assert (found.text, found.failure) == ("The server has started.", None)
    assert found.usage == Usage(108, 20, 0.4, 5)
    assert failed(INIT, OK, INIT, {**BAD, "api_error_status": 401}, code=1).kind is FailureKind.AUTH


def test_work_that_began_after_a_result_and_was_cut_off_is_not_done() -> None:
    lines = ClaudeLines(Mode.EDIT)
    cut_off = ended(None, 9, "wall")
    seen = []
    for line in (OK, {"type": "system", "subtype": "task_notification"}, INIT):
        read(lines, line)
        failure = lines.outcome(cut_off, NOW).failure
        seen.append((lines.is_finished, failure and failure.kind))
    assert seen == [(True, None), (True, None), (False, FailureKind.TIMEOUT)]


@pytest.mark.parametrize(
    ("result", "code", "kind"),
    [
        ({**BAD, "api_error_status": 401}, 1, FailureKind.AUTH),
        ({**BAD, "api_error_status": 403}, 1, FailureKind.AUTH),
        ({**BAD, "api_error_status": 404}, 1, FailureKind.NOT_STARTED),
        ({**BAD, "api_error_status": 429}, 1, FailureKind.RATE_LIMIT),
        ({**BAD, "api_error_status": 529}, 1, FailureKind.OUTAGE),
        ({**BAD, "api_error_status": 500}, 1, FailureKind.OUTAGE),
        ({**BAD, "api_error_status": None, "api_error": "connection_failed"}, 1, FailureKind.OUTAGE),
        ({**BAD, "api_error_status": None, "api_error": "max_output_tokens"}, 1, FailureKind.TRUNCATED),
        ({**BAD, "subtype": "error_max_turns", "terminal_reason": "max_turns"}, 1, FailureKind.MAX_TURNS),
        (
            {**BAD, "subtype": "error_max_budget_usd", "terminal_reason": "budget_exhausted"},
            1,
            FailureKind.USAGE_LIMIT,
        ),
        # Exit code 0 after Ctrl-C.
        (
            {**BAD, "subtype": "error_during_execution", "terminal_reason": "aborted_streaming"},
            0,
            FailureKind.INTERRUPTED,
        ),
        ({"type": "result", "subtype": "error_during_execution", "is_error": True}, 1, FailureKind.UNKNOWN),
    ],
)
def test_a_result_that_is_an_error(result: dict[str, Any], code: int, kind: FailureKind) -> None:
    failure = failed(INIT, result, code=code)
    assert failure.kind is kind
    assert failure.message


def test_whoever_ends_it_decides_what_an_interruption_means() -> None:
    stopped = {**BAD, "subtype": "error_during_execution", "terminal_reason": "aborted_streaming"}
    assert failed(INIT, stopped, code=0, reason="wall").kind is FailureKind.TIMEOUT
    assert failed(INIT, stopped, code=0, reason="idle").kind is FailureKind.HANG
    assert failed(INIT, stopped, code=0).kind is FailureKind.INTERRUPTED
    rested = concluded(INIT, OK, stopped, code=0, reason="ended")
    assert (rested.failure, rested.text) == (None, "All done.")


def test_a_used_up_limit_is_parked_until_it_ends() -> None:
    said = "API Error: Request rejected (429) · You've hit your session limit · resets in 2 hours"
    failure = failed(INIT, {**BAD, "api_error_status": 429, "result": said}, code=1)
    assert (failure.kind, failure.until) == (FailureKind.USAGE_LIMIT, NOW + 7260)
    failure = failed(INIT, {**BAD, "result": f"Claude AI usage limit reached|{int(NOW) + 60}"}, code=1)
    assert (failure.kind, failure.until) == (FailureKind.USAGE_LIMIT, NOW + 60)


def test_an_unknown_session() -> None:
    result = {**BAD, "subtype": "error_during_execution", "result": None, "terminal_reason": None}
    said = f"No conversation found with session ID: {SESSION}"
    failure = failed({**result, "errors": [said]}, code=1)
    assert failure.kind is FailureKind.NOT_STARTED
    assert said in failure.message
    assert failed(code=1, err=said).kind is FailureKind.NOT_STARTED


def test_denied_tools() -> None:
    denial = {"type": "system", "subtype": "permission_denied", "tool_name": "Bash", "tool_use_id": "call_1"}
    lines = ClaudeLines(Mode.EDIT)
    printed = [INIT, used("Bash"), denial, gave("denied", error=True, decision="reject")]
    events = read(lines, *printed, {**OK, "permission_denials": [DENIED]})
    assert of(events, AgentTool)[1].status == "rejected"
    failure = lines.outcome(ended(), NOW).failure
    assert failure is not None
    assert failure.kind is FailureKind.REFUSED
    assert lines.outcome(ended(), NOW).facts["permission_denials"] == 1
    read(lines, used("Write", "call_2"), gave("done", "call_2"), OK)
    assert lines.outcome(ended(), NOW).failure is None
    assert "denied 1 uses" in lines.outcome(ended(), NOW).facts["note"]
    # Where nothing may be changed, denials are as it should be.
    assert concluded(*printed, {**OK, "permission_denials": [DENIED]}, mode=Mode.PLAN).failure is None


def test_a_failing_command_is_no_denial() -> None:
    events = read(ClaudeLines(Mode.EDIT), used("Bash"), gave("exit 1", error=True))
    assert of(events, AgentTool)[1].status == "failure"


def test_subagents_and_words_put_into_the_models_mouth_are_not_the_answer() -> None:
    inner = assistant({"type": "text", "text": "found it"}, parent_tool_use_id="call_9")
    synthetic = assistant({"type": "text", "text": "API Error: 401"}, error="authentication_failed")
    found = concluded(
        INIT, assistant({"type": "text", "text": "Mine."}), inner, synthetic, {**OK, "result": ""}
    )
    assert found.text == "Mine."
    assert concluded(INIT, synthetic, {**BAD, "api_error_status": 401}, code=1).text == ""


def test_the_structured_answer_is_kept() -> None:
    lines = ClaudeLines(Mode.ASK)
    read(lines, INIT, {**OK, "structured_output": {"ok": True}})
    assert lines.outcome(ended(), NOW).facts["structured_output"] == {"ok": True}


def test_what_earlier_launches_have_used_is_not_counted_again() -> None:
    lines = ClaudeLines(Mode.EDIT, SessionUsage(Usage(100, 15, 0.2)))
    read(lines, INIT, OK)
    assert lines.outcome(ended(), NOW).usage == Usage(8, 5, 0.05, 5)


def test_ends_without_a_result() -> None:
    assert failed(INIT).kind is FailureKind.NO_RESULT
    assert failed(INIT, code=143).kind is FailureKind.CRASH
    assert failed(INIT, code=None, reason="idle").kind is FailureKind.HANG
    assert failed(code=1, err="error: unknown option '--tools'").kind is FailureKind.NOT_STARTED
    root = "--dangerously-skip-permissions cannot be used with root/sudo privileges"
    assert failed(code=1, err=root).kind is FailureKind.NOT_STARTED
    assert failed(INIT, OK, code=1).kind is FailureKind.CRASH
    lines = ClaudeLines(Mode.EDIT)
    read(lines, INIT)
    lines.read('{"type":"result","subty')
    failure = lines.outcome(ended(), NOW).failure
    assert failure is not None
    assert failure.kind is FailureKind.TRUNCATED


@pytest.mark.parametrize("mode", [Mode.PLAN, Mode.ASK])
def test_an_answer_without_text_is_none(mode: Mode) -> None:
    assert failed(INIT, {**OK, "result": ""}, mode=mode).kind is FailureKind.NO_RESULT


def test_unknown_lines_are_kept_and_counted() -> None:
    lines = ClaudeLines(Mode.EDIT)
    events = read(
        lines, {"type": "news", "x": 1}, {"type": "system", "subtype": "new"}, {"type": "stream_event"}
    )
    assert len(of(events, AgentRaw)) == 2
    assert lines.outcome(ended(), NOW).facts["unknown_lines"] == 2
    retry = {"type": "system", "subtype": "api_retry", "attempt": 1, "error_status": 529}
    assert of(read(lines, retry), AgentRaw)[0].line["error_status"] == 529
    assert lines.outcome(ended(), NOW).facts["api_retries"] == 1


KINDS = st.sampled_from(["system", "assistant", "user", "result", "stream_event", "x"])
LINES = st.fixed_dictionaries(
    {"type": KINDS},
    optional={
        "subtype": st.sampled_from(["init", "success", "permission_denied", "api_retry"]) | VALUES,
        "message": st.fixed_dictionaries(
            {},
            optional={
                "content": VALUES
                | st.lists(
                    st.fixed_dictionaries(
                        {},
                        optional={
                            "type": st.sampled_from(["text", "tool_use", "tool_result", "thinking"]),
                            "text": VALUES,
                            "id": VALUES,
                            "tool_use_id": VALUES,
                            "input": VALUES,
                            "is_error": VALUES,
                        },
                    )
                )
            },
        )
        | VALUES,
        "is_error": VALUES,
        "result": VALUES,
        "errors": VALUES,
        "permission_denials": VALUES,
        "modelUsage": VALUES,
        "total_cost_usd": VALUES,
        "tool_result_meta": VALUES,
        "api_error_status": VALUES,
        "structured_output": VALUES,
        "session_id": VALUES,
    },
)


@given(st.lists(LINES.map(json.dumps) | st.text() | VALUES.map(json.dumps)), st.sampled_from(list(Mode)))
def test_no_line_is_fatal(printed: list[str], mode: Mode) -> None:
    lines = ClaudeLines(mode)
    for text in printed:
        for event in lines.read(text) or []:
            json.dumps(event_data(event), allow_nan=False)
    json.dumps(lines.outcome(ended(), NOW).facts, allow_nan=False)
    lines.outcome(ended(), NOW)


@pytest.fixture
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    found = StandIn.make(tmp_path, monkeypatch, "claude", "2.1.325 (Claude Code)")
    found.says([INIT, used("Write"), gave("done"), OK])
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789abcdef")
    return found


def agent(services: Services, **options: Any) -> ClaudeAgent:
    return ClaudeAgent(ClaudeOptions(**options), services)


ALWAYS = ["-p", "--output-format", "stream-json", "--verbose"]
ALWAYS += ["--input-format", "stream-json", "--replay-user-messages"]


@pytest.mark.parametrize(
    ("mode", "options", "flags"),
    [
        (Mode.EDIT, {}, ["--permission-mode", "bypassPermissions"]),
        (Mode.PLAN, {"allowed_tools": ["Bash"]}, ["--permission-mode", "plan"]),
        (Mode.ASK, {}, ["--tools", "Read,Grep,Glob", "--permission-mode", "dontAsk"]),
        (
            Mode.EDIT,
            {"permission_mode": "acceptEdits", "allowed_tools": ["Write", "Bash(git *)"]},
            ["--permission-mode", "acceptEdits", "--allowedTools", "Write,Bash(git *)"],
        ),
        (
            Mode.PLAN,
            {"max_turns": 3, "max_budget_usd": 0.5, "extra_args": ["--bare"]},
            ["--permission-mode", "plan", "--max-turns", "3", "--max-budget-usd", "0.500000", "--bare"],
        ),
    ],
)
def test_flags(claude: StandIn, mode: Mode, options: dict[str, Any], flags: list[str]) -> None:
    claude.run(lambda services: agent(services, **options), mode)
    call = claude.calls()[0]
    assert call["argv"] == [*ALWAYS, *flags]
    assert call["stdin"] == PROMPT.text
    rooted = os.geteuid() == 0 and "bypassPermissions" in flags
    assert call["env"].get("IS_SANDBOX") == ("1" if rooted else None)


def test_model_session_and_environment(claude: StandIn) -> None:
    claude.environ.setenv("SOME_SECRET", "x")
    claude.run(lambda services: agent(services, max_retries=2), model="opus", session=SESSION)
    call = claude.calls()[0]
    assert call["argv"][-4:] == ["--model", "opus", "--resume", SESSION]
    env = call["env"]
    assert env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] == "1"
    assert env["CLAUDE_CODE_MAX_RETRIES"] == "2"
    assert env["ANTHROPIC_API_KEY"].startswith("sk-ant-")
    assert "SOME_SECRET" not in env
    assert Path(env["CLAUDE_CONFIG_DIR"]).is_relative_to(claude.root / "run")


def test_the_users_folder_is_used_where_the_login_is(claude: StandIn) -> None:
    claude.environ.setenv("CLAUDE_CONFIG_DIR", "/their/folder")
    claude.run(lambda services: agent(services, own_config_dir=False), token="a")
    claude.environ.delenv("ANTHROPIC_API_KEY")
    claude.run(agent, token="b")
    assert [call["env"]["CLAUDE_CONFIG_DIR"] for call in claude.calls()] == ["/their/folder"] * 2


def test_a_follow_up_counts_only_what_it_used_itself(claude: StandIn) -> None:
    first = outcome(claude.run(agent, token="first"))
    claude.says([INIT, {**OK, "total_cost_usd": 0.3, "modelUsage": {"m": {**MODEL, "outputTokens": 25}}}])
    second = outcome(claude.run(agent, token="second", session=first.session))
    again = outcome(claude.run(agent, token="second", session=first.session))
    assert first.usage == Usage(108, 20, 0.25, 5)
    assert second.usage == again.usage == Usage(0, 5, 0.05, 0)
    assert len(claude.calls()) == 2


def test_it_is_not_waited_for_for_ever_after_its_result(claude: StandIn) -> None:
    claude.says([INIT, OK], stay=600)
    found = outcome(claude.run(lambda services: agent(services, result_grace=0.2)))
    assert (found.failure, found.text) == (None, "All done.")


@pytest.mark.thorough
def test_the_promises_of_the_socket(claude: StandIn) -> None:
    claude.says([INIT, used("Write"), gave("done"), OK], writes="made.txt")
    (hangs := claude.root / "hangs").mkdir()
    hanging = StandIn.make(hangs, claude.environ, "claude", "2.1.325 (Claude Code)")
    hanging.says([INIT], stay=600)
    claude.environ.setenv("ANTHROPIC_API_KEY", "sk-0123456789abcdef")
    check_agent(
        lambda services: agent(services, agent_cmd=claude.program),
        PROMPT,
        hangs=lambda services: agent(services, agent_cmd=hanging.program),
        limits=Limits(wall=60, idle=60, grace=0.3),
    )


def test_what_is_missing(claude: StandIn, tmp_path: Path) -> None:
    services = lend(Processes(tmp_path / "run"))
    assert agent(services).check() == []
    claude.environ.delenv("ANTHROPIC_API_KEY")
    claude.says([], status=json.dumps({"loggedIn": False}))
    (problem,) = agent(services).check()
    assert (problem.exit_code, "claude auth login" in problem.fix) == (4, True)
    claude.says([], status="something else")
    assert agent(services).check() == []
    claude.says([], version="claude 0.1")
    (problem,) = agent(services).check()
    assert problem.exit_code == 5
    assert "is not Claude Code" in problem.message
    (problem,) = agent(services, agent_cmd="claude-9").check()
    assert problem.exit_code == 5
    assert "npm install -g @anthropic-ai/claude-code" in problem.fix


LIMIT = {"status": "rejected", "resetsAt": 0, "rateLimitType": "five_hour", "isUsingOverage": False}
RETRY = {"type": "system", "subtype": "api_retry", "retry_delay_ms": 40_000, "error_status": 429}


def limited(ahead: float, **more: Any) -> dict[str, Any]:
    end = int(time.time() + ahead)
    return {"type": "rate_limit_event", "rate_limit_info": {**LIMIT, "resetsAt": end, **more}}


def test_the_exact_end_of_a_limit_counts_before_the_words() -> None:
    said = {**BAD, "api_error_status": 429, "result": "You've hit your limit · resets 9:32am"}
    event = limited(3 * 86400)
    failure = failed(INIT, event, said, code=1)
    assert failure.kind is FailureKind.USAGE_LIMIT
    assert failure.until == event["rate_limit_info"]["resetsAt"] + 5
    late = failed(INIT, {**event}, {**said, "result": "API Error: Request rejected (429)"}, code=1)
    assert (late.kind, late.until) == (failure.kind, failure.until)
    warned = limited(60, status="allowed_warning")
    assert failed(INIT, warned, {**said, "result": "API Error: 429 slow down"}, code=1).until is None


def test_a_limit_that_is_not_reached_says_nothing_about_the_others() -> None:
    said = {**BAD, "api_error_status": 429, "result": "API Error: Request rejected (429)"}
    five, week = limited(3600), limited(3 * 86400, rateLimitType="seven_day")
    fine = limited(86400, rateLimitType="seven_day_opus", status="allowed")
    for order in ((five, week, fine), (fine, week, five), (week, fine, five)):
        assert failed(INIT, *order, said, code=1).until == week["rate_limit_info"]["resetsAt"] + 5
    again = limited(3600, status="allowed")
    assert failed(INIT, five, again, said, code=1).kind is FailureKind.RATE_LIMIT


@pytest.mark.parametrize("form", [lambda end: end * 1000, lambda end: f"{end}", lambda end: f"{end}000"])
def test_the_end_of_a_limit_is_read_in_every_form(form: Callable[[int], Any]) -> None:
    event = limited(3600)
    end = event["rate_limit_info"]["resetsAt"]
    event["rate_limit_info"]["resetsAt"] = form(end)
    said = {**BAD, "api_error_status": 429, "result": "You've hit your limit · resets 9:32am"}
    assert failed(INIT, event, said, code=1).until == end + 5


def test_a_service_that_wants_to_be_paid_is_a_usage_limit() -> None:
    said = {**BAD, "api_error_status": 402, "result": "API Error: 402 no"}
    assert failed(INIT, said, code=1).kind is FailureKind.USAGE_LIMIT


def test_claude_is_ended_while_it_waits_longer_than_others_would() -> None:
    lines = ClaudeLines(Mode.EDIT)
    read(lines, INIT, RETRY)
    assert lines.patience(60, Limits(patience=600)) is None, "nobody else could work"
    assert lines.patience(60, Limits(patience=0)) == 1
    failure = lines.outcome(ended(None, 15, "ended"), NOW).failure
    assert failure is not None
    assert failure.kind is FailureKind.RATE_LIMIT
    assert failure.until is not None
    assert 30 < failure.until - time.time() <= 40
    read(lines, used("Bash"))
    assert lines.patience(60, Limits(patience=0)) is None, "its service has answered"
    read(lines, {**RETRY, "retry_delay_ms": 4_000, "error_status": 529})
    assert lines.patience(60, Limits(patience=0)) is None, "a short wait"


@pytest.mark.parametrize(
    ("before", "reported", "launch", "spent"),
    [
        (Usage(), (1000, 10), (1000, 10), Usage(1000, 10, 0.25, 0)),
        (Usage(1000, 10, 0.25), (2000, 20), (1000, 10), Usage(1000, 10, 0.0, 0)),  # 2.1.325: of the session
        (Usage(1000, 10, 0.25), (1000, 10), (1000, 10), Usage(1000, 10, 0.25, 0)),  # 2.1.197: this launch
        (Usage(1000, 10, 0.25), (3000, 20), (3000, 20), Usage(3000, 20, 0.25, 0)),
        (Usage(5000, 90, 0.25), (1200, 10), (1000, 10), Usage(1200, 10, 0.25, 0)),
    ],
)  # fmt: skip
def test_what_a_launch_used_is_right_in_every_version(
    before: Usage, reported: tuple[int, int], launch: tuple[int, int], spent: Usage
) -> None:
    lines = ClaudeLines(Mode.EDIT, SessionUsage(before))
    used = {"m": {"inputTokens": reported[0], "outputTokens": reported[1]}}
    read(lines, {**OK, "modelUsage": used, "usage": {"input_tokens": launch[0], "output_tokens": launch[1]}})
    assert lines.outcome(ended(), NOW).usage == spent
