"""Agents that speak ACP, through the real driver, against stand-ins with all their defects."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec import structs
from msgspec.structs import replace

from segue import check_agent
from segue.agents.acp import agent as acp
from segue.agents.acp.agent import AcpKind
from segue.agents.acp.lines import read_error
from segue.agents.acp.profiles import ModelChoice, Profile, load_profiles
from segue.agents.local.failures import FailureTable
from segue.domain.events import AgentRaw, AgentText, AgentThought, AgentTool, event_data
from segue.domain.job import Job, Mode
from segue.domain.options import read_options
from segue.domain.outcome import FailureKind
from segue.domain.task import Task
from segue.prompts.task import execute_prompt
from segue.system.process.processes import Processes
from tests.agents.acp_place import KINDS, Stage, make_stage
from tests.agents.items import events as events_of
from tests.agents.items import failure, lend, of, outcome
from tests.agents.stand_in import LIMITS, PROMPT
from tests.patience import unhurried
from tests.shebang import shebang
from tests.system.process_driver import left_behind, supervisor_pids, wait_for

COPILOT_PLAN = "https://agentclientprotocol.com/protocol/session-modes#plan"


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return make_stage(tmp_path, monkeypatch)


RETRYING = "Info: Request failed due to a transient API error. Retrying..."
"""What Copilot's message begins with, or contains, where a request was repeated."""


class TestSocket:
    """The promises of the socket."""

    @pytest.mark.thorough
    @pytest.mark.quick("opencode")
    @pytest.mark.parametrize("name", ["gemini", "opencode"])
    def test_it_conforms(self, stage: Stage, name: str) -> None:
        hanging = stage.root / "hang.toml"
        hanging.write_text('faults = ["hang", "stay", "ignore_cancel", "orphan"]\n')
        profile = KINDS[name].profile
        stuck = AcpKind("stuck", structs.replace(profile, env={"SEGUE_SIM_ACP": str(hanging)}))
        check_agent(
            stage.making(KINDS[name]), PROMPT, hangs=stage.making(stuck), limits=replace(LIMITS, grace=1)
        )

    @pytest.mark.thorough
    @pytest.mark.quick("cursor-acp")
    @pytest.mark.parametrize("name", KINDS)
    def test_every_profile_edits_plans_answers_and_goes_on(self, stage: Stage, name: str) -> None:
        kind = KINDS[name]
        first = stage.run(kind, token="a")
        assert failure(first) is None
        (made,) = stage.repo.iterdir()
        for mode in (Mode.PLAN, Mode.ASK):
            quiet = outcome(stage.run(kind, mode, token=mode.value))
            assert (quiet.failure, bool(quiet.text)) == (None, True)
        again = stage.run(kind, token="b", session=outcome(first).session)
        assert outcome(again).session == outcome(first).session
        assert made.read_text().count("Changed") == 2
        assert "said before" not in outcome(again).text
        modes = [line["mode"] for line in stage.log("prompt")]
        names = kind.profile.modes
        assert modes == [names.edit, names.plan, names.ask, names.edit]

    @pytest.mark.thorough
    def test_it_says_what_is_installed(self, stage: Stage) -> None:
        with_key = {"gemini": "GEMINI_API_KEY", "cursor-acp": "CURSOR_API_KEY"}
        for name in with_key.values():
            stage.environ.setenv(name, "k-0123456789")
        services = lend(Processes(stage.root / "run"))
        found = {name: stage.agent(kind, services).installation() for name, kind in KINDS.items()}
        assert {name: one.version for name, one in found.items()} == {
            "gemini": "0.61.0",
            "copilot": "1.0.102",
            "opencode": "1.18.18",
            "qwen": "0.24.4",
            "vibe": "3.0.3",
            "cursor-acp": "2026.09.28-64d2043",
        }
        assert all(Path(one.program or "").parent == stage.root / "bin" for one in found.values())
        assert {name: one.login for name, one in found.items()} == {
            name: with_key.get(name, "not known") for name in KINDS
        }

    def test_a_missing_and_a_wrong_program_are_problems(self, stage: Stage) -> None:
        services = lend(Processes(stage.root / "run"))
        (missing,) = stage.agent(acp.QWEN, services, agent_cmd="/nowhere/qwen").check()
        assert (missing.exit_code, "npm install -g @qwen-code/qwen-code" in missing.fix) == (5, True)
        (wrong,) = stage.agent(acp.GEMINI, services, agent_cmd="git").check()
        assert "is not Gemini CLI" in wrong.message


class TestPermissions:
    """What is answered when the agent asks."""

    def test_in_edit_mode_everything_is_allowed_for_once(self, stage: Stage) -> None:
        stage.script('[[on]]\nshell = ["make"]\nwrite = { "a.txt" = "x" }\n')
        events = stage.run()
        assert [line["outcome"]["optionId"] for line in stage.log("permission")] == ["once", "once"]
        assert (stage.repo / "a.txt").read_text() == "x"
        assert "permission_denials" not in outcome(events).facts

    def test_some_things_are_denied_and_told(self, stage: Stage) -> None:
        stage.script('[[on]]\nshell = ["rm -rf x"]\nwrite = { "a.txt" = "x" }\n')
        events = stage.run(permissions="edits")
        assert [line["outcome"]["optionId"] for line in stage.log("permission")] == ["no", "once"]
        assert outcome(events).failure is None
        assert outcome(events).facts["permission_denials"] == 1
        assert "agents.gemini.permissions" in outcome(events).facts["note"]
        ended = {tool.name: tool.status for tool in of(events, AgentTool) if tool.status}
        assert ended == {"Bash": "rejected", "Write": "success"}

    def test_an_editing_job_that_was_denied_everything_was_refused(self, stage: Stage) -> None:
        assert failure(stage.run(permissions="read")) is FailureKind.REFUSED
        assert list(stage.repo.iterdir()) == []

    def test_reading_alone_is_no_work(self, stage: Stage) -> None:
        stage.script('[[on]]\nread = ["README.md"]\n')
        assert failure(stage.run(permissions="read")) is FailureKind.REFUSED

    @pytest.mark.parametrize("mode", [Mode.PLAN, Mode.ASK])
    def test_an_agent_that_asks_in_plan_mode_is_denied(self, stage: Stage, mode: Mode) -> None:
        stage.faults("plan_asks")
        events = stage.run(acp.OPENCODE, mode)
        assert outcome(events).failure is None
        assert outcome(events).facts["permission_denials"] == 1
        assert list(stage.repo.iterdir()) == []

    def test_a_turn_that_ends_because_of_a_denial_was_refused(self, stage: Stage) -> None:
        stage.faults("reject_cancels")
        assert failure(stage.run(permissions="read")) is FailureKind.REFUSED


class TestTalk:
    """What goes over the wire besides."""

    def test_tools_and_words_become_events(self, stage: Stage) -> None:
        stage.script(
            '[[on]]\nread = ["a"]\nshell = ["make test"]\nwrite = { "b.txt" = "y" }\nsay = "All is done."\n'
        )
        events = stage.run(acp.COPILOT)
        tools = of(events, AgentTool)
        assert [(tool.name, tool.state) for tool in tools] == [
            (name, state) for name in ("Read", "Bash", "Write") for state in ("started", "completed")
        ]
        assert tools[3].input == {"command": "make test"}
        assert (tools[3].status, tools[3].details["kind"]) == ("success", "execute")
        assert of(events, AgentText) == [AgentText("All is done.")]
        assert of(events, AgentThought) == [AgentThought("thought 0thought 1")]
        assert outcome(events).text == "All is done."
        assert outcome(events).facts["tools_success"] == 3

    @pytest.mark.parametrize("kind", [acp.GEMINI, acp.COPILOT])
    def test_each_call_starts_once_whether_it_is_told_before_it_is_asked_or_not(
        self, stage: Stage, kind: AcpKind
    ) -> None:
        tools = of(stage.run(kind), AgentTool)
        assert [tool.state for tool in tools] == ["started", "completed"]
        assert tools[0].name == tools[1].name == "Write"

    def test_a_call_that_is_told_of_at_its_end_has_both_events(self, stage: Stage) -> None:
        stage.script('[[on]]\nread = ["a"]\nwrite = {}\nfaults = ["late_tool"]\n')
        assert [tool.state for tool in of(stage.run(), AgentTool)] == ["started", "completed"]

    def test_requests_nobody_knows_and_noise_do_no_harm(self, stage: Stage) -> None:
        stage.faults("unknown_request", "unknown_update", "noise")
        events = stage.run()
        assert outcome(events).failure is None
        lines = str(of(events, AgentRaw))
        assert "sim/made_up" in lines
        assert "weather_update" in lines
        assert "this line is no JSON" in lines

    @pytest.mark.thorough
    def test_a_line_of_ten_megabytes_is_read(self, stage: Stage) -> None:
        stage.faults("long_line")
        events = stage.run()
        assert outcome(events).failure is None
        assert all(len(json.dumps(event_data(event))) < 100_000 for event in events_of(events))

    @pytest.mark.thorough
    def test_a_prompt_of_ten_megabytes_arrives(self, stage: Stage) -> None:
        prompt = execute_prompt(Task("1", "Much", "ü'\"\n" * 2_000_000), "", nonce="test")
        assert failure(stage.run(prompt=prompt)) is None
        (turn,) = stage.log("prompt")
        assert turn["sha256"] == hashlib.sha256(prompt.text.encode()).hexdigest()

    def test_the_agent_sees_only_what_it_may(self, stage: Stage) -> None:
        stage.environ.setenv("GEMINI_API_KEY", "k-0123456789")
        stage.environ.setenv("OPENAI_API_KEY", "not-yours")
        stage.environ.setenv("MINE", "yes")
        stage.run(pass_env=["MINE"], env={"EXTRA": "1"})
        (launch,) = stage.log("launch")
        assert {"GEMINI_API_KEY", "MINE", "EXTRA", "GEMINI_CLI_HOME", "SEGUE_TASK"} <= set(launch["env"])
        assert "OPENAI_API_KEY" not in launch["env"]
        assert launch["cwd"] == str(stage.repo)

    @pytest.mark.thorough
    def test_the_login_of_the_user_is_used_without_a_key(self, stage: Stage) -> None:
        stage.run(token="a")
        stage.environ.setenv("GEMINI_API_KEY", "k-0123456789")
        stage.run(token="b", own_config_dir=False)
        assert all("GEMINI_CLI_HOME" not in launch["env"] for launch in stage.log("launch"))

    def test_the_quiet_settings_are_where_the_agent_is_told(self, stage: Stage) -> None:
        stage.run()
        (file,) = (stage.root / "run").rglob("settings.json")
        assert json.loads(file.read_text())["privacy"] == {"usageStatisticsEnabled": False}

    @pytest.mark.thorough
    def test_the_model_by_argument_or_option_and_further_arguments(self, stage: Stage) -> None:
        stage.run(token="a", model="pro", extra_args=["--debug"])
        stage.run(acp.OPENCODE, token="b", model="stub/large")
        assert stage.log("launch")[0]["argv"] == ["--acp", "--skip-trust", "-m", "pro", "--debug"]
        assert [turn["model"] for turn in stage.log("prompt")] == ["", "stub/large"]

    @pytest.mark.thorough
    def test_a_model_that_cannot_be_told_or_is_unknown_is_an_error(self, stage: Stage) -> None:
        mute = AcpKind("mute", structs.replace(load_profiles()["gemini"], model=ModelChoice()))
        assert failure(stage.run(mute, token="a", model="pro")) is FailureKind.NOT_STARTED
        unknown = outcome(stage.run(acp.OPENCODE, token="b", model="unknown")).failure
        assert unknown
        assert unknown.kind is FailureKind.NOT_STARTED
        assert "does not accept the model" in unknown.message
        assert stage.log("prompt") == []

    def test_a_mode_the_agent_does_not_know_stops_it_before_the_prompt(self, stage: Stage) -> None:
        events = stage.run(mode=Mode.PLAN, modes={"plan": "architect"})
        assert failure(events) is FailureKind.NOT_STARTED
        assert stage.log("prompt") == []

    def test_modes_can_be_renamed(self, stage: Stage) -> None:
        stage.run(modes={"edit": "yolo"})
        assert stage.log("prompt")[0]["mode"] == "yolo"
        assert stage.log("permission") == []

    @pytest.mark.thorough
    def test_usage_and_the_part_of_the_cost_that_is_new(self, stage: Stage) -> None:
        usage = "usage = { inputTokens = 100, outputTokens = 7, cachedReadTokens = 50, totalTokens = 157 }"
        stage.script(f"[[on]]\nlaunch = 1\n{usage}\ncost = 0.25\n[[on]]\nlaunch = 2\ncost = 0.75\n")
        first = outcome(stage.run(token="a"))
        assert first.usage
        assert (first.usage.input_tokens, first.usage.output_tokens, first.usage.cost_usd) == (150, 7, 0.25)
        second = outcome(stage.run(token="b", session=first.session))
        assert second.usage
        assert second.usage.cost_usd == 0.5
        assert outcome(stage.run(token="c")).usage is None

    @pytest.mark.thorough
    def test_authentication_when_it_is_demanded(self, stage: Stage) -> None:
        stage.faults("auth")
        assert failure(stage.run(token="a")) is None
        refused = outcome(stage.run(acp.VIBE, token="b")).failure
        assert refused
        assert refused.kind is FailureKind.AUTH
        assert "MISTRAL_API_KEY" in refused.message

    @pytest.mark.thorough
    def test_a_session_may_have_to_wait_for_the_next_minute(self, stage: Stage) -> None:
        stage.waits = True
        session = outcome(stage.run()).session
        (noted,) = stage.root.glob("run/**/begun")
        os.utime(noted, (time.time() - 120,) * 2)
        later = stage.run(token="later", session=session)
        assert [raw for raw in of(later, AgentRaw) if raw.kind == "wait"] == []
        os.utime(noted, (time.time() + 3600,) * 2)  # even then no longer than a minute

        def check(factor: float) -> None:
            limits = replace(LIMITS, wall=3 * factor)
            soon = stage.run(token=f"soon-{factor}", session=session, limits=limits)
            assert [raw.line["seconds"] for raw in of(soon, AgentRaw) if raw.kind == "wait"] == [60]
            assert failure(soon) is FailureKind.TIMEOUT

        unhurried(check)

    def test_a_session_nobody_knows_is_not_begun_anew(self, stage: Stage) -> None:
        events = stage.run(session="no-such-session")
        assert failure(events) is FailureKind.NOT_STARTED
        assert stage.log("prompt") == []

    def test_a_way_to_continue_that_is_announced_and_missing_has_another_one(self, stage: Stage) -> None:
        """As of Qwen Code 0.15."""
        stage.faults("no_resume")
        first = outcome(stage.run(acp.OPENCODE, token="a"))
        again = outcome(stage.run(acp.OPENCODE, token="b", session=first.session))
        assert (again.failure, again.session) == (None, first.session)

    @pytest.mark.thorough
    @pytest.mark.parametrize("fault", ["", "late_history"])
    def test_the_past_of_a_session_is_not_taken_for_its_work(self, stage: Stage, fault: str) -> None:
        first = outcome(stage.run(token="a"))
        stage.faults(fault)
        events = stage.run(token="b", session=first.session, permissions="read")
        assert failure(events) is FailureKind.REFUSED
        assert outcome(events).text == first.text
        assert [tool.details["title"] for tool in of(events, AgentTool)] != ["Old"]

    def test_a_plan_that_comes_as_a_request_is_the_plan(self, stage: Stage) -> None:
        """Cursor's way; the other side of the wire is a few lines here."""
        program = stage.root / "bin" / "planner"
        program.write_text(PLANNER.format(shebang=shebang()))
        program.chmod(0o755)
        events = stage.run(acp.CURSOR, Mode.PLAN, agent_cmd=str(program))
        assert outcome(events).text == "# Plan\n\n1. Do it."
        assert outcome(events).failure is None
        assert json.loads((stage.repo / "answer").read_text()) == {"outcome": {"outcome": "cancelled"}}


PLANNER = """{shebang}
import json, sys
def say(**message): print(json.dumps({{"jsonrpc": "2.0", **message}}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if "method" not in message:
        open("answer", "w").write(json.dumps(message["result"]))
        say(id=prompt, result={{"stopReason": "end_turn"}})
    elif message["method"] == "session/prompt":
        prompt = message["id"]
        say(id="p", method="cursor/create_plan", params={{"plan": "# Plan\\n\\n1. Do it.", "todos": []}})
    else:
        say(id=message["id"], result={{"protocolVersion": 1, "sessionId": "s"}})
"""


class TestFailures:
    """How launches end that do not end well."""

    @pytest.mark.quick("tired-unknown")
    @pytest.mark.parametrize(
        ("reason", "kind"),
        [
            ("max_tokens", FailureKind.TRUNCATED),
            ("max_turn_requests", FailureKind.MAX_TURNS),
            ("refusal", FailureKind.REFUSED),
            ("cancelled", FailureKind.INTERRUPTED),
            ("tired", FailureKind.UNKNOWN),
        ],
    )
    def test_a_turn_that_ends_for_no_good_reason(self, stage: Stage, reason: str, kind: FailureKind) -> None:
        stage.script(f'[[on]]\nstop_reason = "{reason}"\n')
        assert failure(stage.run()) is kind

    @pytest.mark.quick('code = 401, message = "Request failed"-auth')
    @pytest.mark.parametrize(
        ("error", "kind"),
        [
            ('code = 401, message = "Request failed"', FailureKind.AUTH),
            ('code = -32000, message = "Sign in first"', FailureKind.AUTH),
            (
                'code = -32603, message = "Internal error", data = { details = "429 Too Many Requests" }',
                FailureKind.RATE_LIMIT,
            ),
            ('code = 429, message = "Slow down"', FailureKind.RATE_LIMIT),
            ('code = -32603, message = "no", data = { errorName = "ProviderAuthError" }', FailureKind.AUTH),
            ('code = 500, message = "Something broke"', FailureKind.OUTAGE),
            ('code = -32603, message = "fetch failed"', FailureKind.OUTAGE),
            ('code = -32603, message = "connect ECONNREFUSED 127.0.0.1:9"', FailureKind.OUTAGE),
            ('code = 400, message = "The input token count (9) exceeds the maximum"', FailureKind.CONTEXT),
            (
                'code = -32603, message = "You have hit your usage limit. Try again in 2 hours"',
                FailureKind.USAGE_LIMIT,
            ),
            ('code = -32603, message = "Something nobody knows"', FailureKind.UNKNOWN),
        ],
    )
    def test_an_error_is_understood(self, stage: Stage, error: str, kind: FailureKind) -> None:
        stage.script(f'[[on]]\nfaults = ["error"]\nerror = {{ {error} }}\n')
        found = outcome(stage.run()).failure
        assert found
        assert found.kind is kind
        assert "Gemini CLI" in found.message or kind is FailureKind.USAGE_LIMIT
        assert (found.until is not None) == (kind is FailureKind.USAGE_LIMIT)

    @pytest.mark.quick("I fixed the authentication of users.-None")
    @pytest.mark.parametrize(
        ("said", "kind"),
        [
            ("Error: (401) Unauthorized: authentication failed", FailureKind.AUTH),
            ("Execution failed: CAPIError: 503 Service Unavailable", FailureKind.OUTAGE),
            ("Execution failed: who knows why", FailureKind.UNKNOWN),
            (
                f"Let me{RETRYING}Let meError: Failed to get response. Last error: Overloaded",
                FailureKind.OUTAGE,
            ),
            (f"{RETRYING}Error: The provider rejected the prompt as too long", FailureKind.CONTEXT),
            (f"{RETRYING}Error: Authentication failed (HTTP 401).\\n  Check your key.", FailureKind.AUTH),
            (RETRYING, FailureKind.OUTAGE),
            (f"{RETRYING}I fixed it.", None),
            ("Error handling was added.", None),
            ("I fixed the authentication of users.", None),
        ],
    )
    def test_an_error_in_the_last_words_is_no_success(
        self, stage: Stage, said: str, kind: FailureKind | None
    ) -> None:
        stage.script(f'[[on]]\nfaults = ["error_text"]\nerror = {{ message = "{said}" }}\n')
        assert failure(stage.run(acp.COPILOT)) is kind

    def test_an_agent_that_dies_in_its_turn_is_truncated(self, stage: Stage) -> None:
        stage.script('[[on]]\nstderr = "Segmentation fault"\nfaults = ["die"]\n')
        events = stage.run()
        found = outcome(events).failure
        assert found
        assert found.kind is FailureKind.TRUNCATED
        assert "ended with 1" in found.message
        assert "Segmentation fault" in found.stderr_tail
        assert of(events, AgentText) == [AgentText("I will now")]

    @pytest.mark.thorough
    def test_an_agent_that_closes_its_output_is_ended(self, stage: Stage) -> None:
        stage.faults("close_stdout")
        assert failure(stage.run()) is FailureKind.TRUNCATED
        assert not stage.at_work()

    def test_an_agent_that_dies_at_once(self, stage: Stage) -> None:
        stage.faults("die_at_start")
        found = outcome(stage.run()).failure
        assert found
        assert found.kind is FailureKind.CRASH
        assert "it cannot start here" in found.message

    @pytest.mark.thorough
    def test_an_agent_that_never_answers_is_given_up(self, stage: Stage) -> None:
        stage.faults("mute")
        assert failure(stage.run(start_timeout=0.5)) is FailureKind.HANG
        assert not stage.at_work()

    def test_an_agent_that_failed_itself_is_asked_again(self, stage: Stage) -> None:
        stage.faults("no_session")
        events = stage.run()
        assert outcome(events).failure is None
        (again,) = [raw.line for raw in of(events, AgentRaw) if raw.kind == "retry"]
        assert again["reason"] == "Internal error"
        assert len(stage.log("prompt")) == 1

    def test_an_agent_that_keeps_failing_itself_may_be_launched_again(self) -> None:
        line = {"stage": "session", "code": -32603, "message": "Internal error"}
        failed = read_error(FailureTable("OpenCode", ""), line, "", 0.0)
        wrong = read_error(FailureTable("OpenCode", ""), {**line, "code": -32602}, "", 0.0)
        assert (failed.kind, wrong.kind) == (FailureKind.CRASH, FailureKind.NOT_STARTED)

    def test_another_version_of_the_protocol_is_refused(self, stage: Stage) -> None:
        stage.faults("version")
        assert failure(stage.run()) is FailureKind.NOT_STARTED

    def test_a_program_that_is_not_there(self, stage: Stage) -> None:
        found = outcome(stage.run(agent_cmd=str(stage.root / "nowhere"))).failure
        assert found
        assert found.kind is FailureKind.NOT_STARTED
        assert "nowhere" in found.message

    @pytest.mark.thorough
    def test_an_agent_that_stays_after_its_turn_is_ended_with_all_it_left(self, stage: Stage) -> None:
        stage.faults("stay", "orphan")
        events = stage.run()
        assert outcome(events).failure is None
        assert not stage.at_work()

    def test_an_agent_that_tries_again_for_ever_is_ended_by_its_reason(self, stage: Stage) -> None:
        stage.faults("retry")
        found = outcome(stage.run(acp.OPENCODE, retry_grace=0.2)).failure
        assert found is not None
        assert (found.kind, found.message) == (FailureKind.OUTAGE, "OpenCode: Service Unavailable")

    def test_an_agent_that_tried_again_and_went_on_did_no_wrong(self, stage: Stage) -> None:
        line = 'message="stream error" small=false agent=build error.error="AI_APICallError: slow down"'
        stage.script(f"[[on]]\nstderr = '''{line}\n{line}\nThird.'''\n")
        events = stage.run(acp.OPENCODE, retry_grace=60)
        assert outcome(events).failure is None
        told = [raw.line for raw in of(events, AgentRaw) if raw.kind == "retry"]
        assert told == [{"type": "retry", "text": "slow down"}] * 2

    def test_a_retry_that_is_read_after_the_last_answer_is_not_lost(self, tmp_path: Path) -> None:
        # It has nothing more to say, and complains when its stdin is closed.
        program = "import os, sys; os.close(1); sys.stdin.read(); sys.stderr.write('Retrying: slow down\\n')"
        job = {
            **{"argv": [sys.executable, "-c", program], "cwd": str(tmp_path), "end_grace": 60.0},
            **{"retry_text": ["Retrying: (.*)"], "retry_grace": 60.0, "start_timeout": 60.0, "client": {}},
        }
        done = subprocess.run(
            [sys.executable, "-m", "segue", "--segue-child", "segue.agents.acp.child"],
            input=json.dumps(job).encode(),
            capture_output=True,
            check=False,
        )
        died, retry = map(json.loads, done.stdout.splitlines())
        assert (died["type"], retry) == ("died", {"type": "retry", "text": "slow down"})

    def test_a_plan_without_words_is_none(self, stage: Stage) -> None:
        stage.script('[[on]]\nplan = " "\n')
        assert failure(stage.run(mode=Mode.PLAN)) is FailureKind.NO_RESULT

    @pytest.mark.quick("more0")
    @pytest.mark.parametrize("more", [[], ["ignore_cancel"], ["ignore_cancel", "stay"]])
    def test_an_agent_that_hangs_is_ended_by_its_deadline(self, stage: Stage, more: list[str]) -> None:
        stage.faults("hang", *more)
        assert failure(stage.run(limits=replace(LIMITS, wall=1.0))) is FailureKind.TIMEOUT
        assert not stage.at_work()


class TestProfiles:
    """Agents that only a table knows."""

    def test_an_agent_from_a_table_works(self, stage: Stage) -> None:
        table = {
            "argv": [str(stage.root / "bin" / "qwen"), "--acp"],
            "modes": {"plan": "plan", "edit": "default"},
            "permissions": {"edit": "edits"},
            "files": [{"path": "deep/own.json", "text": "{}"}],
            "env": {"OWN_FILE": "{folder}/deep/own.json"},
        }
        kind = AcpKind("mine", read_options(Profile, table))
        stage.script('[[on]]\nshell = ["make"]\nwrite = { "a.txt" = "x" }\n')
        assert failure(stage.run(kind)) is None
        assert (stage.repo / "a.txt").exists()
        assert [line["outcome"]["optionId"] for line in stage.log("permission")] == ["no", "once"]
        assert "OWN_FILE" in stage.log("launch")[0]["env"]
        assert list((stage.root / "run").rglob("deep/own.json"))
        made = stage.agent(kind, lend(Processes(stage.root / "other")))
        assert (made.can.plan_mode, made.can.ask_mode) == (True, False)
        assert made.check() == []

    @pytest.mark.parametrize(
        ("wrong", "where"),
        [
            ({}, "argv"),
            ({"argv": []}, "argv"),
            ({"argv": ["x"], "colour": "red"}, "colour"),
            ({"argv": ["x"], "error_text": ["("]}, "error_text"),
            ({"argv": ["x"], "files": [{"path": "../x", "text": ""}]}, "files"),
            ({"argv": ["x"], "permissions": {"plan": "some"}}, "permissions"),
        ],
    )
    def test_a_wrong_table_is_refused(self, wrong: dict[str, object], where: str) -> None:
        with pytest.raises(ValueError, match=where):
            read_options(Profile, wrong)


OWNER = """
import asyncio, sys
from pathlib import Path
from segue.agents.acp import agent as acp
from segue.agents.acp.agent import AcpOptions
from segue.domain.job import Job, Limits
from segue.domain.task import Task
from segue.prompts.task import execute_prompt
from segue.system.process.processes import Processes
from segue.system.redact import Redactor
from segue.system.services import Services

async def main():
    root = Path(sys.argv[1])
    async with Processes(root / "run") as processes:
        agent = acp.GEMINI(AcpOptions(end_grace=0.2), Services(root, root, processes, Redactor([])))
        prompt = execute_prompt(Task("1", "Say hello", ""), "", nonce="test")
        async for event in agent.run(Job("token", prompt, root / "repo", limits=Limits(60, 60, 0.3))):
            pass

asyncio.run(main())
"""


@pytest.mark.thorough
def test_an_agent_at_work_is_adopted_when_segue_was_killed(stage: Stage) -> None:
    stage.script('[[on]]\ndelay = 2.0\nsay = "Still here."\n')
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(stage.root)], start_new_session=True)
    wait_for(lambda: len(stage.log("prompt")) == 1, "the prompt to arrive")
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    events = stage.run()
    assert outcome(events).text == "Still here."
    assert outcome(events).failure is None
    assert outcome(events).facts["adopted"] is True
    assert (len(stage.log("launch")), len(stage.log("prompt"))) == (1, 1)
    assert len(list(stage.repo.iterdir())) == 1
    wait_for(lambda: supervisor_pids(stage.root / "run") == [], "the supervisor to end")
    assert left_behind(stage.root / "run") == []


def test_a_launch_that_is_closed_is_cancelled_and_leaves_nothing(stage: Stage) -> None:
    stage.faults("hang")

    async def main() -> None:
        async with Processes(stage.root / "run") as processes:
            job = Job("token", PROMPT, stage.repo, limits=LIMITS)
            run = stage.agent(acp.COPILOT, lend(processes)).run(job)
            async for event in run:
                if isinstance(event, AgentRaw) and event.kind == "session":
                    break
            await run.aclose()
            assert not stage.at_work()

    asyncio.run(main())
