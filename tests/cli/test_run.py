"""`segue run`: what a user sees, what is committed, what is stored."""

from __future__ import annotations

import json
import subprocess

from tests.cli.place import Place


def test_a_plan_is_carried_and_committed_task_by_task(place: Place) -> None:
    done = place.segue("run", "plan.md", "--agent", "scripted")
    assert place.subjects() == ["Task 1: Write one.", "Task 2: Write two.", "Task 3: Write three."]
    assert done.stdout.count("  done  ") == 3
    assert "PASS" not in done.stdout, "nothing was verified"
    run = place.last_run()
    trailers = place.git("log", "-1", "--format=%(trailers:only)").splitlines()
    assert f"Segue-Run: {run}" in trailers
    assert "Segue-Task: 3" in trailers
    assert "Segue-Agent: scripted" in trailers
    assert place.git("status", "--porcelain") == ""


def test_state_file_names_what_was_achieved(place: Place) -> None:
    place.segue("run", "plan.md", "--agent", "scripted", "--task", "2")
    state = json.loads(place.state_file().read_text())
    assert state["completed_task_indices"] == [2]
    assert state["plan_path"] == str(place.repo / "plan.md")
    assert state["repo_path"] == str(place.repo)
    assert state["last_completed_ref"] == place.git("rev-parse", "HEAD").strip()


def test_one_task_and_from_a_task(place: Place) -> None:
    place.segue("run", "plan.md", "--agent", "scripted", "--task", "2")
    place.segue("run", "plan.md", "--agent", "scripted", "--from", "2")
    assert place.subjects() == ["Task 2: Write two.", "Task 3: Write three."]
    place.segue("run", "plan.md", "--agent", "scripted")
    assert place.subjects()[-1] == "Task 1: Write one."


def test_dry_run_prints_every_prompt_and_leaves_no_trace(place: Place) -> None:
    done = place.segue("run", "plan.md", "--dry-run")
    for text in ("Write one.", "Write two.", "Write three."):
        assert text in done.stdout
    assert not place.database.parent.exists()
    assert place.subjects() == []


def test_json_records_run_from_launch_to_done(place: Place) -> None:
    done = place.segue("run", "plan.md", "--agent", "scripted", "--json")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert records[0]["type"] == "launch"
    assert records[0]["pid"] > 0
    assert records[-1] == {"type": "done", "run": records[0]["run"], "state": "done", "exit_code": 0}
    assert [r["seq"] for r in records[1:-1]] == list(range(1, len(records) - 1))


def test_status_speaks_the_machine_contract(place: Place) -> None:
    place.segue("run", "plan.md", "--agent", "scripted", "--task", "1")
    data = place.json("status", place.last_run())
    assert data["state"] == "done"
    assert (data["flow"], data["agent"], data["repo"]) == ("execute", "scripted", str(place.repo))
    (task,) = data["tasks"]
    head = place.git("rev-parse", "HEAD").strip()
    names = ("key", "state", "kind", "blocked_by", "attempts", "verdict", "branch", "commit")
    assert {k: task[k] for k in names} == {
        "key": "1",
        "state": "done",
        "kind": "build",
        "blocked_by": [],
        "attempts": 1,
        "verdict": None,
        "branch": "main",
        "commit": head,
    }


def test_the_command_agent_gets_the_prompt_on_stdin(place: Place) -> None:
    agent = place.repo / "agent.sh"
    agent.write_text('#!/bin/sh\ncat > "prompt-$SEGUE_TASK.txt"\n')
    agent.chmod(0o755)
    place.git("add", "--all")
    place.git("commit", "--quiet", "-m", "agent")
    place.config('agent = "command"\n[agents.command]\nargv = ["./agent.sh"]\n')
    place.segue("run", "plan.md")
    assert "Write two." in (place.repo / "prompt-2.txt").read_text()


def test_a_repository_without_commits_works(place: Place) -> None:
    empty = place.root / "empty"
    empty.mkdir()
    subprocess.run(["git", "init", "-q", str(empty)], check=True, env=place.env)
    place.segue("run", str(place.repo / "plan.md"), "--agent", "scripted", "-C", str(empty))
    log = subprocess.run(
        ["git", "log", "--format=%s"], cwd=empty, env=place.env, capture_output=True, text=True, check=True
    )
    assert len(log.stdout.splitlines()) == 3
