"""A plan file as a source: what is refused, what is remembered, and two processes at once."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from segue.domain.errors import SourceError
from segue.domain.task import Completion, TaskStatus
from segue.ports import Source, SourceRequest
from segue.sources.plan.source import CONTEXT_BYTES, PlanFile
from segue.sources.plan.state import state_path
from segue.sources.state_file import CorruptState
from tests.conformance.source import check_source

PLAN = "# Plan\n\nUse tabs.\n\n## Task 1\n\nOne.\n\n## Task 3\n\nThree.\n\n## Task 2\n\nTwo.\n"
TITLED = "# Plan\n\n## Task 1: One\n\na\n\n### Task 1.1: Two\n\nb\n\n## Task 4b: Three\n\nc\n"
BOXES = "# Plan\n\n- [ ] One\n- [x] Two\n- [ ] Three\n"


def plan_file(folder: Path, text: str = PLAN) -> PlanFile:
    path = folder / "plan.md"
    if not path.exists():
        path.write_bytes(text.encode())
    return PlanFile(path, folder, state_path(folder / "state", path, folder))


def done(seq: int = 1, **facts: Any) -> Completion:
    return Completion(TaskStatus.DONE, "run-1", seq, **facts)


def statuses(source: PlanFile) -> dict[str, str]:
    return {task.key: task.status.value for task in source.tasks().tasks}


def refusal(source: PlanFile) -> SourceError:
    with pytest.raises(SourceError) as caught:
        source.tasks()
    assert caught.value.message.startswith("Invalid or missing plan file.")
    assert caught.value.exit_code == 2
    assert caught.value.kept
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("text", [PLAN, TITLED, BOXES])
def test_it_is_a_source(tmp_path: Path, text: str) -> None:
    def make() -> Source:
        return plan_file(tmp_path, text)

    request = SourceRequest("plan.md", tmp_path, tmp_path / "state", tmp_path)
    check_source(make, request, lose=plan_file(tmp_path, text).state_path.unlink)


def test_completion_is_recorded_and_read_back(tmp_path: Path) -> None:
    source = plan_file(tmp_path)
    source.mark(source.tasks().tasks[1], done(7, commit="abc", plan="steps"))
    assert statuses(plan_file(tmp_path)) == {"1": "pending", "2": "done", "3": "pending"}
    state = json.loads(source.state_path.read_bytes())
    assert state["plan_path"] == str(source.path)
    assert state["repo_path"] == str(source.repo)
    assert state["completed_task_indices"] == [2]
    assert state["last_plan_by_task"] == {"2": "steps"}
    assert (state["last_completed_ref"], state["run"], state["seq"]) == ("abc", "run-1", 7)
    assert state["plan_hash"] == source.text_hash


def test_the_plan_itself_is_never_written(tmp_path: Path) -> None:
    source = plan_file(tmp_path, "\ufeff## Task 1\r\n\r\n- [ ] One\r\n")
    before = source.path.read_bytes()
    source.mark(source.tasks().tasks[0], done())
    assert source.path.read_bytes() == before


def test_the_plan_is_read_anew_each_time(tmp_path: Path) -> None:
    source = plan_file(tmp_path)
    source.mark(source.tasks().tasks[0], done())
    source.path.write_text(PLAN + "\n## Task 4\n\nFour.\n")
    assert statuses(source) == {"1": "done", "2": "pending", "3": "pending", "4": "pending"}
    assert "changed" in source.tasks().notices[0].text


def test_work_is_recorded_although_its_agent_renumbered_the_plan(tmp_path: Path) -> None:
    source = plan_file(tmp_path)
    task = source.tasks().tasks[0]
    source.path.write_text("## Task 7\n\nSeven.\n")
    assert [other.key for other in source.tasks().tasks] == ["7"]
    source.mark(task, done())
    state = source.state()
    assert state is not None
    assert state.completed == {"1"}


def test_a_completion_can_be_taken_back(tmp_path: Path) -> None:
    source = plan_file(tmp_path)
    task = source.tasks().tasks[0]
    source.mark(task, done())
    source.mark(task, Completion(TaskStatus.PENDING, "run-1", 2))
    assert statuses(source)["1"] == "pending"


def test_a_section_no_task_would_carry_stops_the_run_but_not_the_look(tmp_path: Path) -> None:
    source = plan_file(tmp_path, "## Task 1\na\n## Task 2-3\nb\n## Task 4bis\nc\n")
    error = refusal(source)
    assert "line 3: `## Task 2-3`" in error.message
    assert "line 5: `## Task 4bis`" in error.message
    found = source.look()
    assert found.refusal
    assert found.refusal.message == error.message
    assert [task.key for task in found.tasks] == ["1"]
    assert [notice.line for notice in found.notices] == [3, 5]


def test_a_corrupt_state_is_told_and_not_overwritten(tmp_path: Path) -> None:
    source = plan_file(tmp_path)
    task = source.tasks().tasks[0]
    source.state_path.parent.mkdir(parents=True)
    source.state_path.write_bytes(b"{")
    with pytest.raises(CorruptState):
        source.tasks()
    with pytest.raises(CorruptState):
        source.mark(task, done())
    assert source.state_path.read_bytes() == b"{"


def test_a_state_from_elsewhere_is_adopted_and_recognised(tmp_path: Path) -> None:
    source = plan_file(tmp_path)
    assert source.state() is None
    source.state_path.parent.mkdir(parents=True)
    foreign = {"plan_path": "/other/plan.md", "repo_path": "/other", "completed_task_indices": [1]}
    source.state_path.write_text(json.dumps(foreign))
    state = source.state()
    assert state is not None
    assert state.edited
    assert statuses(source)["1"] == "done"
    source.mark(source.tasks().tasks[1], done())
    state = source.state()
    assert state is not None
    assert not state.edited
    assert (state.plan_path, state.indices) == (str(source.path), (1, 2))


def test_context_is_cut_between_paragraphs(tmp_path: Path) -> None:
    paragraphs = [f"{number} " + "é" * 1000 for number in range(10)]
    source = plan_file(tmp_path, "\n\n".join([*paragraphs, "## Task 1", "x"]))
    context = source.context(source.tasks().tasks[0])
    assert context.split("\n\n") == paragraphs[:4]
    assert len(context.encode()) <= CONTEXT_BYTES


def test_the_key_names_the_pair_however_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = plan_file(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert PlanFile(Path("plan.md"), Path(), source.state_path).key == source.key
    assert PlanFile(Path("plan.md"), tmp_path.parent, source.state_path).key != source.key


def test_the_stamp_tells_changes_of_others_from_our_own(tmp_path: Path) -> None:
    source, other = plan_file(tmp_path), plan_file(tmp_path)
    one, two, three = source.tasks().tasks
    first = source.stamp()
    source.mark(one, done(1))
    assert source.stamp() == first
    other.mark(two, done(2))
    second = source.stamp()
    assert second != first
    other.mark(three, done(3))
    source.mark(one, done(4))
    third = source.stamp()
    assert third not in (first, second), "a mark of our own must not hide the one before it"
    source.path.write_text(PLAN + "more\n")
    assert source.stamp() != third


def test_completed_tasks_that_were_rewritten_are_named(tmp_path: Path) -> None:
    path = tmp_path / "plan.md"
    path.write_text("## Task 1\none\n## Task 2\ntwo\n## Task 3\nthree\n")
    plan = PlanFile(path, tmp_path, tmp_path / "state.json")
    tasks = plan.tasks().tasks
    plan.mark(tasks[0], Completion(TaskStatus.DONE, "r", 1))
    path.write_text("## Task 1\none, ticked by an agent\n## Task 2\ntwo\n## Task 3\nthree\n")
    plan.mark(tasks[1], Completion(TaskStatus.DONE, "r", 2))
    assert PlanFile(path, tmp_path, tmp_path / "state.json").rewritten() is None
    path.write_text("## Task 1\nsomething new\n## Task 3\nthree, edited\n## Task 4\nfour\n")
    changed = PlanFile(path, tmp_path, tmp_path / "state.json").rewritten()
    assert changed is not None
    assert "completed tasks 1, 2 say something else or are gone" in changed.message
    assert str(tmp_path / "state.json") in changed.kept


def test_a_skipped_task_is_neither_pending_nor_done(tmp_path: Path) -> None:
    path = tmp_path / "plan.md"
    path.write_text("## Task 1\none\n## Task 2\ntwo\n")
    plan = PlanFile(path, tmp_path, tmp_path / "state.json")
    first = plan.tasks().tasks[0]
    plan.mark(first, Completion(TaskStatus.SKIPPED, "r", 1))
    again = PlanFile(path, tmp_path, tmp_path / "state.json")
    assert [task.status for task in again.tasks().tasks] == [TaskStatus.SKIPPED, TaskStatus.PENDING]
    again.mark(first, Completion(TaskStatus.PENDING, "r", 2))
    assert again.tasks().tasks[0].status is TaskStatus.PENDING


def test_marks_of_a_batch_are_all_written(tmp_path: Path) -> None:
    text = "".join(f"## Task {number}\n\nDo it.\n\n" for number in range(1, 41))
    source = plan_file(tmp_path, text)

    async def mark_all() -> set[str]:
        tasks = source.tasks().tasks
        with source.batch():
            for number, task in enumerate(tasks[:-1], 1):
                source.mark(task, done(number, commit=f"commit-{number}"))
            async with asyncio.timeout(300):
                while len(completed(source)) < 39:  # nobody marks another task, and they are written
                    await asyncio.sleep(0.01)
            source.mark(tasks[-1], done(40))
            assert set(statuses(source).values()) == {"done"}
        return completed(source)

    assert len(asyncio.run(mark_all())) == 40
    assert plan_file(tmp_path).rewritten_tasks() == []


def completed(source: PlanFile) -> set[str]:
    return set(json.loads(source.state_path.read_text())["completed_task_keys"])
