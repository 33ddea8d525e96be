"""The codex agent: flags, environment, every line Codex was seen to print, every way it ends."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path
from typing import Any

import pytest

from segue.agents.codex.agent import CodexAgent, CodexOptions
from segue.agents.codex.lines import CodexLines
from segue.domain.events import AgentRaw, AgentThought, AgentTool, AgentUsage, Event
from segue.domain.job import Mode
from segue.domain.outcome import Failure, FailureKind, Outcome, Usage
from segue.system.process.processes import Processes
from segue.system.services import Services
from tests.agents.items import lend, of, outcome
from tests.agents.stand_in import PROMPT, StandIn, ended

ADD = {"path": "a", "kind": "add"}
THREAD = "01a1dd54-b14d-76f3-acf5-07336d12c0d2"
NOW = 1_800_000_000.0
STARTED = {"type": "thread.started", "thread_id": THREAD}
TURN = {"type": "turn.started"}
USAGE = {"input_tokens": 100, "cached_input_tokens": 40, "output_tokens": 12, "reasoning_output_tokens": 3}
DONE = {"type": "turn.completed", "usage": USAGE}
SAID = {"type": "item.completed", "item": {"id": "item_9", "type": "agent_message", "text": "All done."}}
WAITS = {"type": "error", "message": "Reconnecting... waiting for network (Connection failed: error sending)"}


def item(state: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"type": f"item.{state}", "item": {"id": "item_0", "type": kind, **more}}


def read(lines: CodexLines, *printed: dict[str, Any]) -> list[Event]:
    return [event for line in printed for event in lines.read(json.dumps(line)) or []]


def concluded(*printed: dict[str, Any], mode: Mode = Mode.EDIT, **how: Any) -> Outcome:
    lines = CodexLines(mode)
    read(lines, *printed)
    return lines.outcome(ended(**how), NOW)


def failed(*printed: dict[str, Any], mode: Mode = Mode.EDIT, **how: Any) -> Failure:
    failure = concluded(*printed, mode=mode, **how).failure
    assert failure is not None
    return failure


def turn_failed(message: str) -> dict[str, Any]:
    return {"type": "turn.failed", "error": {"message": message}}


def test_a_launch_that_went_well() -> None:
    lines = CodexLines(Mode.EDIT)
    command = {"command": "/bin/bash -lc 'make test'", "aggregated_output": "ok\n"}
    events = read(
        lines,
        STARTED,
        TURN,
        item("completed", "reasoning", text="hmm"),
        item("started", "command_execution", **command, exit_code=None, status="in_progress"),
        item("completed", "command_execution", **command, exit_code=0, status="completed"),
        SAID,
        DONE,
    )
    started, completed = of(events, AgentTool)
    assert started == AgentTool("Bash", {"command": "/bin/bash -lc 'make test'"}, "item_0", "started")
    assert (completed.status, completed.result) == ("success", {"output": "ok\n", "exit_code": 0})
    assert of(events, AgentThought) == [AgentThought("hmm")]
    assert of(events, AgentUsage) == [AgentUsage(60, 12, cache_read_tokens=40, reasoning_tokens=3)]
    found = lines.outcome(ended(), NOW)
    assert (found.failure, found.text, found.session) == (None, "All done.", THREAD)
    assert found.usage == Usage(100, 12, cached_tokens=40)
    assert lines.outcome(ended(), NOW).facts == {"tools": 1, "tools_success": 1}


@pytest.mark.parametrize(
    ("kind", "more", "name", "given"),
    [
        ("file_change", {"changes": [ADD]}, "Write", {"changes": [ADD]}),
        ("file_change", {"changes": [ADD, {**ADD, "kind": "update"}]}, "Edit", None),
        ("file_change", {"changes": "?"}, "Edit", {"changes": "?"}),
        ("web_search", {"query": "weather"}, "WebSearch", {"query": "weather"}),
        ("mcp_tool_call", {"server": "db", "tool": "ask", "arguments": 1}, "mcp__db__ask", {"arguments": 1}),
    ],
)
def test_tools_have_the_names_all_agents_share(
    kind: str, more: dict[str, Any], name: str, given: dict[str, Any] | None
) -> None:
    (tool,) = of(read(CodexLines(Mode.EDIT), item("completed", kind, **more)), AgentTool)
    assert (tool.name, tool.status) == (name, "success")
    assert given is None or tool.input == given


def test_errors_on_the_way_are_not_the_end() -> None:
    warning = item("completed", "error", message="Model metadata not found")
    retried = {"type": "error", "message": "Reconnecting... 1/5 (unexpected status 401 Unauthorized)"}
    lines = CodexLines(Mode.EDIT)
    events = read(lines, STARTED, warning, retried, SAID, DONE)
    assert lines.outcome(ended(), NOW).failure is None
    assert lines.outcome(ended(), NOW).facts["reconnects"] == 1
    assert [data.kind for data in of(events, AgentRaw)] == ["thread.started", "error", "error"]


def test_waiting_for_the_network_begins_with_the_first_complaint() -> None:
    gave_up = [True]
    lines = CodexLines(Mode.EDIT, was_given_up=lambda: gave_up[0])
    read(lines, STARTED, WAITS)
    since = lines.offline_since
    assert since is not None
    read(lines, WAITS)
    assert lines.offline_since == since
    failure = lines.outcome(ended(None, 9, "ended"), NOW).failure
    assert failure is not None
    assert failure.kind is FailureKind.OUTAGE
    assert "waiting for network" in failure.message
    gave_up[0] = False
    read(lines, SAID)
    failure = lines.outcome(ended(None, 9, "wall"), NOW).failure
    assert failure is not None
    assert failure.kind is FailureKind.TIMEOUT


@pytest.fixture
def codex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    found = StandIn.make(tmp_path, monkeypatch, "codex", "codex-cli 0.166.0")
    found.says([STARTED, TURN, SAID, DONE])
    monkeypatch.setenv("CODEX_API_KEY", "sk-0123456789abcdef")
    return found


def agent(services: Services, **options: Any) -> CodexAgent:
    return CodexAgent(CodexOptions(**options), services)


QUIET = ["--json", "-c", "analytics.enabled=false", "--disable", "plugins", "--skip-git-repo-check"]
NEW = ["exec", "--color", "never", *QUIET]
RESUMED = ["exec", "--color", "never", "resume", *QUIET]


@pytest.mark.parametrize(
    ("mode", "session", "options", "flags"),
    [
        (Mode.EDIT, None, {}, [*NEW, "-s", "workspace-write", "-"]),
        (Mode.PLAN, None, {"sandbox": "none", "network": True}, [*NEW, "-s", "read-only", "-"]),
        (Mode.ASK, None, {}, [*NEW, "-s", "read-only", "-"]),
        (Mode.EDIT, None, {"sandbox": "none"}, [*NEW, "--dangerously-bypass-approvals-and-sandbox", "-"]),
        (Mode.EDIT, THREAD, {}, [*RESUMED, "-c", 'sandbox_mode="workspace-write"', THREAD, "-"]),
        (Mode.ASK, THREAD, {}, [*RESUMED, "-c", 'sandbox_mode="read-only"', THREAD, "-"]),
        (
            Mode.EDIT,
            None,
            {"network": True, "config": ['model_reasoning_effort="low"'], "extra_args": ["--search"]},
            [
                *(*NEW, "-s", "workspace-write", "-c", "sandbox_workspace_write.network_access=true"),
                *("-c", 'model_reasoning_effort="low"', "--search", "-"),
            ],
        ),
    ],
)
def test_flags(
    codex: StandIn, mode: Mode, session: str | None, options: dict[str, Any], flags: list[str]
) -> None:
    codex.run(lambda services: agent(services, **options), mode, session=session)
    (call,) = codex.calls()
    assert call["argv"] == flags
    assert call["stdin"] == PROMPT.text


def test_model_and_environment(codex: StandIn) -> None:
    codex.environ.setenv("OPENAI_API_KEY", "x")
    found = outcome(codex.run(agent, model="gpt-5.5"))
    (call,) = codex.calls()
    assert call["argv"][call["argv"].index("-m") + 1] == found.model == "gpt-5.5"
    assert call["env"]["CODEX_API_KEY"].startswith("sk-")
    assert "OPENAI_API_KEY" not in call["env"]
    assert Path(call["env"]["CODEX_HOME"]).is_relative_to(codex.root / "run")


def test_a_follow_up_counts_only_what_it_used_itself(codex: StandIn) -> None:
    first = outcome(codex.run(agent, token="first"))
    codex.says([STARTED, SAID, {"type": "turn.completed", "usage": {**USAGE, "input_tokens": 170}}])
    second = outcome(codex.run(agent, token="second", session=first.session))
    again = outcome(codex.run(agent, token="second", session=first.session))
    assert first.usage == Usage(100, 12, cached_tokens=40)
    assert second.usage == again.usage == Usage(70, 0, cached_tokens=0)
    assert len(codex.calls()) == 2


def test_a_service_that_cannot_be_reached_is_not_waited_for(codex: StandIn) -> None:
    codex.says([STARTED, TURN, WAITS], stay=600)
    first = outcome(codex.run(lambda services: agent(services, offline_grace=0.2)))
    again = outcome(codex.run(agent))
    assert first.failure is not None
    assert first.failure.kind is FailureKind.OUTAGE
    assert again.failure is not None
    assert again.failure.message == first.failure.message
    assert len(codex.calls()) == 1


def test_the_real_program_is_preferred_to_its_launcher(codex: StandIn) -> None:
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    program = codex.root / "bin" / "codex"
    modules = codex.root / "node_modules" / "@openai"
    native = modules / f"codex-{sys.platform}-{machine}" / "vendor" / "triple" / "bin" / "codex"
    launcher = modules / "codex" / "bin" / "codex.js"
    for path in (native, launcher):
        path.parent.mkdir(parents=True)
    program.rename(native)
    launcher.write_text("#!/bin/sh\nexit 1\n")
    launcher.chmod(0o755)
    program.symlink_to(launcher)
    assert outcome(codex.run(agent)).failure is None
    native.unlink()
    failure = outcome(codex.run(agent, token="launcher")).failure
    assert failure is not None
    assert failure.kind is FailureKind.CRASH


def test_what_is_missing(codex: StandIn, tmp_path: Path) -> None:
    services = lend(Processes(tmp_path / "run"))
    assert agent(services).check() == []
    codex.environ.delenv("CODEX_API_KEY")
    codex.says([], status="Not logged in")
    (problem,) = agent(services).check()
    assert (problem.exit_code, "codex login" in problem.fix) == (4, True)
    assert agent(services, config=['model_provider="local"']).check() == []
    codex.says([], status="Logged in using ChatGPT")
    assert agent(services).check() == []
    codex.says([], version="codex 1")
    (problem,) = agent(services).check()
    assert problem.exit_code == 5
    assert "is not Codex" in problem.message
    (problem,) = agent(services, agent_cmd="codex-9").check()
    assert problem.exit_code == 5
    assert "npm install -g @openai/codex" in problem.fix


def session_file(home: Path, used: float, resets: float, total: int = 500) -> None:
    folder = home / "sessions" / "2026" / "11" / "16"
    folder.mkdir(parents=True, exist_ok=True)
    window = {"used_percent": used, "window_minutes": 300, "resets_at": int(resets)}
    counts = {"total_token_usage": {"input_tokens": total, "output_tokens": 7}}
    payload = {"type": "token_count", "info": counts, "rate_limits": {"primary": window, "secondary": None}}
    lines = [{"type": "session_meta"}, {"type": "event_msg", "payload": payload}, {"type": "response_item"}]
    text = "".join(json.dumps(line) + "\n" for line in lines) + '{"half'
    (folder / f"rollout-2026-11-16T09-37-15-{THREAD}.jsonl").write_text(text)


def test_the_session_file_knows_the_end_of_a_limit_and_the_tokens_of_a_failed_turn(tmp_path: Path) -> None:
    session_file(tmp_path, 100.0, NOW + 7200)
    lines = CodexLines(Mode.EDIT, home=tmp_path)
    read(lines, STARTED, TURN, turn_failed("exceeded retry limit, last status: 429 Too Many Requests"))
    found = lines.outcome(ended(1), NOW)
    assert found.failure is not None
    assert (found.failure.kind, found.failure.until) == (FailureKind.USAGE_LIMIT, NOW + 7205)
    assert found.usage == Usage(500, 7)
    session_file(tmp_path, 40.0, NOW + 7200)
    lines = CodexLines(Mode.EDIT, home=tmp_path)
    read(lines, STARTED, TURN, turn_failed("exceeded retry limit, last status: 429 Too Many Requests"))
    failure = lines.outcome(ended(1), NOW).failure
    assert failure is not None
    assert (failure.kind, failure.until) == (FailureKind.RATE_LIMIT, None)


def test_codex_that_keeps_trying_after_429_is_limited_and_not_away() -> None:
    said = "Reconnecting... 1/5 (exceeded retry limit, last status: 429 Too Many Requests)"
    lines = CodexLines(Mode.EDIT, was_given_up=lambda: True)
    read(lines, STARTED, TURN, {"type": "error", "message": said})
    failure = lines.outcome(ended(None, 15, "ended"), NOW).failure
    assert failure is not None
    assert failure.kind is FailureKind.RATE_LIMIT


def test_calls_that_codex_does_not_know_are_failed_uses_of_tools(tmp_path: Path) -> None:
    """A model that fits another version calls them by other names, and nothing of it is printed."""
    session_file(tmp_path, 40.0, NOW + 7200)
    (file,) = tmp_path.rglob("rollout-*.jsonl")
    refused = {"type": "function_call_output", "call_id": "c", "output": "unsupported call: shell"}
    begun = {"type": "event_msg", "payload": {"type": "task_started"}}
    known = {"type": "response_item", "payload": {**refused, "output": "It said: unsupported call"}}
    turn = [{"type": "response_item", "payload": refused}, known]
    file.write_text("".join(json.dumps(line) + "\n" for line in (*turn, begun, *turn)))
    lines = CodexLines(Mode.EDIT, home=tmp_path)
    read(lines, STARTED, TURN, {"type": "turn.completed", "usage": {}})
    facts = lines.outcome(ended(), NOW).facts
    assert (facts["tools"], facts["tools_failure"]) == (1, 1)
