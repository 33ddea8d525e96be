"""`segue run`: what a user sees, what is committed, what is stored."""

from __future__ import annotations

import json
import subprocess

import pytest

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


@pytest.mark.thorough
def test_the_same_command_again_has_nothing_to_do(place: Place) -> None:
    place.segue("run", "plan.md", "--agent", "scripted")
    again = place.segue("run", "plan.md", "--agent", "scripted")
    assert again.stdout.strip() == "No pending tasks to process."
    assert len(place.json("status")) == 1


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


def test_an_unknown_task_names_the_nearest(place: Place) -> None:
    done = place.segue("run", "plan.md", "--agent", "scripted", "--task", "33", code=2)
    assert "'33'" in done.stderr
    assert "Did you mean '3'?" in done.stderr


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


@pytest.mark.thorough
def test_without_commits_the_changes_stay_in_the_work_tree(place: Place) -> None:
    place.segue("run", "plan.md", "--agent", "scripted", "--commit", "never")
    assert place.subjects() == []
    assert place.git("status", "--porcelain") != ""
    assert json.loads(place.state_file().read_text())["completed_task_indices"] == [1, 2, 3]


@pytest.mark.thorough
def test_an_agent_that_commits_by_itself_counts_as_change(place: Place) -> None:
    place.script('[[on]]\nwrite = { "f{task}" = "x" }\ncommit = "mine"\n')
    place.segue("run", "plan.md")
    assert place.subjects() == ["mine", "mine", "mine"]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("missing.md", None, "Invalid or missing plan file."),
        ("bad.md", b"## Task 1\n\xff\xfe", "Invalid or missing plan file."),
        ("none.md", b"# Nothing\n", "Invalid or missing plan file."),
        ("near.md", b"## Task 1\nx\n## Task 2/3: Title\ny\n", "line 3: `## Task 2/3: Title`"),
    ],
)
def test_plans_that_cannot_be_read_stop_before_any_task(
    place: Place, name: str, content: bytes | None, says: str
) -> None:
    path = place.root / name
    if content is not None:
        path.write_bytes(content)
    done = place.segue("run", str(path), "--agent", "scripted", code=2)
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert place.json("status") == []


@pytest.mark.thorough
def test_titled_headings_are_run_unless_the_strict_rule_is_wanted(place: Place) -> None:
    plan = place.root / "titled.md"
    plan.write_text("## Task 1: One\nx\n\n### Task 2: Title\ny\n")
    refused = place.segue("run", str(plan), "--agent", "scripted", "--plan-format", "strict", code=2)
    assert "Leave --plan-format strict out" in refused.stderr
    done = place.segue("run", str(plan), "--agent", "scripted")
    assert "Read 2 tasks from level-2 and 3 headings 'Task N: title'." in done.stderr
    assert place.subjects() == ["Task 1: One", "Task 2: Title"]


@pytest.mark.parametrize(
    "text",
    [
        "## Task 1: One\nx\n## Task 2/3: Two\ny\n",
        "# Nothing\n",
        "## Task 1\na\n## Task 1\nb\n",
        "- [ ] One\n- [x] Two\n",
        "## Step 1\nx\n",
    ],
)
def test_listing_rehearsing_and_running_agree(place: Place, text: str) -> None:
    plan = place.root / "plan-of-some-shape.md"
    plan.write_text(text)
    for arguments in (["--plan-format", "strict"], ["--plan-format", "auto"]):
        listed, shown, run = (
            place.segue(*command, str(plan), *arguments, code=None)
            for command in (
                ("task", "list"),
                ("run", "--agent", "scripted", "--dry-run"),
                ("run", "--agent", "scripted"),
            )
        )
        assert listed.returncode == shown.returncode == run.returncode
        if run.returncode:
            said = [line for line in run.stderr.splitlines() if line.startswith("segue: ")]
            assert said
            assert said == [line for line in shown.stderr.splitlines() if line.startswith("segue: ")]
            assert said == [line for line in listed.stderr.splitlines() if line.startswith("segue: ")]


def test_a_folder_that_is_no_repository_is_refused(place: Place) -> None:
    (place.root / "plain").mkdir()
    done = place.segue("run", "plan.md", "--agent", "scripted", "-C", str(place.root / "plain"), code=2)
    assert "Target path is not a git repository" in done.stderr


def test_a_dirty_work_tree_is_refused_unless_allowed(place: Place) -> None:
    (place.repo / "mine.txt").write_text("my own work")
    done = place.segue("run", "plan.md", "--agent", "scripted", code=2)
    assert "mine.txt" in done.stderr
    assert place.json("status") == []
    place.segue("run", "plan.md", "--agent", "scripted", "--allow-dirty")


def test_a_missing_program_ends_before_any_task(place: Place) -> None:
    place.config('agent = "command"\n[agents.command]\nargv = ["no-such-program-anywhere"]\n')
    done = place.segue("run", "plan.md", code=5)
    assert "no-such-program-anywhere" in done.stderr
    assert place.json("status") == []


def test_the_command_agent_gets_the_prompt_on_stdin(place: Place) -> None:
    agent = place.repo / "agent.sh"
    agent.write_text('#!/bin/sh\ncat > "prompt-$SEGUE_TASK.txt"\n')
    agent.chmod(0o755)
    place.git("add", "--all")
    place.git("commit", "--quiet", "-m", "agent")
    place.config('agent = "command"\n[agents.command]\nargv = ["./agent.sh"]\n')
    place.segue("run", "plan.md")
    assert "Write two." in (place.repo / "prompt-2.txt").read_text()


@pytest.mark.thorough
def test_a_failing_hook_keeps_the_work_and_asks_a_human(place: Place) -> None:
    hook = place.repo / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\ngit diff --cached --quiet && exit\necho tests are red >&2\nexit 1\n")
    hook.chmod(0o755)
    done = place.segue("run", "plan.md", "--agent", "scripted", code=3)
    assert "the pre-commit hook failed: tests are red" in done.stderr
    assert place.git("status", "--porcelain") != ""
    hook.unlink()
    place.segue("resume")
    assert len(place.subjects()) == 3


def test_a_repository_without_commits_works(place: Place) -> None:
    empty = place.root / "empty"
    empty.mkdir()
    subprocess.run(["git", "init", "-q", str(empty)], check=True, env=place.env)
    place.segue("run", str(place.repo / "plan.md"), "--agent", "scripted", "-C", str(empty))
    log = subprocess.run(
        ["git", "log", "--format=%s"], cwd=empty, env=place.env, capture_output=True, text=True, check=True
    )
    assert len(log.stdout.splitlines()) == 3


@pytest.mark.thorough
def test_live_table_is_not_drawn_into_a_pipe(place: Place) -> None:
    done = place.segue("run", "plan.md", "--agent", "scripted", FORCE_COLOR="1")
    assert "\x1b" not in done.stdout + done.stderr
    assert "task 1 started" in done.stderr
