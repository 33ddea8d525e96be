"""The smaller commands, the configuration layers and both databases, as a user meets them."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest

from segue.config.feature_tables import all_settings
from segue.domain.options import read_options
from tests.cli.place import PLAN, Place


def test_task_list_shows_what_was_understood_and_what_was_not(place: Place) -> None:
    (place.repo / "plan.md").write_text(PLAN + "\n```\n### Task 4: near miss\n```\n")
    data = place.json("task", "list", "plan.md")
    assert data["source"] == "planfile"
    assert data["tasks"][0] == {
        "key": "1",
        "title": "Write one.",
        "status": "pending",
        "kind": "build",
        "line": 3,
        "story": None,
    }
    assert [warning["line"] for warning in data["warnings"]] == [13]
    assert data["read_as"] == "Read 3 tasks from level-2 headings 'Task N'."
    place.segue("run", "plan.md", "--agent", "scripted", "--task", "1", "--allow-dirty")
    statuses = [task["status"] for task in place.json("task", "list", "plan.md")["tasks"]]
    assert statuses == ["done", "pending", "pending"]


def test_task_list_and_dry_run_show_the_kind(place: Place) -> None:
    """By the user's rules, as the plan says, or by the words."""
    texts = ["Update README", "Add a page\n\nkind: human", "Run all tests", "Add a form"]
    tasks = "\n".join(f"## Task {number}\n{text}\n" for number, text in enumerate(texts, 1))
    (place.repo / "plan.md").write_text(tasks)
    place.config('[kinds]\n"4*" = "docs"\n')
    kinds = ["docs", "human", "verify-only", "docs"]
    assert [task["kind"] for task in place.json("task", "list", "plan.md")["tasks"]] == kinds
    shown = place.segue("task", "list", "plan.md").stdout
    assert "KIND" in shown
    assert "verify-only" in shown
    lines = place.segue("run", "plan.md", "--agent", "scripted", "--dry-run", "--json").stdout.splitlines()
    prompts = [record for record in map(json.loads, lines) if record["type"] == "prompt"]
    assert {record["task"]: record["kind"] for record in prompts} == dict(zip("1234", kinds, strict=True))
    assert [record["task"] for record in prompts if record["prompt"] is None] == ["2"]
    assert "· docs ·" in place.segue("run", "plan.md", "--agent", "scripted", "--dry-run").stdout


def test_the_command_line_wins_over_environment_over_project_over_user(place: Place) -> None:
    user = Path(place.env["XDG_CONFIG_HOME"]) / "segue" / "config.toml"
    user.parent.mkdir(parents=True, exist_ok=True)
    user.write_text('agent = "codex"\nmodel = "user"\ncommit = "phase"\n[limits]\nattempts = 7\n')
    place.config('model = "project"\n[limits]\nlaunches = 5\n')
    rows = place.json("config", "list", SEGUE_LIMITS__LAUNCHES="6")
    found = {row["setting"]: (row["value"], row["origin"]) for row in rows}
    assert found["agent"] == ("codex", str(user))
    assert found["model"] == ("project", str(place.root / "segue.toml"))
    assert found["limits.launches"] == ("6", "environment")
    assert found["limits.attempts"] == ("7", str(user))
    assert found["limits.idle_timeout"][1] == "default"


def test_settings_in_pyproject_count(place: Place) -> None:
    (place.repo / "pyproject.toml").write_text('[tool.segue]\nagent = "scripted"\n')
    rows = {row["setting"]: row["value"] for row in place.json("config", "list")}
    assert rows["agent"] == "scripted"


def test_other_names_of_settings_are_accepted(place: Place) -> None:
    place.config(
        'plan_path = "repo/plan.md"\nrepo_path = "repo"\nphase_timeout_sec = 60\nmax_address_rounds = 2\n'
        'agent_cmd = "my-agent"\nsandbox = "disabled"\nstate_dir = "state-here"\n'
        'stet_commands = [["stet", "start"], ["stet", "run"]]\nmodel = "gpt-5.2"\n'
    )
    rows = {row["setting"]: row["value"] for row in place.json("config", "list")}
    assert rows["source"] == str(place.repo / "plan.md")
    assert rows["limits.phase_timeout"] == "60.0"
    assert rows["review.max_address_rounds"] == "2"
    assert rows["agents.cursor.agent_cmd"] == "my-agent"
    assert rows["state_dir"] == str(place.root / "state-here")
    place.segue("run", "--agent", "scripted", "--flow", "execute")
    assert len(place.subjects()) == 3


def test_init_writes_a_file_that_loads_and_never_overwrites(place: Place) -> None:
    (place.repo / "pytest.ini").write_text("")
    assert place.segue("init", "--dry-run").stdout.startswith("# What Segue found")
    place.segue("init")
    text = (place.repo / "segue.toml").read_text()
    assert len(text.splitlines()) <= 10
    assert 'source = "plan.md"               # 0 of 3 tasks are done' in text
    assert 'checks = ["pytest -q"]           # pytest.ini' in text
    read_options(all_settings(), tomllib.loads(text))
    done = place.segue("init", code=2)
    assert "not changed" in done.stderr
    assert (place.repo / "segue.toml").read_text() == text


def test_completion_knows_commands(place: Place) -> None:
    done = place.segue(code=None, _SEGUE_COMPLETE="bash_complete", COMP_WORDS="segue st", COMP_CWORD="1")
    assert "status" in done.stdout
    assert "stop" in done.stdout


def test_logs_of_one_task(place: Place) -> None:
    place.segue("run", "plan.md", "--agent", "scripted")
    logs = place.segue("logs", "--task", "2").stdout
    assert "task 2 started" in logs
    assert "task 1 started" not in logs
    assert "task 3 started" not in logs


def test_the_log_holds_facts_and_no_prompt(place: Place) -> None:
    (place.repo / "plan.md").write_text("## Task 1\nA very secret recipe.\n")
    log = place.root / "segue.log"
    place.segue("run", "plan.md", "--agent", "scripted", "--allow-dirty", "--log-file", str(log))
    records = [json.loads(line) for line in log.read_text().splitlines()]
    (prompt,) = [record for record in records if record["event"] == "prompt"]
    assert prompt["prompt_length"] > 100
    assert len(prompt["prompt_hash"]) == 16
    (ended,) = [record for record in records if record["event"] == "agent.ended"]
    assert (ended["task"], ended["phase"], ended["exit_code"]) == ("1", "execute", 0)
    assert "duration" in ended
    assert not [r for r in records if r["event"] == "prompt" and "recipe" in json.dumps(r)]
    text = place.segue("run", "plan.md", "--agent", "scripted", "--log-file", "-", SEGUE_LOG__FORMAT="text")
    assert text.returncode == 0


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give files away")
def test_a_file_of_somebody_else_above_the_repository_does_not_count(place: Place) -> None:
    place.config('agent = "command"\n[agents.command]\nargv = ["evil"]\n')
    os.chown(place.root / "segue.toml", 12345, 12345)
    rows = {row["setting"]: row["value"] for row in place.json("config", "list")}
    assert rows["agent"] == ""


def test_a_flow_of_the_users_own_is_stored_with_its_run(place: Place) -> None:
    place.script('[[on]]\ntask = "1"\nattempt = 1\nsay = "I claim to be done."\n')
    place.more_config('flows.mine.phases = ["plan", "execute"]\n')
    place.segue("run", "plan.md", "--flow", "mine", "--task", "1", code=3)
    place.script("")
    place.segue("resume")
    rows = place.rows("SELECT DISTINCT phase FROM orchestrator_steps WHERE task = '1'")
    assert {"plan", "execute"} <= {phase for (phase,) in rows}
    assert place.json("status", "last")["flow"] == "mine"


def test_variables_keep_the_case_of_tasks_and_of_other_variables(place: Place) -> None:
    place.env |= {"SEGUE_KINDS__T012": "docs", "SEGUE_AGENTS__COMMAND__ENV__TZ": "UTC"}
    shown = {row["setting"] for row in place.json("config", "list")}
    assert {"kinds.T012", "agents.command.env.TZ"} <= shown
