"""A Spec Kit feature as a source: ticks, the state beside them, criteria, context."""

from __future__ import annotations

import json
import multiprocessing
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from segue import check_source
from segue.domain.errors import SourceError, TwoLists
from segue.domain.source import SourceHistory
from segue.domain.task import Completion, Task, TaskStatus
from segue.ports import Source, SourceRequest
from segue.sources.speckit import state as speckit_state
from segue.sources.speckit.context import MOST_BYTES
from segue.sources.speckit.source import SpecKit
from segue.sources.state_file import CorruptState
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
        "\ufeff- [ ] T001/T002 One\r\n- [X] T003 Two\r\n- [ ] T004 Three",
    ],
)
@pytest.mark.parametrize("spec", [SPEC, None])
def test_it_is_a_source(tmp_path: Path, text: str, spec: str | None) -> None:
    feature(tmp_path, text, spec)

    def make() -> Source:
        return speckit(tmp_path)

    request = SourceRequest("specs/001-lending", tmp_path, tmp_path, tmp_path)
    check_source(make, request, lose=speckit(tmp_path).state_path.unlink)


def test_the_strict_one_is_a_source(tmp_path: Path) -> None:
    folder = feature(tmp_path)

    def make() -> Source:
        return SpecKit(folder, tmp_path, verify="strict")

    check_source(make)


def test_the_key_names_folder_and_repository(tmp_path: Path) -> None:
    folder = feature(tmp_path)
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert SpecKit(link, tmp_path).key == speckit(tmp_path).key
    assert SpecKit(folder, tmp_path / "specs").key != speckit(tmp_path).key


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


def test_a_box_that_the_agent_ticked_and_reworded_is_recorded(tmp_path: Path) -> None:
    feature(tmp_path, "- [ ] T001 One\n")
    source = speckit(tmp_path)
    given = task(source, "T001")
    source.path.write_text("- [X] T001 One ✅ (done)\n")
    source.mark(given, done(branch="b1"))
    assert source.path.read_text() == "- [X] T001 One ✅ (done)\n"
    assert source.head_branch() == "b1"


def test_cancelled_is_nothing_that_segue_marks(tmp_path: Path) -> None:
    feature(tmp_path)
    source = speckit(tmp_path)
    task = source.tasks().tasks[0]
    with pytest.raises(SourceError, match="skipped"):
        source.mark(task, Completion(TaskStatus.CANCELLED, "r", 1))


def test_a_skipped_task_keeps_its_box_open(tmp_path: Path) -> None:
    feature(tmp_path)
    source = speckit(tmp_path)
    before = source.path.read_bytes()
    task = next(task for task in source.tasks().tasks if task.status is TaskStatus.PENDING)
    source.mark(task, Completion(TaskStatus.SKIPPED, "r", 1))
    again = {other.key: other.status for other in speckit(tmp_path).tasks().tasks}
    assert again[task.key] is TaskStatus.SKIPPED
    assert source.path.read_bytes() == before


def test_a_task_that_was_left_out_can_be_taken_up_again(tmp_path: Path) -> None:
    feature(tmp_path)
    source = speckit(tmp_path)
    given = task(source, "T001")
    source.mark(given, Completion(TaskStatus.SKIPPED, "run-1", 1))
    source.mark(given, Completion(TaskStatus.PENDING, "run-1", 2))
    assert statuses(speckit(tmp_path))["T001"] == "pending"
    assert source.path.read_text() == TASKS


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


def test_a_failure_is_recorded_although_the_agent_removed_the_file(tmp_path: Path) -> None:
    feature(tmp_path)
    source = speckit(tmp_path)
    given = task(source, "T001")
    source.path.unlink()
    source.record(given, Completion(TaskStatus.PENDING, "run-1", 4, error="no luck"))
    state = source.state()
    assert state is not None
    assert state.tasks["T001"].error == "no luck"


def test_a_task_nobody_knows_is_not_recorded(tmp_path: Path) -> None:
    feature(tmp_path)
    with pytest.raises(SourceError, match="no task T999"):
        speckit(tmp_path).record(
            Task("T999", "x", "T999 x"), Completion(TaskStatus.PENDING, "r", 1, error="e")
        )


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


def test_a_mark_that_a_crash_cut_off_can_be_made_again(tmp_path: Path) -> None:
    folder = feature(tmp_path)
    before = (folder / "tasks.md").read_bytes()
    source = speckit(tmp_path)
    given = task(source, "T001")
    source.mark(given, done())
    after, state = source.path.read_bytes(), source.state_path.read_bytes()
    source.path.write_bytes(before)
    speckit(tmp_path).mark(given, done())
    assert (source.path.read_bytes(), source.state_path.read_bytes()) == (after, state)


def test_another_task_with_the_id_of_a_done_one_is_pending(tmp_path: Path) -> None:
    feature(tmp_path, "- [ ] T001 One\n- [ ] T002 Two\n")
    source = speckit(tmp_path)
    source.mark(task(source, "T001"), done(1))
    source.mark(task(source, "T002"), done(2))
    source.path.write_text("- [ ] T001 New work\n")
    assert statuses(source) == {"T001": "pending"}
    assert "T001 was done once but says something else now" in notices(source)
    assert "not in tasks.md: T002." in notices(source)


@pytest.mark.thorough
def test_two_processes_lose_nothing(tmp_path: Path) -> None:
    feature(tmp_path, "".join(f"- [ ] T{n:03} Task {n}\n" for n in range(40)))
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    workers = [context.Process(target=mark_some, args=(tmp_path, start, barrier)) for start in (0, 1)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    source = speckit(tmp_path)
    assert set(statuses(source).values()) == {"done"}
    state = source.state()
    assert state is not None
    assert len(state.completed) == 40
    assert source.path.read_text().count("[x]") == 40


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


def test_the_lock_stays_out_of_the_work_tree(tmp_path: Path) -> None:
    folder = feature(tmp_path)
    (tmp_path / "main" / ".git" / "worktrees" / "w").mkdir(parents=True)
    (tmp_path / ".git").write_text(f"gitdir: {tmp_path}/main/.git/worktrees/w\n")
    source = speckit(tmp_path)
    source.mark(task(source, "T001"), done())
    assert {path.name for path in folder.iterdir()} == {"tasks.md", "spec.md", "plan.md", "state.json"}
    assert list((tmp_path / "main" / ".git" / "worktrees" / "w").glob("segue-*.lock"))


# Criteria


def test_criteria_of_a_task(tmp_path: Path) -> None:
    feature(tmp_path)
    source = speckit(tmp_path)
    assert criteria(source, "T001") == ["task"]
    assert criteria(source, "T003") == ["task"]
    assert criteria(source, "T004") == ["task", "FR-002", "SC-001"]
    assert criteria(source, "T005") == ["task", "US2/AC1"]
    (own, *_) = task(source, "T001").criteria
    assert own.text == task(source, "T001").text


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


def test_skipped_tasks_do_not_keep_a_story_open(tmp_path: Path) -> None:
    feature(
        tmp_path,
        "- [-] T001 [US1] One\n- [~] T002 [US1] Two\n- [ ] T003 [US1+US2] Three\n- [ ] T004 [US2b] Four\n",
    )
    assert criteria(speckit(tmp_path), "T003") == ["task", "US1/AC1", "US1/AC2"]
    assert criteria(speckit(tmp_path), "T004") == ["task"]


def test_tasks_left_out_by_people_do_not_keep_a_story_open(tmp_path: Path) -> None:
    feature(tmp_path, "- [ ] T001 [US1] One\n- [ ] T002 [US1] Two\n- [ ] T003 [US1] Three\n")
    source = speckit(tmp_path)
    speckit(tmp_path).mark(task(source, "T001"), Completion(TaskStatus.SKIPPED, "run-1", 1))
    before = source.stamp()
    source.mark(task(source, "T002"), done(2))
    assert source.stamp() != before
    assert criteria(source, "T003") == ["task", "US1/AC1", "US1/AC2"]


def test_strict_judges_every_task_by_its_story(tmp_path: Path) -> None:
    source = SpecKit(feature(tmp_path), tmp_path, verify="strict")
    assert criteria(source, "T003") == ["task", "US1/AC1", "US1/AC2"]
    assert criteria(source, "T001") == ["task"]


def test_the_old_template_is_judged_at_the_last_task(tmp_path: Path) -> None:
    spec = "# Spec\n### Primary User Story\nBorrow.\n### Acceptance Scenarios\n1. **Given** a, **Then** b\n"
    feature(tmp_path, "- [ ] T001 One\n- [ ] T002 Two\n", spec)
    source = speckit(tmp_path)
    assert criteria(source, "T002") == ["task"]
    source.mark(task(source, "T001"), done())
    assert criteria(source, "T002") == ["task", "US1/AC1"]
    assert task(source, "T002").story == "US1"


def test_labels_that_lead_nowhere_are_told(tmp_path: Path) -> None:
    feature(tmp_path, "- [ ] T001 [US7] One\n- [ ] T002 [US7] Two\n- [ ] T003 [US1] Three\n")
    source = speckit(tmp_path)
    assert criteria(source, "T001") == ["task"]
    assert "T001 belongs to US7, which spec.md does not have: its own text is judged." in notices(source)
    assert notices(source).count("US7") == 1
    assert "No task belongs to these user stories of spec.md: US2." in notices(source)


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


def test_the_stamp_does_not_tell_own_marks(tmp_path: Path) -> None:
    feature(tmp_path)
    source = speckit(tmp_path)
    stamp = source.stamp()
    source.mark(task(source, "T001"), done())
    assert source.stamp() == stamp
    source.record(task(source, "T003"), Completion(TaskStatus.PENDING, "r", 2, error="e"))
    assert source.stamp() == stamp


# What is refused, what is shown


def test_files_without_tasks_are_refused_but_shown(tmp_path: Path) -> None:
    feature(tmp_path, "## Checklist\n- [ ] holds\n")
    source = speckit(tmp_path)
    with pytest.raises(SourceError, match="it has 1 boxes, but they are no tasks"):
        source.tasks()
    assert source.look().tasks == ()
    assert source.look().refusal


SHAPES = {
    "headings": "### T001 One\n- [ ] holds\n### T002 Two\n",
    "boxes in headings": "### - [ ] T001 One\n### - [x] T002 Two\n### - [ ] T003 Three\n",
    "numbers": "### Task 1: One\n### Task 2: Two\n",
    "status": "### T001 One\n**Status**: Todo\n### T002 Two\n**Status**: Done\n### T003 x\nStatus: open\n",
    "table": "| ID | Task | Status |\n|--|--|--|\n| T001 | One | ⬜ |\n| T002 | Two | ⬜ |\n",
    "table without status": "| ID | Task |\n|--|--|\n| T001 | One |\n| T002 | Two |\n",
    "list": "- T001 One\n- **T002** Two\n",
    "lines": "T001: One\n\n**T002** Two\n",
    "carriage returns": "- [ ] T001 One\r- [ ] T002 Two\r",
    "mistyped": "- [] T001 One\n-[ ] T002 Two\n- [ ]T003 Three\n- [\u00a0] T004 Four\n",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_a_source(tmp_path: Path, shape: str) -> None:
    feature(tmp_path, SHAPES[shape])
    check_source(lambda: speckit(tmp_path))


def test_two_lists_of_the_same_tasks_are_shown_and_one_is_chosen(tmp_path: Path) -> None:
    text = (
        "### T001 One\nx\n### T002 Two\ny\n### T003 Three\n\n## Appendix\n- [ ] T001 One\n- [x] T003 Three\n"
    )
    folder = feature(tmp_path, text)
    with pytest.raises(TwoLists) as caught:
        speckit(tmp_path).tasks()
    assert "list 1: 3 headings, lines 1 to 5, 0 done" in caught.value.message
    assert "list 2: 2 boxes, lines 8 to 9, 1 done" in caught.value.message
    assert "T002 (not here)" in caught.value.message
    assert "--task-list" in caught.value.hint
    first, second = (SpecKit(folder, tmp_path, task_list=which) for which in (1, 2))
    assert statuses(first) == {"T001": "pending", "T002": "pending", "T003": "pending"}
    assert statuses(second) == {"T001": "pending", "T003": "done"}


def test_a_bad_byte_in_the_spec_is_a_notice(tmp_path: Path) -> None:
    folder = feature(tmp_path)
    (folder / "spec.md").write_bytes(SPEC.encode() + b"\ncaf\xe9\n")
    source = speckit(tmp_path)
    assert any(
        "of spec.md" in notice.text and "not UTF-8" in notice.text for notice in source.tasks().notices
    )
    assert source.tasks().tasks[-1].criteria


def test_all_done_is_no_error(tmp_path: Path) -> None:
    feature(tmp_path, "- [x] T001 One\n\n## Checklist\n- [ ] open for ever\n")
    assert statuses(speckit(tmp_path)) == {"T001": "done"}


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    feature(tmp_path).joinpath("tasks.md").unlink()
    with pytest.raises(SourceError, match=r"There is no tasks\.md in"):
        speckit(tmp_path).tasks()


# Context


def test_a_template_nobody_filled_in_is_no_constitution(tmp_path: Path) -> None:
    feature(tmp_path)
    memory = tmp_path / ".specify" / "memory"
    memory.mkdir(parents=True)
    (memory / "constitution.md").write_text("# [PROJECT_NAME] Constitution\n")
    source = speckit(tmp_path)
    assert "# Constitution" not in source.context(task(source, "T004"))


def test_a_task_without_story_gets_all_requirements(tmp_path: Path) -> None:
    feature(tmp_path)
    source = speckit(tmp_path)
    text = source.context(task(source, "T001"))
    assert "# Requirements of the feature\n\nFR-001" in text
    assert "FR-003" in text


def test_the_context_leaves_out_whole_sections(tmp_path: Path) -> None:
    long = "é" * (MOST_BYTES // 2)
    plan = f"## Summary\nShort.\n## Technical Context\n{long}\n"
    feature(tmp_path, plan=plan)
    source = speckit(tmp_path)
    text = source.context(task(source, "T004"))
    assert len(text.encode()) <= MOST_BYTES
    assert "éé" not in text
    assert "# Plan: summary\n\nShort." in text
    assert "\n- Plan: technical context: see specs/001-lending/plan.md\n" in text
