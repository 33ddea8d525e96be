"""What goes wrong with the real programs, and how it is called."""

from __future__ import annotations

import json
import socket
import time
import uuid
from typing import Any

import pytest

from tests.cli.place import DEADLINE, processes_with, until
from tests.e2e.conftest import KEY, Real, provider
from tests.e2e.install import WHICH


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"status": 401, "reply": "Incorrect API key provided."}, "auth"),
        ({"status": 429, "reply": "Rate limit reached for requests."}, "rate_limit"),
        ({"status": 500, "reply": "out of order"}, "outage"),
        ({"reply": "an answer that is cut somewhere in the middle of it", "cut": 3}, "outage"),
    ],
    ids=["401", "429", "500", "cut"],
)
def test_a_service_that_refuses(real: Real, fault: dict[str, Any], kind: str) -> None:
    real.model.plays(fault)
    done = real.place.segue("run", "plan.md", code=None)
    assert done.returncode == 4 if kind == "auth" else done.returncode not in (0, 1, 4)
    assert real.failure()["kind"] == kind
    assert real.place.subjects() == []


@pytest.mark.parametrize("real", ["claude"], indirect=True)
def test_a_limit_of_the_account_is_waited_for(real: Real) -> None:
    real.model.plays({"status": 429, "reply": "You've hit your usage limit. Try again in 3 hours."})
    process = real.place.start("run", "plan.md")
    until(real.model.asked, "the agent works")
    until(lambda: real.events("run.parked"), "the run waits")
    assert real.failure()["kind"] == "usage_limit"
    real.place.segue("stop")
    assert process.wait(DEADLINE) == 130


@pytest.mark.thorough
@pytest.mark.parametrize("real", ["claude"], indirect=True)
def test_the_exact_end_of_a_limit_is_known_before_its_words(real: Real) -> None:
    end = int(time.time()) + 3 * 86400 + 3600
    status = {"anthropic-ratelimit-unified-status": "rejected", "anthropic-ratelimit-unified-reset": str(end)}
    which = {"anthropic-ratelimit-unified-representative-claim": "seven_day"}
    real.model.plays({"status": 429, "reply": "Limited.", "headers": {**status, **which}})
    del real.place.env["ANTHROPIC_API_KEY"]
    process = real.place.start("run", "plan.md", CLAUDE_CODE_OAUTH_TOKEN="sk-ant-oat01-sim")
    until(real.model.asked, "the agent works")
    until(lambda: real.events("run.parked"), "the run waits")
    assert end <= real.events("run.parked")[0]["until"] <= end + 60
    assert ", in 3 d" in real.place.segue("status", "last").stdout
    real.place.segue("stop")
    assert process.wait(DEADLINE) == 130


@pytest.mark.parametrize("real", ["codex"], indirect=True)
def test_codex_knows_the_end_of_a_limit_and_the_tokens_of_a_failed_turn(real: Real) -> None:
    end = int(time.time()) + 7200
    limit = {"x-codex-primary-used-percent": "100", "x-codex-primary-reset-at": str(end)}
    look = {"times": 1, "tool_calls": [real.shell("true")], "usage": {"input": 900, "output": 9}}
    windows = {"x-codex-primary-window-minutes": "300"}
    real.model.plays({**look, "headers": {**limit, **windows}}, {"status": 429, "reply": "Limited."})
    process = real.place.start("run", "plan.md")
    until(real.model.asked, "the agent works")
    until(lambda: real.events("run.parked"), "the run waits")
    assert end <= real.events("run.parked")[0]["until"] <= end + 60
    assert real.failure()["kind"] == "usage_limit"
    ended = real.events("agent.ended")[0]
    assert ended["usage"]["input_tokens"] == 900
    assert ended["facts"]["version"][0].isdigit(), "of its session file, for publications"
    real.place.segue("stop")
    assert process.wait(DEADLINE) == 130


@pytest.mark.parametrize("real", ["codex"], indirect=True)
def test_a_quota_that_is_used_up(real: Real) -> None:
    error = {"message": "You exceeded your current quota.", "code": "insufficient_quota"}
    real.model.plays({"status": 429, "reply": {**error, "type": "insufficient_quota"}})
    real.place.segue("run", "plan.md", code=None)
    # The oldest version says the status alone.
    assert real.failure()["kind"] == ("rate_limit" if WHICH == "oldest" else "usage_limit")


@pytest.mark.parametrize("real", ["claude"], indirect=True)
def test_the_next_agent_takes_over_while_the_first_one_waits_to_retry(real: Real) -> None:
    options = f'pass_env = ["SIM_KEY"]\nconfig = {json.dumps(provider(real.model.url))}\n'
    real.place.config((real.place.root / "segue.toml").read_text() + f"[agents.codex]\n{options}")
    command = {"cmd": f"echo one > {real.place.repo}/one.txt", "yield_time_ms": 30000}
    real.model.plays(
        {"api": "messages", "status": 429, "reply": "Slow down.", "headers": {"retry-after": "60"}},
        {"api": "responses", "times": 1, "tool_calls": [{"name": "exec_command", "arguments": command}]},
        {"api": "responses", "reply": "Did one."},
    )
    agents = "claude,codex:gpt-5.5"
    real.place.segue("run", "plan.md", "--agent", agents, "--task", "1", SIM_KEY=KEY)
    [switch] = real.events("fallback")
    assert (switch["agent"], switch["kind"]) == ("claude", "rate_limit")
    assert "asks to wait 60 s" in switch["reason"]
    assert len([body for body in real.model.asked() if "messages" in body]) == 1, "it was not asked again"


@pytest.mark.thorough
def test_a_service_that_is_not_there(real: Real) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}"
    real.place.config((real.place.root / "segue.toml").read_text().replace(real.model.url, nobody))
    there = {key: text.replace(real.model.url, nobody) for key, text in real.place.env.items()}
    done = real.place.segue("run", "plan.md", code=None, **there)
    assert done.returncode not in (0, 1)
    assert real.failure()["kind"] == "outage"


def test_killed_while_the_program_works(real: Real) -> None:
    real.model.plays(
        real.write("", "one.txt", "one"),
        {"reply": "Did one.", "delay": 3, "times": 1},
        real.write("", "two.txt", "two"),
        {"reply": "Did two.", "times": 1},
        real.write("", "three.txt", "three"),
        {"reply": "Did three."},
    )
    marker = f"mark-{uuid.uuid4().hex}"
    process = real.place.start("run", "plan.md", LC_MARK=marker)
    until((real.place.repo / "one.txt").exists, "the agent works")
    process.kill()
    process.wait(DEADLINE)
    assert list(processes_with(marker)) != []
    real.place.segue("resume")
    assert len(real.place.subjects()) == 3
    assert len(real.model.asked()) == 6, "an agent was started twice"
    assert [event["facts"]["adopted"] for event in real.events("agent.ended")] == [True, False, False]
    assert list(processes_with(marker)) == []


@pytest.mark.parametrize("killed", [False, True], ids=["alive", "killed"])
def test_stopped_while_a_command_of_the_agent_runs(real: Real, killed: bool) -> None:
    endless = real.shell(f"touch {real.place.repo}/begun; tail -f /dev/null")
    real.model.plays({"times": 1, "tool_calls": [endless]}, {"reply": "Never said."})
    marker = f"mark-{uuid.uuid4().hex}"
    process = real.place.start("run", "plan.md", LC_MARK=marker)
    until((real.place.repo / "begun").exists, "a command runs")
    if killed:
        process.kill()
        process.wait(DEADLINE)
    real.place.segue("stop")
    assert process.wait(DEADLINE) in (130, -9)
    assert list(processes_with(marker)) == []


@pytest.mark.parametrize("real", ["claude"], indirect=True)
def test_a_question_as_the_last_word_is_asked(real: Real) -> None:
    real.model.plays({"reply": "Which of the two should I change, a or b?"})
    done = real.place.segue("run", "plan.md", "--task", "1", "--agent", "claude,scripted", code=3)
    assert "The agent asks: Which of the two should I change, a or b?" in done.stderr
    assert real.events("fallback") == []


@pytest.mark.parametrize("real", ["opencode"], indirect=True)
def test_a_cut_connection_is_not_retried_for_ever_where_another_agent_can_work(real: Real) -> None:
    config = (real.place.root / "segue.toml").read_text().replace("retry_grace = 1\n", "")
    real.place.config(config)
    real.model.plays({"reply": "an answer that is cut somewhere in the middle of it", "cut": 3})
    real.place.segue("run", "plan.md", "--task", "1", "--agent", "opencode,scripted")
    [switch] = real.events("fallback")
    assert switch["kind"] == "outage"
