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

from segue.agents.acp import agent as acp
from segue.agents.acp.agent import AcpKind
from segue.agents.acp.lines import read_error
from segue.agents.acp.profiles import ModelChoice, Profile, load_profiles
from segue.agents.local.failures import FailureTable
from segue.domain.events import AgentRaw, AgentText, AgentThought, AgentTool
from segue.domain.job import Job, Mode
from segue.domain.options import read_options
from segue.domain.outcome import FailureKind
from segue.domain.task import Task
from segue.prompts.task import execute_prompt
from segue.system.process.processes import Processes
from tests.agents.acp_place import KINDS, Stage, make_stage
from tests.agents.items import failure, lend, of, outcome
from tests.agents.stand_in import LIMITS, PROMPT
from tests.conformance.agent import check_agent
from tests.fakes.acp import write_programs
from tests.system.process_driver import left_behind, supervisor_pids, wait_for


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return make_stage(tmp_path, monkeypatch)


RETRYING = "Info: Request failed due to a transient API error. Retrying..."
"""What Copilot's message begins with, or contains, where a request was repeated."""


class TestSocket:
    """The promises of the socket."""

    def test_opencode_conforms(self, stage: Stage) -> None:
        stuck = stage.root / "stuck"
        write_programs(stuck, names=["opencode"])
        (stuck / "acp.toml").write_text('faults = ["hang", "stay", "ignore_cancel", "orphan"]\n')
        hangs = stage.making(acp.OPENCODE, agent_cmd=str(stuck / "opencode"))
        check_agent(stage.making(acp.OPENCODE), PROMPT, hangs=hangs, limits=replace(LIMITS, grace=1))

    @pytest.mark.parametrize("name", ["copilot", "qwen"])
    def test_agent_edits_plans_answers_and_continues(self, stage: Stage, name: str) -> None:
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
        assert "an earlier answer" not in outcome(again).text
        modes = [line["mode"] for line in stage.log("prompt")]
        names = kind.profile.modes
        assert modes == [names.edit, names.plan, names.ask, names.edit]

    def test_installation_is_reported(self, stage: Stage) -> None:
        stage.environ.setenv("GEMINI_API_KEY", "k-0123456789")
        services = lend(Processes(stage.root / "run"))
        found = {name: stage.agent(kind, services).installation() for name, kind in KINDS.items()}
        versions = {"gemini": "0.61.0", "copilot": "1.0.102", "opencode": "1.18.18", "qwen": "0.24.4"}
        assert {name: one.version for name, one in found.items()} == versions
        assert all(Path(one.program or "").parent == stage.root / "bin" for one in found.values())
        logins = {name: one.login for name, one in found.items()}
        assert logins == {**dict.fromkeys(KINDS, "not known"), "gemini": "GEMINI_API_KEY"}


class TestPermissions:
    """What is answered when the agent asks."""

    def test_everything_is_allowed_once_in_edit_mode(self, stage: Stage) -> None:
        stage.script('[[on]]\nshell = ["make"]\nwrite = { "a.txt" = "x" }\n')
        events = stage.run()
        assert [line["outcome"]["optionId"] for line in stage.log("permission")] == ["once", "once"]
        assert (stage.repo / "a.txt").read_text() == "x"
        assert "permission_denials" not in outcome(events).facts

    def test_denials_are_reported(self, stage: Stage) -> None:
        stage.script('[[on]]\nshell = ["rm -rf x"]\nwrite = { "a.txt" = "x" }\n')
        events = stage.run(permissions="edits")
        assert [line["outcome"]["optionId"] for line in stage.log("permission")] == ["no", "once"]
        assert outcome(events).failure is None
        assert outcome(events).facts["permission_denials"] == 1
        assert "agents.gemini.permissions" in outcome(events).facts["note"]
        ended = {tool.name: tool.status for tool in of(events, AgentTool) if tool.status}
        assert ended == {"Bash": "rejected", "Write": "success"}

    @pytest.mark.parametrize(
        "script", ["", '[[on]]\nread = ["README.md"]\n', 'faults = ["reject_cancels"]\n']
    )
    def test_editing_job_that_may_change_nothing_was_refused(self, stage: Stage, script: str) -> None:
        stage.script(script)
        assert failure(stage.run(permissions="read")) is FailureKind.REFUSED
        assert list(stage.repo.iterdir()) == []

    @pytest.mark.parametrize("mode", [Mode.PLAN, Mode.ASK])
    def test_agent_that_asks_in_plan_mode_is_denied(self, stage: Stage, mode: Mode) -> None:
        stage.faults("plan_asks")
        events = stage.run(acp.OPENCODE, mode)
        assert outcome(events).failure is None
        assert outcome(events).facts["permission_denials"] == 1
        assert list(stage.repo.iterdir()) == []


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

    @pytest.mark.parametrize(
        ("kind", "script"),
        [
            (acp.GEMINI, ""),
            (acp.COPILOT, ""),
            (acp.GEMINI, '[[on]]\nread = ["a"]\nwrite = {}\nfaults = ["late_tool"]\n'),
        ],
        ids=["asked first", "reported first", "reported at its end"],
    )
    def test_each_call_starts_and_ends_once(self, stage: Stage, kind: AcpKind, script: str) -> None:
        stage.script(script)
        tools = of(stage.run(kind), AgentTool)
        assert [tool.state for tool in tools] == ["started", "completed"]
        assert tools[0].name == tools[1].name

    def test_unknown_requests_and_noise_do_no_harm(self, stage: Stage) -> None:
        stage.faults("noise")
        events = stage.run()
        assert outcome(events).failure is None
        lines = str(of(events, AgentRaw))
        assert "fake/made_up" in lines
        assert "weather_update" in lines
        assert "this line is no JSON" in lines

    def test_large_prompt_arrives(self, stage: Stage) -> None:
        prompt = execute_prompt(Task("1", "Much", "ü'\"\n" * 200_000), "", nonce="test")
        assert failure(stage.run(prompt=prompt)) is None
        (turn,) = stage.log("prompt")
        assert turn["sha256"] == hashlib.sha256(prompt.text.encode()).hexdigest()

    def test_agent_sees_only_what_it_may(self, stage: Stage) -> None:
        stage.environ.setenv("GEMINI_API_KEY", "k-0123456789")
        stage.environ.setenv("OPENAI_API_KEY", "not-yours")
        stage.environ.setenv("MINE", "yes")
        stage.run(pass_env=["MINE"], env={"EXTRA": "1"})
        (launch,) = stage.log("launch")
        assert {"GEMINI_API_KEY", "MINE", "EXTRA", "GEMINI_CLI_HOME", "SEGUE_TASK"} <= set(launch["env"])
        assert "OPENAI_API_KEY" not in launch["env"]
        assert launch["cwd"] == str(stage.repo)
        (file,) = (stage.root / "run").rglob("settings.json")
        assert json.loads(file.read_text())["privacy"] == {"usageStatisticsEnabled": False}

    def test_model_is_an_argument_or_an_option(self, stage: Stage) -> None:
        stage.run(token="a", model="pro", extra_args=["--debug"])
        stage.run(acp.OPENCODE, token="b", model="stub/large")
        assert stage.log("launch")[0]["argv"] == ["--acp", "--skip-trust", "-m", "pro", "--debug"]
        assert [turn["model"] for turn in stage.log("prompt")] == ["", "stub/large"]
        mute = AcpKind("mute", structs.replace(load_profiles()["gemini"], model=ModelChoice()))
        assert failure(stage.run(mute, token="c", model="pro")) is FailureKind.NOT_STARTED
        unknown = outcome(stage.run(acp.OPENCODE, token="d", model="unknown")).failure
        assert unknown
        assert "does not accept the model" in unknown.message

    def test_usage_and_the_new_part_of_the_cost(self, stage: Stage) -> None:
        usage = "usage = { inputTokens = 100, outputTokens = 7, cachedReadTokens = 50, totalTokens = 157 }"
        stage.script(f"[[on]]\nlaunch = 1\n{usage}\ncost = 0.25\n[[on]]\nlaunch = 2\ncost = 0.75\n")
        first = outcome(stage.run(token="a"))
        assert first.usage
        assert (first.usage.input_tokens, first.usage.output_tokens, first.usage.cost_usd) == (150, 7, 0.25)
        second = outcome(stage.run(token="b", session=first.session))
        assert second.usage
        assert second.usage.cost_usd == 0.5

    def test_agent_is_authenticated_when_it_asks(self, stage: Stage) -> None:
        stage.faults("auth")
        assert failure(stage.run(token="a")) is None
        refused = outcome(stage.run(acp.COPILOT, token="b")).failure
        assert refused
        assert refused.kind is FailureKind.AUTH
        assert "COPILOT_GITHUB_TOKEN" in refused.message

    def test_session_is_continued_at_once_after_its_minute(self, stage: Stage) -> None:
        stage.waits = True
        session = outcome(stage.run()).session
        (noted,) = stage.root.glob("run/**/begun")
        os.utime(noted, (time.time() - 120,) * 2)
        later = stage.run(token="later", session=session)
        assert [raw for raw in of(later, AgentRaw) if raw.kind == "wait"] == []
        os.utime(noted, (time.time() + 3600,) * 2)  # even then no longer than a minute
        soon = stage.run(token="soon", session=session, limits=replace(LIMITS, wall=5))
        assert [raw.line["seconds"] for raw in of(soon, AgentRaw) if raw.kind == "wait"] == [60]

    def test_unknown_session_is_not_begun_again(self, stage: Stage) -> None:
        events = stage.run(session="no-such-session")
        assert failure(events) is FailureKind.NOT_STARTED
        assert stage.log("prompt") == []

    def test_session_is_loaded_where_resuming_is_only_announced(self, stage: Stage) -> None:
        """As of Qwen Code 0.15."""
        stage.faults("no_resume")
        first = outcome(stage.run(acp.QWEN, token="a"))
        again = outcome(stage.run(acp.QWEN, token="b", session=first.session))
        assert (again.failure, again.session) == (None, first.session)

    @pytest.mark.parametrize("faults", [[], ["late_history"]])
    def test_past_of_a_session_is_not_taken_for_its_work(self, stage: Stage, faults: list[str]) -> None:
        first = outcome(stage.run(token="a"))
        stage.faults(*faults)
        events = stage.run(token="b", session=first.session, permissions="read")
        assert failure(events) is FailureKind.REFUSED
        assert outcome(events).text == first.text


class TestFailures:
    """How launches end that do not end well."""

    def test_turn_that_ends_for_an_unknown_reason(self, stage: Stage) -> None:
        stage.script('[[on]]\nstop_reason = "tired"\n')
        assert failure(stage.run()) is FailureKind.UNKNOWN

    @pytest.mark.parametrize(
        ("error", "kind"),
        [
            ({"code": 401, "message": "Request failed"}, FailureKind.AUTH),
            ({"code": -32000, "message": "Sign in first"}, FailureKind.AUTH),
            ({"code": -32603, "data": {"details": "429 Too Many Requests"}}, FailureKind.RATE_LIMIT),
            ({"code": -32603, "message": "no", "data": {"errorName": "ProviderAuthError"}}, FailureKind.AUTH),
            ({"code": 500, "message": "Something broke"}, FailureKind.OUTAGE),
            ({"code": -32603, "message": "fetch failed"}, FailureKind.OUTAGE),
            ({"code": 400, "message": "The input token count (9) exceeds the maximum"}, FailureKind.CONTEXT),
            (
                {"code": -32603, "message": "You have hit your usage limit. Try again in 2 hours"},
                FailureKind.USAGE_LIMIT,
            ),
            ({"code": -32603, "message": "Something nobody knows"}, FailureKind.UNKNOWN),
        ],
    )
    def test_error_is_understood(self, error: dict[str, object], kind: FailureKind) -> None:
        line = {"stage": "prompt", "message": "Internal error", **error}
        found = read_error(FailureTable("Gemini CLI", ""), line, "", 0.0)
        assert found.kind is kind
        assert (found.until is not None) == (kind is FailureKind.USAGE_LIMIT)

    @pytest.mark.parametrize(
        ("said", "kind"),
        [
            (
                f"Let me{RETRYING}Let meError: Failed to get response. Last error: Overloaded",
                FailureKind.OUTAGE,
            ),
            (f"{RETRYING}Error: Authentication failed (HTTP 401).\\n  Check your key.", FailureKind.AUTH),
            (f"{RETRYING}I fixed it.", None),
            ("I fixed the authentication of users.", None),
        ],
    )
    def test_error_in_the_last_words_is_no_success(
        self, stage: Stage, said: str, kind: FailureKind | None
    ) -> None:
        stage.script(f'[[on]]\nfaults = ["error_text"]\nerror = {{ message = "{said}" }}\n')
        assert failure(stage.run(acp.COPILOT)) is kind

    def test_agent_that_dies_in_its_turn_is_truncated(self, stage: Stage) -> None:
        stage.script('[[on]]\nstderr = "Segmentation fault"\nfaults = ["die"]\n')
        events = stage.run()
        found = outcome(events).failure
        assert found
        assert found.kind is FailureKind.TRUNCATED
        assert "ended with 1" in found.message
        assert "Segmentation fault" in found.stderr_tail
        assert of(events, AgentText) == [AgentText("I will now")]

    @pytest.mark.parametrize(
        ("faults", "options", "kind", "message"),
        [
            (["die_at_start"], {}, FailureKind.CRASH, "it cannot start here"),
            (["mute"], {"start_timeout": 0.5}, FailureKind.HANG, "no answer"),
            (["version"], {}, FailureKind.NOT_STARTED, "speaks version 2"),
            ([], {"agent_cmd": "/nowhere/gemini"}, FailureKind.NOT_STARTED, "nowhere"),
        ],
    )
    def test_agent_that_does_not_start(
        self, stage: Stage, faults: list[str], options: dict[str, object], kind: FailureKind, message: str
    ) -> None:
        stage.faults(*faults)
        found = outcome(stage.run(**options)).failure  # type: ignore[arg-type]
        assert found
        assert (found.kind, message in found.message) == (kind, True)
        assert not stage.at_work()

    def test_agent_that_failed_itself_is_asked_again(self, stage: Stage) -> None:
        stage.faults("no_session")
        events = stage.run()
        assert outcome(events).failure is None
        (again,) = [raw.line for raw in of(events, AgentRaw) if raw.kind == "retry"]
        assert again["reason"] == "Internal error"
        assert len(stage.log("prompt")) == 1

    def test_agent_that_retries_for_ever_is_ended_with_its_reason(self, stage: Stage) -> None:
        stage.faults("retry")
        found = outcome(stage.run(acp.OPENCODE, retry_grace=0.2)).failure
        assert found is not None
        assert (found.kind, found.message) == (FailureKind.OUTAGE, "OpenCode: Service Unavailable")

    def test_agent_that_retried_and_continued_did_no_wrong(self, stage: Stage) -> None:
        line = 'message="stream error" small=false agent=build error.error="AI_APICallError: slow down"'
        stage.script(f"[[on]]\nstderr = '''{line}\n{line}\nThird.'''\n")
        events = stage.run(acp.OPENCODE, retry_grace=60)
        assert outcome(events).failure is None
        told = [raw.line for raw in of(events, AgentRaw) if raw.kind == "retry"]
        assert told == [{"type": "retry", "text": "slow down"}] * 2

    def test_retry_that_is_read_after_the_last_answer_is_not_lost(self, tmp_path: Path) -> None:
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

    @pytest.mark.parametrize("more", [[], ["ignore_cancel", "stay"]])
    def test_agent_that_hangs_is_ended_by_its_deadline(self, stage: Stage, more: list[str]) -> None:
        stage.faults("hang", *more)
        assert failure(stage.run(limits=replace(LIMITS, wall=1.0))) is FailureKind.TIMEOUT
        assert not stage.at_work()


class TestProfiles:
    """Agents that only a table knows."""

    def test_agent_from_a_table_works(self, stage: Stage) -> None:
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
            ({"argv": []}, "argv"),
            ({"argv": ["x"], "colour": "red"}, "colour"),
            ({"argv": ["x"], "error_text": ["("]}, "error_text"),
            ({"argv": ["x"], "files": [{"path": "../x", "text": ""}]}, "files"),
            ({"argv": ["x"], "permissions": {"plan": "some"}}, "permissions"),
        ],
    )
    def test_wrong_table_is_refused(self, wrong: dict[str, object], where: str) -> None:
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


def test_agent_is_adopted_when_segue_was_killed(stage: Stage) -> None:
    gate = stage.root / "gate"
    stage.script(f'[[on]]\nwait_for = "{gate}"\nsay = "Still here."\n')
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(stage.root)], start_new_session=True)
    wait_for(lambda: len(stage.log("prompt")) == 1, "the prompt to arrive")
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    gate.touch()
    events = stage.run()
    assert outcome(events).text == "Still here."
    assert outcome(events).failure is None
    assert outcome(events).facts["adopted"] is True
    assert (len(stage.log("launch")), len(stage.log("prompt"))) == (1, 1)
    assert len(list(stage.repo.iterdir())) == 1
    wait_for(lambda: supervisor_pids(stage.root / "run") == [], "the supervisor to end")
    assert left_behind(stage.root / "run") == []


def test_launch_that_is_closed_is_cancelled_and_leaves_nothing(stage: Stage) -> None:
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
