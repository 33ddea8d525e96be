"""Spec Kit features with a local agent: a branch per task, ticks, verification, decisions by people."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.cli.place import Place

TASKS = """# Tasks: Greeting

## Phase 1: Setup

- [ ] T001 Create the folder in src/

## Phase 2: User Story 1 - Greet (Priority: P1)

- [ ] T002 [US1] Greet in src/hello.py
- [ ] T003 [US1] Test it in tests/test_hello.py
"""

SPEC = """# Feature Specification: Greeting

### User Story 1 - Greet (Priority: P1)

People want to be greeted.

**Acceptance Scenarios**:

1. **Given** a name, **When** the program runs, **Then** it prints a greeting with that name
"""

WORK = '[[on]]\nwrite = { "done/{task}" = "{attempt}" }\n'


@pytest.fixture
def feature(place: Place) -> Place:
    """A repository with one Spec Kit feature, verified by a check that every task can pass."""
    folder = place.repo / "specs" / "001-greeting"
    folder.mkdir(parents=True)
    (place.repo / ".specify").mkdir()
    (place.repo / ".specify" / "init-options.json").write_text("{}")
    (folder / "tasks.md").write_text(TASKS)
    (folder / "spec.md").write_text(SPEC)
    (folder / "plan.md").write_text("# Implementation Plan\n\n## Summary\n\nPlain Python.\n")
    place.git("add", "--all")
    place.git("commit", "--quiet", "-m", "feature")
    place.script(WORK)
    place.more_config('judged_by = "checks"\nchecks = [["test", "-d", "done"]]\n')
    return place


def folder(place: Place) -> Path:
    return place.repo / "specs" / "001-greeting"


def state(place: Place) -> Any:
    return json.loads((folder(place) / "state.json").read_text())


def test_a_feature_is_found_carried_and_ticked(feature: Place) -> None:
    feature.segue("run")
    assert (folder(feature) / "tasks.md").read_text() == TASKS.replace("[ ]", "[x]")
    assert state(feature)["head_branch"] == "segue/001-greeting/T003"
    assert {key: task["status"] for key, task in state(feature)["tasks"].items()} == dict.fromkeys(
        ["T001", "T002", "T003"], "done"
    )
    changed = [line[3:] for line in feature.git("status", "--porcelain").splitlines()]
    assert changed == ["specs/001-greeting/tasks.md", "specs/001-greeting/state.json"], "the score only"


@pytest.mark.thorough
def test_each_task_starts_from_the_branch_of_the_one_before(feature: Place) -> None:
    feature.segue("run", "specs/001-greeting")
    branches = feature.git("branch", "--format=%(refname:short)").split()
    assert branches == ["main", *(f"segue/001-greeting/T00{n}" for n in (1, 2, 3))]
    for before, after in pairwise(branches):
        feature.git("merge-base", "--is-ancestor", before, after)
    assert feature.git("ls-tree", "--name-only", "segue/001-greeting/T001", "done/").split() == ["done/T001"]


@pytest.mark.thorough
def test_a_task_by_its_id_and_the_nearest_of_an_unknown_one(feature: Place) -> None:
    feature.segue("run", "--task", "T002")
    assert "- [x] T002" in (folder(feature) / "tasks.md").read_text()
    done = feature.segue("run", "--task", "T022", code=2)
    assert "T002" in done.stderr


def test_dry_run_shows_the_context_of_the_task(feature: Place) -> None:
    done = feature.segue("run", "--dry-run", "--task", "T003")
    assert "it prints a greeting with that name" in done.stdout
    assert "Plain Python." in done.stdout
    assert not (folder(feature) / "state.json").exists()


@pytest.mark.thorough
def test_what_is_missing_goes_back_to_the_agent(feature: Place) -> None:
    fixes = '[[on]]\nphase = "resolve"\nwrite = { "proof" = "x" }\ndelete = ["done/T001"]\n'
    feature.script(fixes + WORK)
    feature.more_config('judged_by = "checks"\nchecks = [["sh", "-c", "! ls done/*1"]]\n')
    feature.segue("run", "--task", "T001")
    steps = [key for (key,) in feature.rows("select key from orchestrator_steps order by seq")]
    assert [k.removeprefix("task/T001/") for k in steps if "verify" in k or "resolve" in k] == [
        "resolve/1",
        "verify/1",
    ]
    prompts = [text for (text,) in feature.rows("select text from orchestrator_prompts")]
    assert [text for text in prompts if "check: sh -c '! ls done/*1': NOT MET" in text]


@pytest.mark.thorough
def test_ticks_and_state_are_not_committed_with_the_work(feature: Place) -> None:
    feature.segue("run")
    assert feature.git("diff", "--name-only", "main", "segue/001-greeting/T003").split() == [
        "done/T001",
        "done/T002",
        "done/T003",
    ]


@pytest.mark.thorough
def test_after_two_follow_ups_a_human_is_asked(feature: Place) -> None:
    feature.more_config("")
    feature.config(
        'agent = "scripted"\njudged_by = "checks"\nchecks = [["sh", "-c", "! ls done/*1"]]\n'
        '[agents.scripted]\nscript = "script.toml"\n'
    )
    done = feature.segue("run", code=3)
    assert "segue task accept T001" in done.stderr
    assert "- [ ] T001" in (folder(feature) / "tasks.md").read_text()
    record = state(feature)["tasks"]["T001"]
    assert record["status"] == "failed"
    assert record["attempts"] == 3
    assert "! ls done/*1" in record["error"]


@pytest.mark.thorough
def test_a_person_accepts_and_skips(feature: Place) -> None:
    checks = [["sh", "-c", f"! ls done/*{number}"] for number in (1, 2, 3)]  # each task breaks one
    feature.config(
        f'agent = "scripted"\njudged_by = "checks"\nchecks = {checks}\n'
        '[agents.scripted]\nscript = "script.toml"\n[limits]\nresolutions = 0\n'
    )
    feature.segue("run", code=3)
    feature.segue("task", "accept", "T001")
    feature.segue("task", "accept", "T001", code=2)
    feature.segue("resume", code=3)
    feature.segue("task", "skip", "T002", "--reason", "not needed")
    feature.segue("resume", code=3)
    text = (folder(feature) / "tasks.md").read_text()
    assert "- [x] T001" in text
    assert "- [x] T002" not in text
    tasks = {task["key"]: task for task in feature.json("status", "last")["tasks"]}
    assert tasks["T001"]["state"] == "done"
    assert "not needed" in tasks["T002"]["reason"]
    assert tasks["T003"]["state"] == "needs_human"
    files = feature.git("ls-tree", "-r", "--name-only", "HEAD", "done/").split()
    assert files == ["done/T001", "done/T003"], "the accepted work is built on, the skipped one is not"


@pytest.mark.thorough
def test_what_a_skipped_task_left_stays_on_its_branch(feature: Place) -> None:
    feature.script('[[on]]\ntask = "T001"\nwrite = { "half" = "x" }\nexit_code = 1\n' + WORK)
    feature.more_config('judged_by = "checks"\nchecks = [["true"]]\n')
    feature.segue("run", code=3)
    feature.segue("task", "skip", "T001", "--reason", "by hand")
    feature.segue("resume")
    assert not (feature.repo / "half").exists()
    assert "half" in feature.git("ls-tree", "--name-only", "segue/001-greeting/T001").split()


@pytest.mark.thorough
def test_a_feature_by_its_bare_name(feature: Place) -> None:
    feature.segue("run", "001-greeting", "--task", "T001")
    assert "- [x] T001" in (folder(feature) / "tasks.md").read_text()
    assert len(feature.json("task", "list")["tasks"]) == 3


def test_a_judge_needs_commits(feature: Place) -> None:
    done = feature.segue("run", "--commit", "never", code=2)
    assert "commits" in done.stderr


def test_a_corrupt_state_file_of_an_unknown_run_stops(feature: Place) -> None:
    path = folder(feature) / "state.json"
    path.write_text("{")
    done = feature.segue("run", code=2)
    assert "Cannot proceed: state file is missing or corrupted." in done.stderr
    assert path.read_text() == "{"


def test_all_ticked_means_nothing_to_do(feature: Place) -> None:
    (folder(feature) / "tasks.md").write_text(TASKS.replace("[ ]", "[X]"))
    assert feature.segue("run").stdout.strip() == "No pending tasks to process."


def test_no_task_recognised_says_what_was_seen(feature: Place) -> None:
    (folder(feature) / "tasks.md").write_text("# Tasks\n\n## Checklist\n\n- [ ] Test it\n")
    for command in (["task", "list"], ["run", "--dry-run"], ["run"]):
        done = feature.segue(*command, code=2)
        assert "No pending tasks" not in done.stderr + done.stdout
        assert "1 boxes" in done.stderr


@pytest.mark.thorough
def test_kill_9_between_tasks_keeps_tick_and_state_together(feature: Place) -> None:
    feature.script('[[on]]\nwrite = { "done/{task}" = "x" }\ndelay = 0.2\n')
    feature.more_config('judged_by = "checks"\nchecks = [["test", "-d", "done"]]\n')
    for _ in range(4):
        process = feature.start("run")
        try:
            process.wait(0.9)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    feature.segue("run")
    assert (folder(feature) / "tasks.md").read_text() == TASKS.replace("[ ]", "[x]")
    assert len(state(feature)["tasks"]) == 3
    subjects = feature.git("log", "--format=%s").splitlines()
    for key in ("T001", "T002", "T003"):
        assert len([subject for subject in subjects if subject.startswith(f"Task {key}")]) == 1


HEADINGS = "# Tasks\n\n### T001 One\n\nDo it.\n\n- [ ] it works\n\n### T002 Two\n\nDo that.\n"
TWO_LISTS = HEADINGS + "\n### T003 Three\n\nMore.\n\n## Appendix\n\n- [ ] T001 One\n- [x] T002 Two\n"


def rewrite(feature: Place, text: str) -> Path:
    path = folder(feature) / "tasks.md"
    path.write_text(text)
    feature.git("commit", "--quiet", "--all", "-m", "other tasks")
    return path


@pytest.mark.thorough
def test_tasks_as_headings_are_run_and_marked(feature: Place) -> None:
    path = rewrite(feature, HEADINGS)
    done = feature.segue("run")
    assert "Read 2 tasks: 2 headings." in done.stderr
    assert path.read_text() == HEADINGS.replace("### T", "### [x] T")
    assert [task["status"] for task in feature.json("task", "list")["tasks"]] == ["done", "done"]


@pytest.mark.thorough
def test_two_lists_of_the_same_tasks_need_a_choice(feature: Place) -> None:
    path = rewrite(feature, TWO_LISTS)
    for command in (["task", "list"], ["run", "--dry-run"], ["run"]):
        refused = feature.segue(*command, code=2)
        assert "has two lists of the same tasks" in refused.stderr
        assert "--task-list 1" in refused.stderr
    assert path.read_text() == TWO_LISTS
    feature.segue("run", "--task-list", "2")
    assert path.read_text() == TWO_LISTS.replace("[ ] T001", "[x] T001")


@pytest.mark.thorough
def test_the_only_feature_is_found_without_specify(feature: Place) -> None:
    feature.git("rm", "-rq", ".specify")
    feature.git("commit", "--quiet", "-m", "no .specify")
    listed = feature.segue("task", "list")
    assert "there is no .specify" in listed.stderr
    feature.segue("run", "--task", "T001")
    assert "- [x] T001" in (folder(feature) / "tasks.md").read_text()


@pytest.mark.thorough
def test_a_checkpoint_is_a_gate_where_wanted(feature: Place) -> None:
    text = "- [ ] T001 One\n\n**Checkpoint**: It starts\n\n- [ ] T002 Two\n- [ ] T003\n"
    path = rewrite(feature, text)
    feature.more_config('gates = ["checkpoint"]\n')
    stopped = feature.segue("run", code=3)
    assert "The run waits for you after task T001: It starts." in stopped.stderr
    assert "segue resume" in stopped.stderr
    assert path.read_text() == text.replace("[ ] T001", "[x] T001")
    assert feature.json("status")[0]["state"] == "needs_human"
    feature.segue("resume")
    assert path.read_text() == text.replace("[ ]", "[x]")


@pytest.mark.thorough
def test_parts_of_a_feature(feature: Place) -> None:
    text = "## Phase 1\n- [ ] T001 [US1] One\n\n**Checkpoint**: ok\n## Phase 2\n- [ ] T002 Two\n- [ ] T003\n"
    path = rewrite(feature, text)
    shown = feature.segue("run", "--dry-run", "--phase", "2").stdout
    assert "task T001" not in shown
    assert "task T003" in shown
    assert "There is no story 'US4'" in feature.segue("run", "--story", "US4", code=2).stderr
    feature.segue("run", "--until-checkpoint")
    assert path.read_text() == text.replace("[ ] T001", "[x] T001")
    feature.segue("run", "--phase", "2", "--pause-after-task", code=3)
    assert path.read_text().count("[x]") == 2
    feature.segue("resume")
    assert "[ ]" not in path.read_text()


def at_terminal(place: Place, typed: str, *arguments: str) -> tuple[int, str]:
    """Run segue for a person who types something; return its exit code and what it showed."""
    ours, theirs = pty.openpty()
    os.write(ours, typed.encode())
    env = {**place.env, "TERM": "xterm"}
    argv = place.command(*arguments)
    process = subprocess.Popen(argv, cwd=place.repo, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = b""
    with contextlib.suppress(OSError):  # the other side is closed
        while part := os.read(ours, 4096):
            said += part
    os.close(ours)
    return process.wait(place.patience), said.decode(errors="replace")


@pytest.mark.thorough
@pytest.mark.parametrize(("typed", "code", "done"), [("y\n", 0, 3), ("n\n", 3, 1)])
def test_a_person_at_the_terminal_is_asked_at_a_gate(
    feature: Place, typed: str, code: int, done: int
) -> None:
    path = rewrite(
        feature, "- [ ] T001 One\n\n**Checkpoint**: It starts\n\n- [ ] T002 Two\n- [ ] T003 Three\n"
    )
    feature.more_config('gates = ["checkpoint"]\n')
    ended, said = at_terminal(feature, typed, "run")
    assert "Continue? [y/N]" in said
    assert ended == code
    assert path.read_text().count("[x]") == done


@pytest.mark.thorough
def test_a_person_at_the_terminal_is_asked_which_list_counts(feature: Place) -> None:
    path = rewrite(feature, TWO_LISTS)
    ended, said = at_terminal(feature, "2\n", "run")
    assert "Which list counts, or stop?" in said
    assert ended == 0
    assert path.read_text() == TWO_LISTS.replace("[ ] T001", "[x] T001")


def test_the_graph_is_shown_and_its_cycles_are_named(feature: Place) -> None:
    rewrite(feature, "- [ ] T001 One (after T002)\n- [ ] T002 Two (depends on T001)\n- [ ] T003 Three\n")
    shown = feature.segue("task", "graph")
    assert "T002 Two (depends on T001) (pending)\n  waits for T001: it says so" in shown.stdout
    assert "T001 → T002 → T001 wait for each other." in shown.stderr
    assert feature.segue("task", "graph", "--mermaid").stdout.startswith("graph TD\n")
    data = feature.json("task", "graph")
    assert data["cycles"] == [["T001", "T002"]]
    assert data["tasks"][1]["waits_for"][0] == {"tasks": ["T001"], "kind": "stated", "why": "it says so"}


def test_the_graph_explains_what_would_collide(feature: Place) -> None:
    rewrite(
        feature, "- [ ] T001 [P] src/a.py per spec.md\n- [ ] T002 [P] src/b.py\n- [ ] T003 [P] src/a.py\n"
    )
    collision = "waits for T001: both name src/a.py, although both are marked [P]"
    assert (
        f"T003 src/a.py (pending)\n  names src/a.py\n  {collision}" in feature.segue("task", "graph").stdout
    )
    first, second, third = feature.json("task", "graph")["tasks"]
    assert first["footprint"] == {"names": ["src/a.py"], "refers_to": ["spec.md"], "touched": []}
    assert (second["waits_for"], third["waits_for"][0]["kind"]) == ([], "paths")
