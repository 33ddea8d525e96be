"""The claude agent: flags, environment, every line Claude Code was seen to print, every way it ends."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from segue.agents.claude.agent import ClaudeAgent, ClaudeOptions
from segue.agents.claude.lines import ClaudeLines
from segue.agents.local.launch import SessionUsage
from segue.domain.events import AgentText, AgentThought, AgentTool, Event
from segue.domain.job import Limits, Mode
from segue.domain.outcome import Failure, FailureKind, Outcome, Usage
from segue.system.process.processes import Processes
from segue.system.services import Services
from tests.agents.items import lend, of, outcome
from tests.agents.stand_in import PROMPT, StandIn, ended

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


def test_whoever_ends_it_decides_what_an_interruption_means() -> None:
    stopped = {**BAD, "subtype": "error_during_execution", "terminal_reason": "aborted_streaming"}
    assert failed(INIT, stopped, code=0, reason="wall").kind is FailureKind.TIMEOUT
    assert failed(INIT, stopped, code=0, reason="idle").kind is FailureKind.HANG
    assert failed(INIT, stopped, code=0).kind is FailureKind.INTERRUPTED
    rested = concluded(INIT, OK, stopped, code=0, reason="ended")
    assert (rested.failure, rested.text) == (None, "All done.")


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


def test_subagents_and_words_put_into_the_models_mouth_are_not_the_answer() -> None:
    inner = assistant({"type": "text", "text": "found it"}, parent_tool_use_id="call_9")
    synthetic = assistant({"type": "text", "text": "API Error: 401"}, error="authentication_failed")
    found = concluded(
        INIT, assistant({"type": "text", "text": "Mine."}), inner, synthetic, {**OK, "result": ""}
    )
    assert found.text == "Mine."
    assert concluded(INIT, synthetic, {**BAD, "api_error_status": 401}, code=1).text == ""


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


def test_a_follow_up_counts_only_what_it_used_itself(claude: StandIn) -> None:
    first = outcome(claude.run(agent, token="first"))
    claude.says([INIT, {**OK, "total_cost_usd": 0.3, "modelUsage": {"m": {**MODEL, "outputTokens": 25}}}])
    second = outcome(claude.run(agent, token="second", session=first.session))
    again = outcome(claude.run(agent, token="second", session=first.session))
    assert first.usage == Usage(108, 20, 0.25, 5)
    assert second.usage == again.usage == Usage(0, 5, 0.05, 0)
    assert len(claude.calls()) == 2


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
