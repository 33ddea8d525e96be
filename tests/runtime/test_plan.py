"""From settings to a plan, without a subprocess: which flow, which agents, and what is refused."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from segue.domain.errors import UsageError
from segue.domain.job import AgentChoice, Role
from segue.domain.run import RunKind
from segue.domain.task import Task, TaskList, TaskStatus
from segue.runtime.app import App
from segue.runtime.first_run import find_agent
from segue.runtime.plan import PlanChanged, RunPlan, plan_run
from segue.runtime.task_choice import TaskChoice, select_tasks
from tests.flow.loop import ListSource

PLAN = "## Task 1\n\nDo one thing.\n\n## Task 2\n\nDo another.\n\n## Task 3\n\nDo the last.\n"


@pytest.fixture(autouse=True)
def _nothing_is_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Planning is pure: no program is started and no connection opened."""

    def refuse(*words: object, **_: object) -> None:
        raise AssertionError(f"planning started something: {words}")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setenv("SEGUE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def plan(folder: Path, named: str | None = "plan.md", only: tuple[str, ...] = (), **settings: Any) -> RunPlan:
    """Plan a run in a folder, with settings as on the command line."""
    (folder / "plan.md").write_text(PLAN)
    app = App.load(folder, None, {"agent": "scripted", **settings})
    return plan_run(app, app.source(named, folder), TaskChoice(only))


def feature(folder: Path) -> Path:
    """A Spec Kit feature with one task."""
    place = folder / "specs" / "001-login"
    place.mkdir(parents=True)
    (place / "tasks.md").write_text("# Tasks\n\n- [ ] T001 Write the form in form.py\n")
    return place


def test_a_plan_file_runs_through_execute_and_check(tmp_path: Path) -> None:
    found = plan(tmp_path)
    assert found.flow.names == ("execute", "check")
    assert [task.key for task in found.pending] == ["1", "2", "3"]
    assert found.chains[Role.EXECUTE] == (AgentChoice("scripted"),)
    assert found.judge is None
    assert found.spec(tmp_path).kind is RunKind.PLAN


def test_a_feature_is_verified_and_a_sentence_is_built(tmp_path: Path) -> None:
    assert plan(tmp_path, str(feature(tmp_path))).flow.name == "spec"
    built = plan(tmp_path, "Build a todo app")
    assert (built.flow.name, built.judge, built.is_planned) == ("build", "agent", False)
    assert set(built.chains) == {Role.PLAN, Role.EXECUTE, Role.VERIFY, Role.RESEARCH}


def test_a_reviewer_and_checks_fit_every_flow(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"review": {"reviewer": "ruff"}, "checks": ["true"]}
    assert plan(tmp_path, flow="execute", **asked).flow.names == ("execute", "check", "review")
    wanted = ("execute", "check", "review", "verify")
    assert plan(tmp_path, str(feature(tmp_path)), **asked).flow.names == wanted
    assert plan(tmp_path, "Build a todo app", **asked).flow.names == (*wanted, "replan")


def test_a_judge_adds_verification_where_no_flow_is_chosen(tmp_path: Path) -> None:
    found = plan(tmp_path, judged_by="checks", checks=["true"])
    assert found.flow.names == ("execute", "check", "verify")
    with pytest.raises(
        UsageError, match=r"judged_by .* has no effect: the flow execute has no phase `verify`"
    ):
        plan(tmp_path, flow="execute", judged_by="checks", checks=["true"])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"roles": {"plan": "scripted"}}, "roles.plan .* has no effect"),
        ({"review": {"reviewer": "none"}}, "review.reviewer .* has no effect"),
        ({"gates": ["plan"]}, "gates .* has no effect: the tasks are written down already"),
        (
            {"flow": "bare", "flows": {"bare": {"phases": ["execute"]}}, "limits": {"resolutions": 2}},
            "limits.resolutions .* no phase `check`",
        ),
        ({"flow": "build"}, "does not fit"),
        ({"agent": "claud"}, "There is no agent 'claud'. Did you mean 'claude'"),
        ({"agent": None}, "No agent was chosen"),
        ({"judged_by": "checks"}, "there are no checks"),
        ({"judged_by": "agent", "commit": "never"}, 'commit = "never"'),
        ({"flows": {"mine": {"phases": ["execute", "verfy"]}}}, "unknown phase 'verfy'"),
        ({"flows": {"spec": {"phases": ["execute"]}}}, "cannot be redefined"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(
    tmp_path: Path, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        plan(tmp_path, **settings)
    assert caught.value.exit_code == 2


def test_no_cloud_agent_is_chosen_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CURSOR_API_KEY", "key-of-nobody")
    found, reports = find_agent(App.load(tmp_path, None, {"agents": {"cursor-cloud": {}}}))
    assert found is None
    assert "claude" in [report.name for report in reports]
    assert "cursor-cloud" not in [report.name for report in reports]


def test_roles_and_fallbacks(tmp_path: Path) -> None:
    found = plan(tmp_path, agent="scripted:big,command", model="small", roles={"execute": None})
    assert found.chains[Role.EXECUTE] == (AgentChoice("scripted", "big"), AgentChoice("command", "small"))


def test_rewritten_tasks_are_asked_about(tmp_path: Path) -> None:
    from segue.domain.task import Completion, TaskStatus

    found = plan(tmp_path)
    found.source.mark(found.pending[0], Completion(TaskStatus.DONE, "run", 1))
    (tmp_path / "plan.md").write_text(PLAN.replace("one thing", "something else"))
    app = App.load(tmp_path, None, {"agent": "scripted"})
    with pytest.raises(PlanChanged, match="completed tasks 1 say something else"):
        plan_run(app, app.source("plan.md", tmp_path))
    keeping = App.load(tmp_path, None, {"agent": "scripted", "plan_changed": "keep"})
    assert len(plan_run(keeping, keeping.source("plan.md", tmp_path)).pending) == 2


def test_a_source_without_tasks_is_refused(tmp_path: Path) -> None:
    app = App.load(tmp_path, None, {"agent": "scripted"})
    with pytest.raises(UsageError, match="There are no tasks in list") as caught:
        plan_run(app, ListSource())
    assert caught.value.exit_code == 2


def test_tasks_are_selected_by_name_and_from_a_start(tmp_path: Path) -> None:
    listing = plan(tmp_path).listing
    assert select_tasks(listing, TaskChoice(("2",))) == ("2",)
    assert select_tasks(listing, TaskChoice(start="2")) == ("2", "3")
    with pytest.raises(UsageError, match="There is no task '9'"):
        select_tasks(listing, TaskChoice(("9",)))


def test_tasks_are_selected_by_story() -> None:
    listing = TaskList(
        (
            Task("T001", "One", "", TaskStatus.DONE, phase="Phase 1: Setup", checkpoint="It starts"),
            Task("T002", "Two", "", story="US1", phase="Phase 2: User Story 1"),
            Task("T003", "Three", "", story="US1+US2", phase="Phase 2: User Story 1", checkpoint="It sells"),
            Task("T004", "Four", "", story="US2", phase="Phase 3: User Story 2"),
        )
    )

    def chosen(choice: TaskChoice) -> tuple[str, ...]:
        return select_tasks(listing, choice)

    assert chosen(TaskChoice()) == ()
    assert chosen(TaskChoice(stories=("US1",))) == ("T002", "T003")
    assert chosen(TaskChoice(stories=("us2",))) == chosen(TaskChoice(stories=("2",))) == ("T003", "T004")
    assert chosen(TaskChoice(("T003",), stories=("US1",))) == ("T003",)
    with pytest.raises(UsageError, match="There is no story 'US9'") as caught:
        chosen(TaskChoice(stories=("US9",)))
    assert caught.value.hint == "There are: US1, US2"
    with pytest.raises(UsageError, match="No task is in all of these"):
        chosen(TaskChoice(("T004",), stories=("US1",)))


def test_a_flow_of_the_users_own(tmp_path: Path) -> None:
    own = {"careful": {"phases": ["plan", "execute", "check", "verify"]}}
    found = plan(tmp_path, flows=own, flow="careful", judged_by="agent")
    assert found.flow.names == ("plan", "execute", "check", "verify")
    assert set(found.chains) == {Role.PLAN, Role.EXECUTE, Role.VERIFY}
    assert found.spec(tmp_path).phases == found.flow.names
