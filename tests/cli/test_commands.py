"""The smaller commands, the configuration layers and both databases, as a user meets them."""

from __future__ import annotations

import copy
import csv
import io
import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.config.edit import set_value
from segue.config.part_tables import all_settings
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


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("phase_timout = 3\n", ["phase_timout", "segue.toml"]),
        ("[limits]\nphase_timout = 3\n", ["limits.phase_timeout?", "segue.toml"]),
        ('[limits]\nattempts = "many"\n', ["limits.attempts", "segue.toml"]),
        ("agent = \n", ["segue.toml"]),
        ('agent = "command"\n[agents.command]\nargv = []\n', ["agents.command.argv", "segue.toml"]),
        ('agent = "comand"\n', ["comand", "command"]),
    ],
)
def test_wrong_settings_name_their_file(place: Place, text: str, says: list[str]) -> None:
    place.config(text)
    done = place.segue("run", "plan.md", code=2)
    for word in says:
        assert word in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_variable_is_named(place: Place) -> None:
    done = place.segue("config", "list", code=2, SEGUE_LIMITS__PHASE_TIMOUT="3")
    assert "SEGUE_LIMITS__PHASE_TIMOUT" in done.stderr


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


def test_a_setting_is_explained_and_set(place: Place) -> None:
    file = place.root / "segue.toml"
    file.write_text("# mine\njobs = 2  # two\n\n[limits]\nattempts = 3\n")
    values = {"jobs": "4", "limits.cost_usd": "2.5", "agent": "scripted", "roles.plan": "command"}
    for name, value in values.items():
        place.segue("config", "set", name, value)
    text = file.read_text()
    assert tomllib.loads(text) == {
        "jobs": 4,
        "agent": "scripted",
        "limits": {"cost_usd": 2.5, "attempts": 3},
        "roles": {"plan": "command"},
    }
    assert text.startswith("# mine\n")
    assert 'got "many"' in place.segue("config", "set", "jobs", "many", code=2).stderr
    unknown = place.segue("config", "set", "limits.atempts", "1", code=2).stderr
    assert "Did you mean limits.attempts?" in unknown
    place.env.pop("SEGUE_TRUST", None)
    assert 'got "high"' in place.segue("config", "set", "require", "high", code=2).stderr
    assert "Did you mean 'claude'?" in place.segue("config", "set", "agent", "cladue", code=2).stderr
    assert file.read_text() == text, "what is refused leaves no trace"
    file.write_text(text.replace("jobs = 4", 'jobs = "many"'))
    stopped = place.segue("config", "list", code=2).stderr
    assert "Correct it: segue config set jobs VALUE" in stopped
    place.segue("config", "set", "jobs", "4")
    assert "limits is a table" in place.segue("config", "explain", "limits", code=2).stderr
    assert "segue.toml" in place.segue("config", "origin", "jobs").stdout
    assert place.json("config", "explain", "jobs")["value"] == "4"
    assert [row["setting"] for row in place.json("config", "list", "limits.cost")] == ["limits.cost_usd"]


@given(st.data())
def test_setting_a_value_changes_nothing_else(data: st.DataObject) -> None:
    names = st.sampled_from(["a", "b", "c"])
    old = data.draw(st.dictionaries(names, st.integers(0, 9) | st.dictionaries(names, st.integers(0, 9))))
    plain = [f"{key} = {value}" for key, value in old.items() if isinstance(value, int)]
    tables = [
        "\n".join([f"[{key}]", *(f"{name} = {one}  # why" for name, one in value.items())])
        for key, value in old.items()
        if isinstance(value, dict)
    ]
    path = data.draw(st.lists(names, min_size=1, max_size=2))
    new = set_value("\n".join([*plain, *tables]), path, "42")
    if new is None:
        assert (len(path) == 2 and isinstance(old.get(path[0]), int)) or isinstance(old.get(path[0]), dict)
        return
    found = tomllib.loads(new)
    place = found if len(path) == 1 else found[path[0]]
    assert place.pop(path[-1]) == 42
    before: dict[str, Any] = copy.deepcopy(old)
    (before if len(path) == 1 else before.setdefault(path[0], {})).pop(path[-1], None)
    assert found == before


def test_doctor_names_the_fix(place: Place) -> None:
    (place.repo / "loose").write_text("x")
    place.config('agent = "command"\n[agents.command]\nargv = ["no-such-program"]\n')
    done = place.segue("doctor", code=2)
    assert "uncommitted changes: loose" in done.stdout
    assert "agents.command.argv" in done.stdout
    (place.repo / "loose").unlink()
    place.config('agent = "scripted"\n')
    findings = {finding["what"]: finding["ok"] for finding in place.json("doctor")["checks"]}
    assert findings["git"]
    assert findings["database"]
    assert findings["agent scripted"]
    assert not findings["checks"]
    place.config('agent = "scripted"\nchecks = ["no-such-check -q"]\n')
    assert "no-such-check was not found" in place.segue("doctor", code=5).stdout


def test_typos_get_the_nearest_command(place: Place) -> None:
    done = place.segue("stauts", code=2)
    assert "segue status" in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(place: Place, shell: str) -> None:
    assert "_SEGUE_COMPLETE" in place.segue("completion", shell).stdout


def test_completion_knows_commands(place: Place) -> None:
    done = place.segue(code=None, _SEGUE_COMPLETE="bash_complete", COMP_WORDS="segue st", COMP_CWORD="1")
    assert "status" in done.stdout
    assert "stop" in done.stdout


def test_schemas_are_json(place: Place) -> None:
    assert "limits" in json.loads(place.segue("config", "schema").stdout)["properties"]
    assert "argv" in json.loads(place.segue("agent", "schema", "command").stdout)["properties"]


def test_agents_say_whether_they_are_ready(place: Place) -> None:
    agents = {agent["name"]: agent for agent in place.json("agent", "list")}
    assert agents["scripted"]["ready"]
    assert "plan_mode" in agents["scripted"]["can"]
    assert not agents["command"]["ready"]


@pytest.mark.thorough
def test_the_dataset_is_exported(place: Place) -> None:
    place.segue("run", "plan.md", "--agent", "scripted", "--task", "1")
    lines = place.segue("db", "export", "events").stdout.splitlines()
    events = [json.loads(line) for line in lines]
    assert {"run.started", "agent.ended", "run.ended"} <= {event["type"] for event in events}
    rows = list(csv.DictReader(io.StringIO(place.segue("db", "export", "steps", "--format", "csv").stdout)))
    assert {row["phase"] for row in rows} == {"base", "execute", "commit", "end"}
    place.segue("db", "export", "runs", "--format", "parquet", "-o", str(place.root / "runs.parquet"))
    assert (place.root / "runs.parquet").read_bytes()[:4] == b"PAR1"


def test_db_path_and_migrate(place: Place) -> None:
    assert place.segue("db", "path").stdout.strip() == str(place.database)
    place.segue("db", "migrate")
    assert place.database.exists()


def test_status_of_nothing_says_what_to_try(place: Place) -> None:
    assert "segue demo" in place.segue("status").stdout
    assert not place.database.parent.exists()


def test_logs_of_one_task(place: Place) -> None:
    place.segue("run", "plan.md", "--agent", "scripted")
    logs = place.segue("logs", "--task", "2").stdout
    assert "task 2 started" in logs
    assert "task 1 started" not in logs
    assert "task 3 started" not in logs


def test_a_database_that_is_none_is_named(place: Place) -> None:
    place.database.parent.mkdir(parents=True)
    place.database.write_text("this is no database, but long enough to look at it twice" * 100)
    for command in (["status"], ["run", "plan.md", "--agent", "scripted"]):
        done = place.segue(*command, code=1)
        assert "segue.db" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.thorough
def test_a_run_on_postgres_is_the_same_run(place: Place, postgres: str) -> None:
    place.segue("run", "plan.md", "--agent", "scripted", SEGUE_DATABASE_URL=postgres)
    data = place.json("status", "last", SEGUE_DATABASE_URL=postgres)
    assert data["state"] == "done"
    assert [task["state"] for task in data["tasks"]] == ["done"] * 3
    assert place.json("status") == []
    again = place.segue("run", "plan.md", "--agent", "scripted", SEGUE_DATABASE_URL=postgres)
    assert again.stdout.strip() == "No pending tasks to process."


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


@pytest.mark.thorough
def test_a_rewritten_plan_asks_to_choose(place: Place) -> None:
    place.segue("run", "plan.md", "--agent", "scripted", "--task", "1")
    (place.repo / "plan.md").write_text("## Task 1\nNew first.\n\n## Task 2\nWrite one.\n")
    place.git("commit", "-qam", "renumbered")
    done = place.segue("run", "plan.md", "--agent", "scripted", code=2)
    assert "completed tasks 1" in done.stderr
    assert "--plan-changed" in done.stderr
    place.segue("run", "plan.md", "--agent", "scripted", "--plan-changed", "keep")
    assert place.subjects()[-1] == "Task 2: Write one."
    (place.repo / "plan.md").write_text("## Task 1\nNewest.\n")
    place.git("commit", "-qam", "again")
    place.segue("run", "plan.md", "--agent", "scripted", "--plan-changed", "restart", "--allow-no-change")
    assert json.loads(place.state_file().read_text())["completed_task_indices"] == [1]
    assert list(place.state_file().parent.glob("*.restarted-*"))


@pytest.mark.thorough
def test_new_tasks_at_the_end_of_a_plan_need_no_question(place: Place) -> None:
    place.segue("run", "plan.md", "--agent", "scripted")
    (place.repo / "plan.md").write_text(PLAN + "\n## Task 4\nWrite four.\n")
    place.git("commit", "-qam", "more")
    place.segue("run", "plan.md", "--agent", "scripted")
    assert place.subjects()[-1] == "Task 4: Write four."


@pytest.mark.thorough
def test_final_commands_run_after_the_last_task(place: Place) -> None:
    place.config(
        '[final]\nreview = [["git", "log", "--oneline"]]\naudit = [["sh", "-c", "echo bad; exit 3"]]\n'
    )
    done = place.segue("run", "plan.md", "--agent", "scripted")
    assert "Final review: git log --oneline (exit code 0)" in done.stdout
    assert "Task 3: Write three." in done.stdout.split("Final review")[1]
    assert "(exit code 3)\nbad" in done.stdout
    summary = next((place.database.parent / "runs").glob("*/summary.json"))
    data = json.loads(summary.read_text())["data"]
    assert [final["exit_code"] for final in data["final"]] == [0, 3]
    assert len(data["tasks"]) == 3


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give files away")
def test_a_file_of_somebody_else_above_the_repository_does_not_count(place: Place) -> None:
    place.config('agent = "command"\n[agents.command]\nargv = ["evil"]\n')
    os.chown(place.root / "segue.toml", 12345, 12345)
    rows = {row["setting"]: row["value"] for row in place.json("config", "list")}
    assert rows["agent"] == ""
