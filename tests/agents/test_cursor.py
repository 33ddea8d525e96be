"""The cursor agent against a stand-in for the Cursor CLI: flags, events, outcomes, and every known defect."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from segue import check_agent
from segue.agents.cursor.agent import CursorAgent, CursorOptions
from segue.agents.cursor.lines import CursorLines
from segue.agents.local.launch import ProcessEnd
from segue.domain.events import (
    AgentOutput,
    AgentRaw,
    AgentText,
    AgentThought,
    AgentTool,
    AgentUsage,
    event_data,
)
from segue.domain.job import Job, Limits, Mode, Prompt
from segue.domain.outcome import FailureKind, Usage
from segue.domain.task import Task
from segue.parts.sim.launchers import write_launchers
from segue.prompts.task import execute_prompt
from segue.system.process.processes import Exit, Processes
from segue.system.services import Services
from tests.agents.items import Items, as_stored, failure, is_at_work, lend, of, outcome
from tests.patience import unhurried

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
        path = self.root / "script.toml"
        path.write_text(text)
        self.environ.setenv("SEGUE_SIM_AGENT", str(path))

    def faults(self, *names: str) -> None:
        self.environ.setenv("SEGUE_SIM_FAULTS", ",".join(names))

    def log(self) -> list[dict[str, Any]]:
        logs = [self.root / "script.toml.state", self.root / "bin" / ".segue-sim-agent.jsonl"]
        return [json.loads(line) for log in logs if log.exists() for line in log.read_text().splitlines()]

    def launches(self) -> list[dict[str, Any]]:
        return [line for line in self.log() if "argv" in line]

    def agent(self, services: Services, **options: Any) -> CursorAgent:
        return CursorAgent(CursorOptions(**options), services)

    def run(
        self,
        mode: Mode = Mode.EDIT,
        token: str = "token",
        prompt: Prompt = PROMPT,
        limits: Limits = LIMITS,
        model: str | None = None,
        session: str | None = None,
        forget: bool = False,
        **options: Any,
    ) -> Items:
        labels = {"run": "r", "task": "1", "phase": "execute", "attempt": "1"}
        job = Job(token, prompt, self.repo, mode, model, session, limits=limits, labels=labels)

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
    write_launchers(tmp_path / "bin")
    for name in ("CURSOR_API_KEY", "CURSOR_CONFIG_DIR", "XDG_CONFIG_HOME", "SEGUE_SIM_AGENT"):
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
        events = rehearsal.run(
            model="composer-2.5",
            session=session,
            force=False,
            sandbox=None,
            approve_mcps=True,
            extra_args=["--stream-partial-output"],
        )
        argv = rehearsal.launches()[0]["argv"]
        assert argv[3:] == [
            "--trust",
            "--approve-mcps",
            "--model",
            "composer-2.5",
            "--workspace",
            str(rehearsal.repo),
            f"--resume={session}",
            "--stream-partial-output",
        ]
        assert outcome(events).session == session
        assert outcome(events).model == "Composer 2.5"

    def test_a_session_goes_on(self, rehearsal: Rehearsal) -> None:
        rehearsal.script('logged_in = true\n[[on]]\nsay = "turn {turn}"\n')
        first = outcome(rehearsal.run(token="a"))
        second = outcome(rehearsal.run(token="b", session=first.session))
        assert (first.text, second.text) == ("turn 1", "turn 2")
        assert second.session == first.session

    def test_a_relative_path_is_no_command(self) -> None:
        with pytest.raises(ValueError, match="a name on PATH or an absolute path"):
            CursorOptions(agent_cmd="bin/agent")


class TestEvents:
    """What is kept of what Cursor prints."""

    def test_an_edit_is_told_in_common_words(self, rehearsal: Rehearsal) -> None:
        rehearsal.script(
            'logged_in = true\n[[on]]\nwrite = { "a/b.txt" = "hello" }\nshell = ["pytest -q"]\n'
            'say = "All done."\n'
            "usage = { inputTokens = 10, outputTokens = 5, cacheReadTokens = 100, cacheWriteTokens = 7 }\n"
        )
        events = rehearsal.run()
        assert failure(events) is None
        assert (rehearsal.repo / "a" / "b.txt").read_text() == "hello"
        tools = of(events, AgentTool)
        assert [(tool.name, tool.state, tool.status) for tool in tools] == [
            ("Bash", "started", ""),
            ("Bash", "completed", "success"),
            ("Write", "started", ""),
            ("Write", "completed", "success"),
        ]
        assert tools[0].input["command"] == "pytest -q"
        assert tools[0].id == tools[1].id != tools[2].id
        assert tools[1].result["exitCode"] == 0
        assert [data.text for data in of(events, AgentText)] == [
            "I will do it now.",
            "All done.",
        ]
        assert of(events, AgentUsage) == [AgentUsage(10, 5, cache_read_tokens=100, cache_write_tokens=7)]
        done = outcome(events)
        assert (done.text, done.model, done.usage) == ("All done.", "Auto", Usage(117, 5, cached_tokens=100))
        assert done.exit_code == 0

    @pytest.mark.thorough
    @pytest.mark.parametrize("shape", ["function", "case"])
    def test_older_shapes_of_tools_are_read(self, rehearsal: Rehearsal, shape: str) -> None:
        rehearsal.script(f'logged_in = true\n[[on]]\nshape = "{shape}"\nshell = ["make"]\n')
        bash = [data for data in of(rehearsal.run(), AgentTool) if data.name == "Bash"]
        assert [data.input["command"] for data in bash] == ["make", "make"]
        assert bash[1].status == "success"
        plan = rehearsal.run(Mode.PLAN, token="plan")
        assert outcome(plan).text.startswith("# Plan")

    def test_the_pieces_of_a_thought_are_one_event(self, rehearsal: Rehearsal) -> None:
        rehearsal.script("logged_in = true\n[[on]]\nthinking = 500\n")
        events = rehearsal.run()
        [thought] = of(events, AgentThought)
        assert thought.text == "".join(f"thought {number} " for number in range(500))
        assert len(events) < 20

    @pytest.mark.thorough
    def test_partial_output_is_not_told_twice(self, rehearsal: Rehearsal) -> None:
        rehearsal.script('logged_in = true\n[[on]]\nsay = "A last message of some length."\n')
        whole = rehearsal.run(token="whole")
        pieces = rehearsal.run(token="pieces", extra_args=["--stream-partial-output"])
        assert of(pieces, AgentText) == of(whole, AgentText)
        assert outcome(pieces).text == outcome(whole).text == "A last message of some length."

    def test_odd_lines_are_kept_and_hurt_nobody(self, rehearsal: Rehearsal) -> None:
        rehearsal.faults("not_json", "unknown_event", "bad_utf8")
        events = rehearsal.run()
        assert failure(events) is None
        assert "no JSON" in of(events, AgentOutput)[0].text
        raw = [data for data in of(events, AgentRaw) if data.kind == "telemetry"]
        assert raw[0].line["payload"] == {"deep": [1, 2, 3]}
        assert outcome(events).facts["unknown_lines"] == 1
        assert any("caf" in data.text for data in of(events, AgentText))

    @pytest.mark.thorough
    def test_rejected_tools_are_counted_and_mentioned(self, rehearsal: Rehearsal) -> None:
        rehearsal.script('logged_in = true\n[[on]]\nshell = ["ls", "pytest", "git status"]\n')
        events = rehearsal.run(force=False)
        assert failure(events) is None, "Cursor ends well with rejected tools; evidence decides"
        assert outcome(events).facts["tools_rejected"] == 2
        assert "rejected 2 of 4" in outcome(events).facts["note"]
        assert "note" not in outcome(rehearsal.run(token="forced")).facts

    def test_a_failing_command_is_no_failure_of_the_agent(self, rehearsal: Rehearsal) -> None:
        rehearsal.script('logged_in = true\n[[on]]\nshell = [{ command = "make", exit_code = 2 }]\n')
        events = rehearsal.run()
        assert failure(events) is None
        assert of(events, AgentTool)[1].status == "failure"
        assert outcome(events).facts["tools_failure"] == 1

    def test_the_key_is_never_seen(self, rehearsal: Rehearsal) -> None:
        rehearsal.environ.setenv("CURSOR_API_KEY", KEY)
        rehearsal.script(f'[[on]]\nsay = "{KEY}"\nshell = ["echo {KEY}"]\nstdout = "{KEY}"\n')
        events = as_stored(rehearsal.run(), KEY)
        assert failure(events) is None
        assert KEY not in repr(events)
        assert "[redacted]" in outcome(events).text


class TestPlan:
    """The plan is in a tool call, not in the result."""

    def test_the_plan_comes_from_the_tool_call(self, rehearsal: Rehearsal) -> None:
        rehearsal.script('logged_in = true\n[[on]]\nplan = "# Do it\\n1. Now"\nsay = "I made a plan."\n')
        events = rehearsal.run(Mode.PLAN)
        assert failure(events) is None
        assert outcome(events).text == "# Do it\n1. Now"

    def test_a_plan_in_plain_text_counts(self, rehearsal: Rehearsal) -> None:
        rehearsal.script('logged_in = true\n[[on]]\nplan = "1. Now"\nplan_as_text = true\n')
        assert outcome(rehearsal.run(Mode.PLAN)).text == "1. Now"

    @pytest.mark.parametrize("mode", [Mode.PLAN, Mode.ASK])
    def test_no_text_at_all_is_no_result(self, rehearsal: Rehearsal, mode: Mode) -> None:
        rehearsal.script('logged_in = true\n[[on]]\nplan = ""\nsay = ""\n')
        assert failure(rehearsal.run(mode)) is FailureKind.NO_RESULT

    def test_an_answer_is_the_last_message(self, rehearsal: Rehearsal) -> None:
        rehearsal.script('logged_in = true\n[[on]]\nsay = "42"\n')
        assert outcome(rehearsal.run(Mode.ASK)).text == "42"


class TestDefects:
    """Each defect of the headless CLI that is known, and what is done about it."""

    @pytest.mark.parametrize("start", ["-rf / --force\n", "x" * 300_000, "/help ✓ \n"])
    def test_any_prompt_goes_in_by_stdin(self, rehearsal: Rehearsal, start: str) -> None:
        prompt = Prompt(start + "the rest")
        assert failure(rehearsal.run(prompt=prompt)) is None
        (turn,) = [line for line in rehearsal.log() if "session" in line]
        assert turn["prompt_sha256"] == hashlib.sha256(prompt.text.encode()).hexdigest()

    def test_a_program_that_never_reads_its_stdin_blocks_nobody(self, rehearsal: Rehearsal) -> None:
        rehearsal.faults("ignore_stdin")
        assert failure(rehearsal.run(prompt=Prompt("x" * 1_000_000))) is None

    def test_a_process_that_stays_after_its_result_is_ended_and_has_succeeded(
        self, rehearsal: Rehearsal
    ) -> None:
        rehearsal.faults("hang_after_result", "orphan")
        events = rehearsal.run(result_grace=0.1)
        assert failure(events) is None
        assert outcome(events).text.startswith("Done")
        assert not is_at_work(f"SEGUE_JOB_FOLDER={rehearsal.root}/")
        again = rehearsal.run(result_grace=0.1)
        assert replace(outcome(again), duration=0.0, facts={}) == replace(
            outcome(events), duration=0.0, facts={}
        )
        assert len(rehearsal.launches()) == 1

    def test_a_result_that_is_an_error_stays_one_when_the_process_stays(self, rehearsal: Rehearsal) -> None:
        rehearsal.faults("hang_after_result", "error_result")
        assert failure(rehearsal.run(result_grace=0.1)) is not None

    @pytest.mark.thorough
    def test_a_result_within_the_time_limit_counts_when_nobody_was_there_to_end_it(
        self, rehearsal: Rehearsal
    ) -> None:
        rehearsal.faults("hang_after_result")

        def check(factor: float) -> None:
            limits = replace(LIMITS, wall=4 * factor)
            assert failure(rehearsal.run(token=f"in-{factor}", limits=limits, result_grace=600)) is None

        unhurried(check)

    @pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
    def test_a_child_that_holds_stdout_open_does_not_hold_us(self, rehearsal: Rehearsal) -> None:
        rehearsal.faults("orphan")
        assert failure(rehearsal.run()) is None
        assert not is_at_work(f"SEGUE_JOB_FOLDER={rehearsal.root}/")

    @pytest.mark.thorough
    def test_launches_do_not_race_on_the_configuration(self, rehearsal: Rehearsal) -> None:
        rehearsal.faults("config_race")
        assert failure(rehearsal.run(token="a")) is None
        assert failure(rehearsal.run(token="b")) is None
        first, second = (launch["config_dir"] for launch in rehearsal.launches())
        assert first != second
        shared = rehearsal.run(token="c", own_config_dir=False)
        assert failure(shared) is FailureKind.CRASH
        assert "own_config_dir" in str(outcome(shared).failure)

    def test_what_the_user_denied_stays_denied_in_the_own_folder(self, rehearsal: Rehearsal) -> None:
        config = rehearsal.root / "home" / ".cursor" / "cli-config.json"
        config.parent.mkdir()
        config.write_text('{"permissions": {"allow": [], "deny": ["Shell(rm)"]}}')
        (config.parent / "auth.json").write_text("{}")
        rehearsal.script('logged_in = true\n[[on]]\nshell = ["rm -rf /", "make"]\n')
        before = config.read_bytes()
        events = rehearsal.run()
        bash = [data for data in of(events, AgentTool) if data.status]
        assert [data.status for data in bash[:2]] == ["rejected", "success"]
        own = Path(rehearsal.launches()[0]["config_dir"])
        assert (own / "auth.json").readlink() == config.parent / "auth.json", "linked, never copied"
        assert config.read_bytes() == before

    def test_the_own_folder_goes_when_the_launch_is_forgotten(self, rehearsal: Rehearsal) -> None:
        rehearsal.run(forget=True)
        assert not Path(rehearsal.launches()[0]["config_dir"]).exists()

    def test_variables_of_the_editor_are_kept_away(self, rehearsal: Rehearsal) -> None:
        for name in ("CURSOR_TRACE_ID", "CURSOR_AGENT", "CURSOR_CONFIG_DIR", "VSCODE_PID", "CURSOR_API_KEY"):
            rehearsal.environ.setenv(name, KEY)
        rehearsal.run()
        (launch,) = rehearsal.launches()
        assert launch["env"] == ["CURSOR_API_KEY", "CURSOR_CONFIG_DIR"]
        assert launch["config_dir"] != KEY

    def test_a_line_of_ten_megabytes_leaves_room_for_what_follows(self, rehearsal: Rehearsal) -> None:
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
            ("empty", FailureKind.NO_RESULT, "without a result"),
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

    @pytest.mark.thorough
    def test_the_gates_are_explained(self, rehearsal: Rehearsal) -> None:
        untrusted = outcome(rehearsal.run(token="a", trust=False, force=False)).failure
        assert untrusted is not None
        assert (untrusted.kind, "agents.cursor.trust" in untrusted.message) == (FailureKind.NOT_STARTED, True)
        model = outcome(rehearsal.run(token="b", model="composer-1")).failure
        assert model is not None
        assert model.kind is FailureKind.NOT_STARTED
        assert "composer-1" in model.message
        assert "composer-2.5" in model.message, "it names those that can be used"
        session = outcome(rehearsal.run(token="c", session="mine")).failure
        assert session is not None
        assert session.kind is FailureKind.NOT_STARTED
        rehearsal.environ.setenv("SEGUE_SIM_LOGGED_IN", "0")
        assert failure(rehearsal.run(token="d")) is FailureKind.AUTH

    def test_an_exit_code_counts_more_than_a_result(self, rehearsal: Rehearsal) -> None:
        rehearsal.script("logged_in = true\n[[on]]\nexit_code = 3\n")
        assert failure(rehearsal.run()) is FailureKind.CRASH

    @pytest.mark.thorough
    @pytest.mark.parametrize("code", [0, 1])
    def test_a_quota_named_on_stdout_is_seen_with_any_exit_code(
        self, rehearsal: Rehearsal, code: int
    ) -> None:
        rehearsal.script(
            f'logged_in = true\n[[on]]\nfaults = ["no_result"]\nexit_code = {code}\n'
            'stdout = "w: You\'ve hit your usage limit. Try again in 2 hours."\n'
        )
        found = outcome(rehearsal.run()).failure
        assert found is not None
        assert found.kind is FailureKind.USAGE_LIMIT
        assert found.until is not None

    def test_talk_about_limits_is_no_limit(self, rehearsal: Rehearsal) -> None:
        rehearsal.script('logged_in = true\n[[on]]\nsay = "You\'ve hit your usage limit."\n')
        assert failure(rehearsal.run()) is None

    def test_usage_may_be_missing(self, rehearsal: Rehearsal) -> None:
        rehearsal.faults("no_usage")
        assert outcome(rehearsal.run()).usage is None

    def test_a_missing_program_is_not_started(self, rehearsal: Rehearsal) -> None:
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

    def test_it_also_works_inside_a_running_loop(self, rehearsal: Rehearsal) -> None:
        async def inside() -> list[tuple[int, str]]:
            return self.problems(rehearsal)

        assert asyncio.run(inside()) == []

    def test_not_found(self, rehearsal: Rehearsal) -> None:
        rehearsal.environ.setenv("PATH", str(rehearsal.root / "empty"))
        ((code, text),) = self.problems(rehearsal)
        assert code == 5
        assert "https://cursor.com/docs/cli/overview" in text

    def test_a_stranger_called_agent(self, rehearsal: Rehearsal) -> None:
        (rehearsal.root / "bin" / "cursor-agent").unlink()
        stranger = rehearsal.root / "bin" / "agent"
        stranger.write_text("#!/bin/sh\necho agent 1.0\n")
        ((code, text),) = self.problems(rehearsal)
        assert code == 5
        assert "not the Cursor CLI" in text
        assert "agent 1.0" in text

    def test_cursor_agent_is_found_before_agent(self, rehearsal: Rehearsal) -> None:
        (rehearsal.root / "bin" / "agent").write_text("#!/bin/sh\necho agent 1.0\n")
        assert self.problems(rehearsal) == []

    @pytest.mark.thorough
    def test_not_logged_in(self, rehearsal: Rehearsal) -> None:
        rehearsal.environ.setenv("SEGUE_SIM_LOGGED_IN", "0")
        ((code, text),) = self.problems(rehearsal)
        assert code == 4
        assert "CURSOR_API_KEY" in text
        rehearsal.environ.setenv("CURSOR_API_KEY", KEY)
        assert self.problems(rehearsal) == []
        assert self.problems(rehearsal, pass_env=[])[0][0] == 4, "a key that is not passed on is none"

    def test_a_status_nobody_understands_is_no_problem(self, rehearsal: Rehearsal) -> None:
        odd = rehearsal.root / "bin" / "cursor-agent"
        odd.write_text('#!/bin/sh\n[ "$1" = --version ] && echo 2026.09.28-64d2043 || exit 7\n')
        assert self.problems(rehearsal) == []


def test_the_cursor_agent_conforms(rehearsal: Rehearsal) -> None:
    def make(faults: str) -> Callable[[Services], CursorAgent]:
        script = rehearsal.root / f"{faults or 'none'}.json"
        script.write_text(json.dumps({"logged_in": True, "faults": faults.split()}))
        program = rehearsal.root / "bin" / f"agent-{faults or 'none'}"
        call = f'SEGUE_SIM_AGENT="{script}" exec "{rehearsal.root / "bin" / "agent"}" "$@"'
        program.write_text(f"#!/bin/sh\n{call}\n")
        program.chmod(0o755)
        return lambda services: rehearsal.agent(services, agent_cmd=str(program))

    check_agent(make(""), PROMPT, hangs=make("hang"))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_KEYS = ["type", "subtype", "session_id", "message", "tool_call", "usage", "result", "is_error", "call_id"]
_KINDS = ["system", "user", "thinking", "assistant", "tool_call", "interaction_query", "result", "else"]
_INNER = [
    "function",
    "tool",
    "shellToolCall",
    "createPlanToolCall",
    "args",
    "case",
    "content",
    "plan",
    "text",
]
_LINES = st.fixed_dictionaries(
    {"type": st.sampled_from(_KINDS) | _JSON},
    optional={
        key: _JSON | st.dictionaries(st.sampled_from(_INNER), _JSON, max_size=4)
        for key in _KEYS
        if key != "type"
    },
)


@given(st.lists(_LINES.map(json.dumps) | st.text(max_size=40) | st.text(max_size=20).map("{".__add__)))
def test_no_line_whatsoever_is_fatal(lines: list[str]) -> None:
    for mode in Mode:
        reader = CursorLines(mode)
        for line in lines:
            for event in reader.read(line) or []:
                json.dumps(event_data(event), allow_nan=False)
        end = Exit(0, None, None, "", 1.0, False, 1)
        done = reader.outcome(ProcessEnd(end, "", ""), now=0.0)
        assert done.failure is not None or reader.is_finished
        json.dumps(done.facts, allow_nan=False)


@pytest.mark.parametrize("place", ["args", "result"])
@pytest.mark.parametrize("value", ["é" * 100_000, ["x" * 3000] * 1000, {"deep": [[[[[[[[1] * 99] * 99]]]]]]}])
def test_events_stay_small(place: str, value: object) -> None:
    body: dict[str, object] = {"args": {"path": "x"}, "result": {"success": {}}}
    body[place] = {"success": {str(n): value for n in range(5)}}
    line = {"type": "tool_call", "subtype": "completed", "tool_call": {"readToolCall": body}}
    (event,) = CursorLines(Mode.EDIT).read(json.dumps(line)) or []
    assert len(json.dumps(event_data(event), ensure_ascii=False)) < 40_000


def test_git_is_untouched_by_plan_mode(rehearsal: Rehearsal) -> None:
    subprocess.run(["git", "init", "--quiet"], cwd=rehearsal.repo, check=True)
    rehearsal.run(Mode.PLAN)
    status = subprocess.run(["git", "status", "--porcelain"], cwd=rehearsal.repo, capture_output=True)
    assert status.stdout == b""
