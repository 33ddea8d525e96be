"""A Spec Kit feature as a source: ticks, the state beside them, criteria, context."""

from __future__ import annotations

import json
import multiprocessing
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from segue.domain.errors import SourceError
from segue.domain.source import SourceHistory
from segue.domain.task import Completion, Task, TaskStatus
from segue.ports import Source, SourceRequest
from segue.sources.speckit import state as speckit_state
from segue.sources.speckit.source import SpecKit
from segue.sources.state_file import CorruptState
from tests.conformance.source import check_source
from tests.sources.speckit_files import SPEC, TASKS, feature, speckit


def done(seq: int = 1, **facts: Any) -> Completion:
    return Completion(TaskStatus.DONE, "run-1", seq, **facts)


def task(source: SpecKit, key: str) -> Task:
    return next(task for task in source.tasks().tasks if task.key == key)


def statuses(source: SpecKit) -> dict[str, str]:
    return {task.key: task.status.value for task in source.tasks().tasks}


def criteria(source: SpecKit, key: str) -> list[str]:
    return [criterion.key for criterion in task(source, key).criteria]


def notices(source: SpecKit) -> str:
    return "\n".join(notice.text for notice in source.tasks().notices)


@pytest.mark.parametrize(
    "text",
    [
        TASKS,
        "- [ ] One\n- [ ] Two\n",
        "- [ ] T056 [US1] One\n- [ ] T056 [US1] Two\n- [ ] T057 Three\n- [~] T058 Four",
        "\ufeff- [ ] T001/T002 One\r\n- [X] T003 Two\r\n- [] T004 Three",
        "- [ ] T001 One\r- [ ] T002 Two\r",
    ],
)
@pytest.mark.parametrize("spec", [SPEC, None])
def test_it_is_a_source(tmp_path: Path, text: str, spec: str | None) -> None:
    feature(tmp_path, text, spec)

    def make() -> Source:
        return speckit(tmp_path)

    request = SourceRequest("specs/001-lending", tmp_path, tmp_path, tmp_path)
    check_source(make, request, lose=speckit(tmp_path).state_path.unlink)


# Ticks


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"- [ ] T001 One\n", b"- [x] T001 One\n"),
        (b"- [ ] T001 One", b"- [x] T001 One"),
        (b"\xef\xbb\xbf- [ ] T001 One\r\n\r\n", b"\xef\xbb\xbf- [x] T001 One\r\n\r\n"),
        (b"- [X] T000 Nil\n- [ ] T001 One\n", b"- [X] T000 Nil\n- [X] T001 One\n"),
        (b"- [x] T000 Nil\n- [ ] T001 One\n", b"- [x] T000 Nil\n- [x] T001 One\n"),
        ("- [ ] ü\n* [ ] **T001** é \x0c\n\n".encode(), "- [ ] ü\n* [x] **T001** é \x0c\n\n".encode()),
    ],
)
def test_a_tick_changes_one_byte(tmp_path: Path, before: bytes, after: bytes) -> None:
    feature(tmp_path, before)
    source = speckit(tmp_path)
    source.path.chmod(0o640)
    for _ in range(2):
        source.mark(task(source, "T001"), done())
        assert source.path.read_bytes() == after
    assert source.path.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in source.folder.iterdir() if not path.name.startswith(".")) == [
        "plan.md",
        "spec.md",
        "state.json",
        "tasks.md",
    ]


def test_the_line_is_found_again_wherever_it_went(tmp_path: Path) -> None:
    feature(tmp_path, "- [ ] T001 One\n- [ ] T001 Two\n")
    source = speckit(tmp_path)
    second = task(source, "T001#2")
    source.path.write_text("# New\n\n- [x] T007 Seven\n- [ ] T001   Two\n")
    source.mark(second, done())
    assert source.path.read_text() == "# New\n\n- [x] T007 Seven\n- [x] T001   Two\n"
    assert statuses(speckit(tmp_path)) == {"T007": "done", "T001": "done"}


@pytest.mark.parametrize(
    "now", ["- [ ] T001 Something else\n", "- [ ] T002 One\n", "- [-] T001 One\n", "", "- [ ] T001 \udce9\n"]
)
def test_a_line_that_has_changed_is_refused(tmp_path: Path, now: str) -> None:
    feature(tmp_path, "- [ ] T001 One\n")
    source = speckit(tmp_path)
    given = task(source, "T001")
    source.path.write_bytes(now.encode("utf-8", "surrogateescape"))
    for refusing in (source, speckit(tmp_path)):
        with pytest.raises(SourceError) as caught:
            refusing.mark(given, done())
        assert caught.value.kept
        assert caught.value.hint
        assert source.path.read_bytes() == now.encode("utf-8", "surrogateescape")
        assert not source.state_path.exists()


def test_a_task_whose_secrets_were_removed_is_still_found(tmp_path: Path) -> None:
    feature(tmp_path, "- [ ] T001 Use key sk-123\n")
    source = speckit(tmp_path)
    given = task(source, "T001")
    source.mark(Task(given.key, "Use key …", "T001 Use key …"), done())
    assert source.path.read_text() == "- [x] T001 Use key sk-123\n"


def test_a_skipped_task_keeps_its_box_open(tmp_path: Path) -> None:
    feature(tmp_path)
    source = speckit(tmp_path)
    before = source.path.read_bytes()
    task = next(task for task in source.tasks().tasks if task.status is TaskStatus.PENDING)
    source.mark(task, Completion(TaskStatus.SKIPPED, "r", 1))
    again = {other.key: other.status for other in speckit(tmp_path).tasks().tasks}
    assert again[task.key] is TaskStatus.SKIPPED
    assert source.path.read_bytes() == before


def test_a_tick_of_ours_can_be_taken_back(tmp_path: Path) -> None:
    folder = feature(tmp_path)
    before = (folder / "tasks.md").read_bytes()
    source = speckit(tmp_path)
    given = task(source, "T001")
    source.mark(given, done(branch="b1"))
    for _ in range(2):
        source.mark(given, Completion(TaskStatus.PENDING, "run-1", 2))
        assert source.path.read_bytes() == before
    assert statuses(speckit(tmp_path))["T001"] == "pending"
    assert source.head_branch() is None


def test_a_tick_of_others_is_not_taken_back(tmp_path: Path) -> None:
    feature(tmp_path)
    source = speckit(tmp_path)
    with pytest.raises(SourceError, match="not ticked by Segue"):
        source.mark(task(source, "T002"), Completion(TaskStatus.PENDING, "run-1", 2))
    assert source.path.read_text() == TASKS


# The state


def test_a_failure_is_recorded_and_the_box_left_open(tmp_path: Path) -> None:
    feature(tmp_path)
    source = speckit(tmp_path)
    failed = Completion(TaskStatus.PENDING, "run-1", 4, session="bc-9", error="no luck", attempts=3)
    source.record(task(source, "T001"), failed)
    assert source.path.read_text() == TASKS
    entry = json.loads(source.state_path.read_bytes())["tasks"]["T001"]
    assert (entry["status"], entry["error"], entry["agent_id"], entry["attempts"]) == (
        "failed",
        "no luck",
        "bc-9",
        3,
    )
    assert statuses(speckit(tmp_path))["T001"] == "pending"
    source.mark(task(source, "T001"), done(5, branch="b1"))
    assert json.loads(source.state_path.read_bytes())["tasks"]["T001"]["error"] is None


def test_a_corrupt_state_stops_a_run_only_where_the_journal_knows_none(tmp_path: Path) -> None:
    feature(tmp_path)
    source = speckit(tmp_path)
    assert source.restore(SourceHistory()) == ""
    source.mark(task(source, "T001"), done(branch="b1"))
    source.state_path.write_text("{")
    with pytest.raises(
        speckit_state.UnusableState, match=r"^Cannot proceed: state file is missing or corrupted\.$"
    ):
        source.restore(SourceHistory())
    with pytest.raises(CorruptState):
        source.tasks()
    assert source.state_path.read_text() == "{"
    history = SourceHistory(("run-1",), {"T001": done(branch="b1")})
    assert "from the journal (1 task done)" in source.restore(history)
    assert source.head_branch() == "b1"


def test_a_tick_that_a_crash_prevented_is_made_good(tmp_path: Path) -> None:
    folder = feature(tmp_path)
    before = (folder / "tasks.md").read_bytes()
    source = speckit(tmp_path)
    source.mark(task(source, "T001"), done())
    after = source.path.read_bytes()
    source.path.write_bytes(before)
    looked = speckit(tmp_path).look()
    assert looked.tasks[0].status is TaskStatus.DONE
    assert source.path.read_bytes() == before
    fresh = speckit(tmp_path)
    assert statuses(fresh)["T001"] == "done"
    assert source.path.read_bytes() == after
    assert "T001 was recorded as done but its box was open: it has been ticked." in notices(fresh)
    assert "T001" not in notices(speckit(tmp_path))
    assert fresh.look().notices[0].line == 12


def test_another_task_with_the_id_of_a_done_one_is_pending(tmp_path: Path) -> None:
    feature(tmp_path, "- [ ] T001 One\n- [ ] T002 Two\n")
    source = speckit(tmp_path)
    source.mark(task(source, "T001"), done(1))
    source.mark(task(source, "T002"), done(2))
    source.path.write_text("- [ ] T001 New work\n")
    assert statuses(source) == {"T001": "pending"}
    assert "T001 was done once but says something else now" in notices(source)
    assert "not in tasks.md: T002." in notices(source)


def mark_some(root: Path, start: int, barrier: Barrier) -> None:
    source = speckit(root)
    tasks = source.tasks().tasks[start::2]
    barrier.wait(300)
    for number, given in enumerate(tasks):
        source.mark(given, done(number))


def test_a_kill_at_any_moment_leaves_tick_and_state_in_agreement(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(1)
    for round_ in range(2):
        root = tmp_path / str(round_)
        path = feature(root, "".join(f"- [ ] T{n:03} Task {n}\n" for n in range(400))) / "tasks.md"
        before, enough = path.read_bytes(), 2 + 9 * round_
        worker = context.Process(target=mark_some, args=(root, 0, barrier))
        worker.start()
        deadline = time.monotonic() + 300
        while path.read_bytes().count(b"[x]") < enough and time.monotonic() < deadline:
            worker.join(0.001)
        worker.kill()
        worker.join(300)
        source = speckit(root)
        listed = {given.key for given in source.tasks().tasks if given.status is TaskStatus.DONE}
        assert len(listed) >= enough
        state = source.state()
        assert state is not None
        assert listed == state.completed
        assert path.read_bytes().count(b"[x]") == len(listed)
        assert path.read_bytes().replace(b"[x]", b"[ ]") == before


# Criteria


def test_the_last_open_task_of_a_story_is_judged_by_the_story(tmp_path: Path) -> None:
    feature(tmp_path)
    source = speckit(tmp_path)
    before = source.stamp()
    source.mark(task(source, "T004"), done())
    assert source.stamp() != before
    assert criteria(source, "T003") == ["task", "US1/AC1", "US1/AC2"]
    assert criteria(source, "T004") == ["task", "FR-002", "SC-001"]


def test_the_task_that_ends_a_story_knows_all_of_it(tmp_path: Path) -> None:
    """Its tasks in order, its scenarios, and how it is tried out on its own."""
    told = "**Independent Test**: Run `pytest tests/us1 -q`,\nthen look.\n\nMore."
    first = "- [x] T001 [US1] One\n- [-] T002 [US1] Two\n- [ ] T003 [US1] Three\n- [ ] T004 [US2] Four\n"
    rest = "- [ ] T005 [US1+US2] Five\n- [ ] T006 Six\n## Polish\n- [ ] T007 Seven\n"
    feature(
        tmp_path,
        f"# Tasks\n## Phase 3: User Story 1\n{told}\n### Implementation\n{first}{rest}",
        SPEC.replace("A member borrows a book.", "**Independent Test:** In spec.md.").replace(
            "### User Story 2 - Return a book (Priority: P2)\n",
            "### User Story 2 - Return a book (Priority: P2)\n\n**Independent Test**: Return one.\n",
        ),
    )
    source = speckit(tmp_path)
    assert [one.story_tasks for one in source.tasks().tasks] == [()] * 7
    source.mark(task(source, "T003"), done())
    source.mark(task(source, "T004"), done(2))
    source.mark(task(source, "T006"), done(3))
    last = task(source, "T005")
    assert last.story_tasks == ("T001", "T003", "T004", "T005", "T006")
    assert last.independent_test == "Run `pytest tests/us1 -q`,\nthen look.\n\nReturn one."
    of_story = {one.key for one in last.criteria if one.of_story}
    assert of_story == {"US1/AC1", "US1/AC2", "US2/AC1"}
    assert [one.key for one in last.criteria if not one.of_story] == ["task"]
    assert task(source, "T007").story_tasks == ()


def test_the_old_template_is_judged_at_the_last_task(tmp_path: Path) -> None:
    spec = "# Spec\n### Primary User Story\nBorrow.\n### Acceptance Scenarios\n1. **Given** a, **Then** b\n"
    feature(tmp_path, "- [ ] T001 One\n- [ ] T002 Two\n", spec)
    source = speckit(tmp_path)
    assert criteria(source, "T002") == ["task"]
    source.mark(task(source, "T001"), done())
    assert criteria(source, "T002") == ["task", "US1/AC1"]
    assert task(source, "T002").story == "US1"


def test_a_feature_without_spec_is_carried_by_its_tasks(tmp_path: Path) -> None:
    feature(tmp_path, spec=None, plan=None)
    source = speckit(tmp_path)
    assert criteria(source, "T004") == ["task"]
    assert "There is no spec.md" in notices(source)
    assert source.context(task(source, "T004")).startswith(
        "# Where the task belongs\n\nFeature folder: specs"
    )


def test_the_stamp_tells_changes_of_others(tmp_path: Path) -> None:
    feature(tmp_path)
    source = speckit(tmp_path)
    for name in ("tasks.md", "spec.md", "state.json"):
        stamp = source.stamp()
        path = source.folder / name
        path.write_bytes((path.read_bytes() if path.exists() else b"") + b"\n")
        assert source.stamp() != stamp
        assert source.stamp() == source.stamp()


# What is refused, what is shown


# Context
