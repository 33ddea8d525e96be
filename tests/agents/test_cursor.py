"""The cursor agent against a stand-in for the Cursor CLI: flags, events, outcomes, and every known defect."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from segue.agents.cursor.agent import CursorAgent, CursorOptions
from segue.agents.cursor.lines import CursorLines
from segue.agents.local.launch import ProcessEnd
from segue.domain.events import (
    AgentOutput,
    AgentRaw,
    AgentText,
    AgentTool,
    AgentUsage,
    event_data,
)
from segue.domain.job import Job, Limits, Mode, Prompt
from segue.domain.outcome import FailureKind, Usage
from segue.domain.task import Task
from segue.prompts.task import execute_prompt
from segue.system.process.processes import Exit, Processes
from segue.system.services import Services
from tests.agents.items import Items, failure, is_at_work, lend, of, outcome
from tests.conformance.agent import check_agent
from tests.fakes.cursor_cli import write_cli

KEY = "crsr_0123456789abcdef0123456789abcdef"
PROMPT = execute_prompt(Task("1", "Say hello", ""), "", nonce="test")
LIMITS = Limits(wall=60, idle=60, grace=0.3)


@dataclass
class Rehearsal:
    """The stand-in on a PATH, its script and what it remembers."""

    root: Path
    environ: pytest.MonkeyPatch

    @property
    def repo(self) -> Path:
        return self.root / "repo"

    def script(self, text: str) -> None:
        (self.root / "script.toml").write_text(text)

    def plays(self, entry: str) -> None:
        self.script(f"[[on]]\n{entry}")

    def faults(self, *names: str) -> None:
        self.script(f"faults = {json.dumps(names)}\n")

    def log(self) -> list[dict[str, Any]]:
        lines = (self.root / "script.toml.state").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def launches(self) -> list[dict[str, Any]]:
        return [line for line in self.log() if "argv" in line]

    def agent(self, services: Services, **options: Any) -> CursorAgent:
        return CursorAgent(CursorOptions(**options), services)

    def run(
        self,
        mode: Mode = Mode.EDIT,
        *,
        forget: bool = False,
        token: str = "token",
        prompt: Prompt = PROMPT,
        limits: Limits = LIMITS,
        model: str | None = None,
        session: str | None = None,
        **options: Any,
    ) -> Items:
        job = Job(token, prompt, self.repo, mode, model, session, limits=limits, labels={"task": "1"})

        async def collect() -> Items:
            async with Processes(self.root / "run") as processes:
                agent = self.agent(lend(processes, KEY), **options)
                events = [event async for event in agent.run(job)]
                if forget:
                    agent.forget(token)
                return events

        return asyncio.run(collect())


@pytest.fixture
def rehearsal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rehearsal:
    for folder in ("repo", "home", "bin"):
        (tmp_path / folder).mkdir()
    write_cli(tmp_path / "bin", tmp_path / "script.toml")
    for name in ("CURSOR_API_KEY", "CURSOR_CONFIG_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    return Rehearsal(tmp_path, monkeypatch)


class TestFlags:
    """What Cursor is asked, per mode."""

    def test_edit_mode_forces_trusts_and_turns_the_sandbox_off(self, rehearsal: Rehearsal) -> None:
        rehearsal.run()
        (launch,) = rehearsal.launches()
        workspace = str(rehearsal.repo)
        expected = ["-p", "--output-format", "stream-json", "--trust", "--force", "--sandbox", "disabled"]
        assert launch["argv"] == [*expected, "--workspace", workspace]
        assert launch["cwd"] == workspace

    @pytest.mark.parametrize("mode", [Mode.PLAN, Mode.ASK])
    def test_plan_and_ask_never_force(self, rehearsal: Rehearsal, mode: Mode) -> None:
        rehearsal.run(mode, force=True, sandbox="enabled")
        argv = rehearsal.launches()[0]["argv"]
        assert argv[argv.index("--mode") + 1] == mode.value
        assert "--force" not in argv
        assert "--sandbox" not in argv
        assert list(rehearsal.repo.iterdir()) == []

    def test_model_session_and_options_become_arguments(self, rehearsal: Rehearsal) -> None:
        session = "11111111-2222-4333-8444-555555555555"
        more: dict[str, Any] = {"force": False, "sandbox": None, "approve_mcps": True}
        more["extra_args"] = ["--stream-partial-output"]
        events = rehearsal.run(model="composer-2.5", session=session, **more)
        argv = rehearsal.launches()[0]["argv"]
        named = ["--trust", "--approve-mcps", "--model", "composer-2.5", "--workspace", str(rehearsal.repo)]
        assert argv[3:] == [*named, f"--resume={session}", "--stream-partial-output"]
        assert outcome(events).session == session
        assert outcome(events).model == "Composer 2.5"

    def test_session_goes_on(self, rehearsal: Rehearsal) -> None:
        rehearsal.plays('say = "turn {turn}"\n')
        first = outcome(rehearsal.run(token="a"))
        second = outcome(rehearsal.run(token="b", session=first.session))
        assert (first.text, second.text) == ("turn 1", "turn 2")
        assert second.session == first.session


class TestEvents:
    """What is kept of what Cursor prints."""

    def test_edit_is_told_in_common_words(self, rehearsal: Rehearsal) -> None:
        rehearsal.plays(
            'write = { "a/b.txt" = "hello" }\nshell = ["pytest -q"]\n'
            'say = "All done."\n'
            "usage = { inputTokens = 10, outputTokens = 5, cacheReadTokens = 100, cacheWriteTokens = 7 }\n"
        )
        events = rehearsal.run()
        assert failure(events) is None
        assert (rehearsal.repo / "a" / "b.txt").read_text() == "hello"
        tools = of(events, AgentTool)
        states = [("started", ""), ("completed", "success")]
        assert [(tool.name, tool.state, tool.status) for tool in tools] == [
            (name, *state) for name in ("Bash", "Write") for state in states
        ]
        assert tools[0].input["command"] == "pytest -q"
        assert tools[0].id == tools[1].id != tools[2].id
        assert tools[1].result["exitCode"] == 0
        assert [data.text for data in of(events, AgentText)] == ["I will do it now.", "All done."]
        assert of(events, AgentUsage) == [AgentUsage(10, 5, cache_read_tokens=100, cache_write_tokens=7)]
        done = outcome(events)
        assert (done.text, done.model, done.usage) == ("All done.", "Auto", Usage(117, 5, cached_tokens=100))
        assert done.exit_code == 0

    def test_odd_lines_are_kept_and_hurt_nobody(self, rehearsal: Rehearsal) -> None:
        rehearsal.faults("not_json", "unknown_event", "bad_utf8")
        events = rehearsal.run()
        assert failure(events) is None
        assert "no JSON" in of(events, AgentOutput)[0].text
        raw = [data for data in of(events, AgentRaw) if data.kind == "telemetry"]
        assert raw[0].line["payload"] == {"deep": [1, 2, 3]}
        assert outcome(events).facts["unknown_lines"] == 1
        assert any("caf" in data.text for data in of(events, AgentText))

    def test_rejected_tools_are_counted_and_mentioned(self, rehearsal: Rehearsal) -> None:
        rehearsal.plays('shell = ["ls", "pytest", "git status"]\n')
        events = rehearsal.run(force=False)
        assert failure(events) is None, "Cursor ends well with rejected tools; evidence decides"
        assert outcome(events).facts["tools_rejected"] == 2
        assert "rejected 2 of 4" in outcome(events).facts["note"]
        assert "note" not in outcome(rehearsal.run(token="forced")).facts


class TestPlan:
    """The plan is in a tool call, not in the result."""

    def test_plan_comes_from_the_tool_call(self, rehearsal: Rehearsal) -> None:
        rehearsal.plays('plan = "# Do it\\n1. Now"\nsay = "I made a plan."\n')
        events = rehearsal.run(Mode.PLAN)
        assert failure(events) is None
        assert outcome(events).text == "# Do it\n1. Now"

    def test_plan_in_plain_text_counts(self, rehearsal: Rehearsal) -> None:
        rehearsal.plays('plan = "1. Now"\nplan_as_text = true\n')
        assert outcome(rehearsal.run(Mode.PLAN)).text == "1. Now"

    @pytest.mark.parametrize("mode", [Mode.PLAN, Mode.ASK])
    def test_no_text_at_all_is_no_result(self, rehearsal: Rehearsal, mode: Mode) -> None:
        rehearsal.plays('plan = ""\nsay = ""\n')
        assert failure(rehearsal.run(mode)) is FailureKind.NO_RESULT


class TestDefects:
    """Each defect of the headless CLI that is known, and what is done about it."""

    @pytest.mark.parametrize("start", ["-rf / --force ✓\n", "x" * 300_000])
    def test_any_prompt_goes_in_by_stdin(self, rehearsal: Rehearsal, start: str) -> None:
        prompt = Prompt(start + "the rest")
        assert failure(rehearsal.run(prompt=prompt)) is None
        (turn,) = [line for line in rehearsal.log() if "session" in line]
        assert turn["prompt_sha256"] == hashlib.sha256(prompt.text.encode()).hexdigest()

    def test_program_that_never_reads_its_stdin_blocks_nobody(self, rehearsal: Rehearsal) -> None:
        rehearsal.faults("ignore_stdin")
        assert failure(rehearsal.run(prompt=Prompt("x" * 1_000_000))) is None

    def test_process_that_stays_after_its_result_is_ended_and_has_succeeded(
        self, rehearsal: Rehearsal
    ) -> None:
        rehearsal.faults("hang_after_result", "orphan")
        events = rehearsal.run(result_grace=0.1)
        assert failure(events) is None
        assert outcome(events).text.startswith("Done")
        assert not is_at_work(f"SEGUE_JOB_FOLDER={rehearsal.root}/")
        assert outcome(rehearsal.run(result_grace=0.1)).text == outcome(events).text
        assert len(rehearsal.launches()) == 1

    def test_what_the_user_denied_stays_denied_in_the_own_folder(self, rehearsal: Rehearsal) -> None:
        config = rehearsal.root / "home" / ".cursor" / "cli-config.json"
        config.parent.mkdir()
        config.write_text('{"permissions": {"allow": [], "deny": ["Shell(rm)"]}}')
        (config.parent / "auth.json").write_text("{}")
        rehearsal.plays('shell = ["rm -rf /", "make"]\n')
        before = config.read_bytes()
        events = rehearsal.run()
        bash = [data for data in of(events, AgentTool) if data.status]
        assert [data.status for data in bash[:2]] == ["rejected", "success"]
        own = Path(rehearsal.launches()[0]["config_dir"])
        assert (own / "auth.json").readlink() == config.parent / "auth.json", "linked, never copied"
        assert config.read_bytes() == before

    def test_own_folder_goes_when_the_launch_is_forgotten(self, rehearsal: Rehearsal) -> None:
        rehearsal.run(forget=True)
        assert not Path(rehearsal.launches()[0]["config_dir"]).exists()

    def test_variables_of_the_editor_are_kept_away(self, rehearsal: Rehearsal) -> None:
        for name in ("CURSOR_TRACE_ID", "CURSOR_AGENT", "CURSOR_CONFIG_DIR", "VSCODE_PID", "CURSOR_API_KEY"):
            rehearsal.environ.setenv(name, KEY)
        rehearsal.run()
        (launch,) = rehearsal.launches()
        assert launch["env"] == ["CURSOR_API_KEY", "CURSOR_CONFIG_DIR"]
        assert launch["config_dir"] != KEY

    def test_line_of_ten_megabytes_leaves_room_for_what_follows(self, rehearsal: Rehearsal) -> None:
        rehearsal.faults("long_line")
        events = rehearsal.run()
        assert failure(events) is None
        assert len(repr(events)) < 50_000
        assert any(data.name == "Write" for data in of(events, AgentTool))

    @pytest.mark.parametrize("fault", ["hang_before_init", "hang"])
    def test_silence_is_ended(self, rehearsal: Rehearsal, fault: str) -> None:
        rehearsal.faults(fault)
        assert failure(rehearsal.run(limits=replace(LIMITS, idle=1.5))) is FailureKind.HANG
        assert not is_at_work(f"SEGUE_JOB_FOLDER={rehearsal.root}/")


class TestFailures:
    """Why it failed, in words that every agent shares."""

    @pytest.mark.parametrize(
        ("fault", "kind", "said"),
        [
            ("no_result", FailureKind.NO_RESULT, "without a result"),
            ("truncated", FailureKind.TRUNCATED, "middle of a line"),
            ("quota", FailureKind.USAGE_LIMIT, "resource_exhausted"),
            ("bad_key", FailureKind.AUTH, "CURSOR_API_KEY"),
            ("error_result", FailureKind.UNKNOWN, "Done"),
        ],
    )
    def test_each_fault_has_its_kind(
        self, rehearsal: Rehearsal, fault: str, kind: FailureKind, said: str
    ) -> None:
        rehearsal.faults(fault)
        found = outcome(rehearsal.run()).failure
        assert found is not None
        assert found.kind is kind
        assert said in found.message

    def test_exit_code_counts_more_than_a_result(self, rehearsal: Rehearsal) -> None:
        rehearsal.plays("exit_code = 3\n")
        assert failure(rehearsal.run()) is FailureKind.CRASH

    def test_quota_named_on_stdout_is_seen(self, rehearsal: Rehearsal) -> None:
        rehearsal.plays(
            'faults = ["no_result"]\nexit_code = 0\n'
            'stdout = "w: You\'ve hit your usage limit. Try again in 2 hours."\n'
        )
        found = outcome(rehearsal.run()).failure
        assert found is not None
        assert found.kind is FailureKind.USAGE_LIMIT
        assert found.until is not None

    def test_talk_about_limits_is_no_limit(self, rehearsal: Rehearsal) -> None:
        rehearsal.plays('say = "You\'ve hit your usage limit."\n')
        assert failure(rehearsal.run()) is None

    def test_missing_program_is_not_started(self, rehearsal: Rehearsal) -> None:
        events = rehearsal.run(agent_cmd="no-such-agent")
        assert failure(events) is FailureKind.NOT_STARTED


class TestCheck:
    """What keeps it from working is found before anything starts."""

    def problems(self, rehearsal: Rehearsal, **options: Any) -> list[tuple[int, str]]:
        agent = rehearsal.agent(lend(Processes(rehearsal.root)), **options)
        return [(problem.exit_code, problem.message + problem.fix) for problem in agent.check()]

    def test_all_is_well(self, rehearsal: Rehearsal) -> None:
        assert self.problems(rehearsal) == []
        assert self.problems(rehearsal, agent_cmd=str(rehearsal.root / "bin" / "agent")) == []

    def test_not_found(self, rehearsal: Rehearsal) -> None:
        rehearsal.environ.setenv("PATH", str(rehearsal.root / "empty"))
        ((code, text),) = self.problems(rehearsal)
        assert code == 5
        assert "https://cursor.com/docs/cli/overview" in text

    def test_stranger_called_agent(self, rehearsal: Rehearsal) -> None:
        (rehearsal.root / "bin" / "cursor-agent").unlink()
        stranger = rehearsal.root / "bin" / "agent"
        stranger.write_text("#!/bin/sh\necho agent 1.0\n")
        ((code, text),) = self.problems(rehearsal)
        assert code == 5
        assert "not the Cursor CLI" in text
        assert "agent 1.0" in text

    def test_not_logged_in(self, rehearsal: Rehearsal) -> None:
        rehearsal.script("logged_in = false\n")
        ((code, text),) = self.problems(rehearsal)
        assert code == 4
        assert "CURSOR_API_KEY" in text
        rehearsal.environ.setenv("CURSOR_API_KEY", KEY)
        assert self.problems(rehearsal) == []
        assert self.problems(rehearsal, pass_env=[])[0][0] == 4, "a key that is not passed on is none"

    def test_status_nobody_understands_is_no_problem(self, rehearsal: Rehearsal) -> None:
        odd = rehearsal.root / "bin" / "cursor-agent"
        odd.write_text('#!/bin/sh\n[ "$1" = --version ] && echo 2026.09.28-64d2043 || exit 7\n')
        assert self.problems(rehearsal) == []


def test_cursor_agent_conforms(rehearsal: Rehearsal) -> None:
    def make(faults: tuple[str, ...]) -> Callable[[Services], CursorAgent]:
        script = rehearsal.root / f"{''.join(faults) or 'none'}.json"
        script.write_text(json.dumps({"faults": faults}))
        write_cli(script.with_suffix(""), script)
        program = str(script.with_suffix("") / "agent")
        return lambda services: rehearsal.agent(services, agent_cmd=program)

    check_agent(make(()), PROMPT, hangs=make(("hang",)))


@pytest.mark.parametrize(
    "call",
    [
        {"shellToolCall": {"args": {"command": "make"}, "result": {"success": {}}}},
        {"toolCallId": "x", "shellToolCall": {"args": {"command": "make"}, "result": {"success": {}}}},
        {
            "function": {"name": "run_terminal_cmd", "arguments": '{"command": "make"}'},
            "result": {"success": {}},
        },
        {
            "tool": {
                "case": "shellToolCall",
                "value": {"args": {"command": "make"}, "result": {"success": {}}},
            }
        },
    ],
)
def test_every_shape_of_tool_call_is_read(call: dict[str, Any]) -> None:
    line = {"type": "tool_call", "subtype": "completed", "call_id": "1", "tool_call": call}
    (event,) = CursorLines(Mode.EDIT).read(json.dumps(line)) or []
    assert isinstance(event, AgentTool)
    assert (event.name, event.input, event.status) == ("Bash", {"command": "make"}, "success")


_INNER = [
    "type",
    "subtype",
    "message",
    "tool_call",
    "function",
    "shellToolCall",
    "args",
    "case",
    "content",
    "plan",
]
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_INNER), inner, max_size=4),
    max_leaves=8,
)
_KINDS = ["system", "user", "thinking", "assistant", "tool_call", "interaction_query", "result", "else"]
_KEYS = ["subtype", "session_id", "message", "tool_call", "usage", "result", "is_error", "call_id"]
_LINES = st.fixed_dictionaries(
    {"type": st.sampled_from(_KINDS) | _JSON}, optional=dict.fromkeys(_KEYS, _JSON)
)


@given(st.lists(_LINES.map(json.dumps) | st.text(max_size=40) | st.text(max_size=20).map("{".__add__)))
def test_no_line_is_fatal(lines: list[str]) -> None:
    for mode in Mode:
        reader = CursorLines(mode)
        for line in lines:
            for event in reader.read(line) or []:
                json.dumps(event_data(event), allow_nan=False)
        end = Exit(0, None, None, "", 1.0, False, 1)
        done = reader.outcome(ProcessEnd(end, "", ""), now=0.0)
        assert done.failure is not None or reader.is_finished
        json.dumps(done.facts, allow_nan=False)
