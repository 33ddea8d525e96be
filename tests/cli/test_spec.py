"""Spec Kit features with a local agent: a branch per task, ticks, verification, decisions by people."""

from __future__ import annotations

import json
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
    branches = feature.git("branch", "--format=%(refname:short)").split()
    assert branches == ["main", *(f"segue/001-greeting/T00{n}" for n in (1, 2, 3))]
    for before, after in pairwise(branches):
        feature.git("merge-base", "--is-ancestor", before, after)


def test_dry_run_shows_the_context_of_the_task(feature: Place) -> None:
    done = feature.segue("run", "--dry-run", "--task", "T003")
    assert "it prints a greeting with that name" in done.stdout
    assert "Plain Python." in done.stdout
    assert not (folder(feature) / "state.json").exists()


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


def rewrite(feature: Place, text: str) -> Path:
    path = folder(feature) / "tasks.md"
    path.write_text(text)
    feature.git("commit", "--quiet", "--all", "-m", "other tasks")
    return path


def test_the_graph_explains_what_would_collide(feature: Place) -> None:
    rewrite(
        feature, "- [ ] T001 [P] src/a.py per spec.md\n- [ ] T002 [P] src/b.py\n- [ ] T003 [P] src/a.py\n"
    )
    shown = feature.segue("task", "graph").stdout
    assert "waits for T001: both name src/a.py, although both are marked [P]" in shown
