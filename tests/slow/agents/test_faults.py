"""What goes wrong with the real programs, and what Segue calls it."""

from __future__ import annotations

import json
import time
import uuid
from typing import Any

import pytest

from tests.cli.place import DEADLINE, processes_with, until
from tests.slow.agents.conftest import KEY, Real, provider


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"status": 401, "reply": "Incorrect API key provided."}, "auth"),
        ({"status": 429, "reply": "Rate limit reached for requests."}, "rate_limit"),
        ({"reply": "an answer that is cut somewhere in the middle of it", "cut": 3}, "outage"),
    ],
    ids=["401", "429", "cut"],
)
def test_service_that_refuses(real: Real, fault: dict[str, Any], kind: str) -> None:
    real.model.plays(fault)
    done = real.place.segue("run", "plan.md", code=None)
    assert done.returncode == 4 if kind == "auth" else done.returncode not in (0, 1, 4)
    assert real.failure()["kind"] == kind
    assert real.place.subjects() == []


@pytest.mark.parametrize("real", ["codex"], indirect=True)
def test_codex_limit_ends_when_its_headers_say(real: Real) -> None:
    end = int(time.time()) + 7200
    limit = {"x-codex-primary-used-percent": "100", "x-codex-primary-reset-at": str(end)}
    look = {"times": 1, "tool_calls": [real.shell("true")], "usage": {"input": 900, "output": 9}}
    windows = {"x-codex-primary-window-minutes": "300"}
    real.model.plays({**look, "headers": {**limit, **windows}}, {"status": 429, "reply": "Limited."})
    process = real.place.start("run", "plan.md")
    until(real.model.asked, "the agent to work")
    until(lambda: real.events("run.parked"), "the run to wait")
    assert end <= real.events("run.parked")[0]["until"] <= end + 60
    assert real.failure()["kind"] == "usage_limit"
    assert real.events("agent.ended")[0]["usage"]["input_tokens"] == 900, "also of a turn that failed"
    real.place.segue("stop")
    assert process.wait(DEADLINE) == 130


@pytest.mark.parametrize("real", ["claude"], indirect=True)
def test_next_agent_takes_over_while_the_first_one_waits_to_retry(real: Real) -> None:
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


@pytest.mark.parametrize("real", ["claude", "codex", "gemini", "opencode"], indirect=True)
def test_program_is_adopted_after_a_kill(real: Real) -> None:
    real.model.plays(
        real.write("", "one.txt", "one"),
        {"reply": "Did one.", "hold": True, "times": 1},
        real.write("", "two.txt", "two"),
        {"reply": "Did two.", "times": 1},
        real.write("", "three.txt", "three"),
        {"reply": "Did three."},
    )
    marker = f"mark-{uuid.uuid4().hex}"
    process = real.place.start("run", "plan.md", LC_MARK=marker)
    until((real.place.repo / "one.txt").exists, "the agent to work")
    process.kill()
    process.wait(DEADLINE)
    assert list(processes_with(marker)) != []
    real.model.release()
    real.place.segue("resume")
    assert len(real.place.subjects()) == 3
    assert len(real.model.asked()) == 6, "an agent was started twice"
    assert [event["facts"]["adopted"] for event in real.events("agent.ended")] == [True, False, False]
    assert list(processes_with(marker)) == []


@pytest.mark.parametrize("real", ["claude", "codex", "gemini", "opencode"], indirect=True)
def test_stop_ends_a_command_of_an_agent_whose_run_was_killed(real: Real) -> None:
    endless = real.shell(f"touch {real.place.repo}/begun; tail -f /dev/null")
    real.model.plays({"times": 1, "tool_calls": [endless]}, {"reply": "Never said."})
    marker = f"mark-{uuid.uuid4().hex}"
    process = real.place.start("run", "plan.md", LC_MARK=marker)
    until((real.place.repo / "begun").exists, "a command to run")
    process.kill()
    process.wait(DEADLINE)
    real.place.segue("stop")
    assert list(processes_with(marker)) == []
