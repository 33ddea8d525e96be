"""What is done of a source: the journal says it; a progress file where the journal knows nothing."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from segue.domain.errors import SourceError
from segue.domain.source import SourceHistory
from segue.domain.task import Completion, Task, TaskStatus, text_digest
from segue.ports import Source
from segue.sources.plan import PlanFile
from segue.sources.progress import ProgressDocument
from segue.sources.prompt import PromptSource
from segue.sources.recorded import CANNOT_PROCEED, RecordedSource
from segue.sources.speckit.source import SpecKit
from tests.sources.speckit_files import feature

PLAN = "## Task 1\none\n\n## Task 2\ntwo\n\n## Task 3\nthree\n"
DONE = TaskStatus.DONE
NOTHING = SourceHistory()


def plan_in(root: Path, text: str = PLAN) -> PlanFile:
    (root / "plan.md").write_text(text)
    return PlanFile(root / "plan.md", root)


def record(source: Source, root: Path, history: SourceHistory = NOTHING) -> RecordedSource:
    return RecordedSource(source, root, root / "state", lambda: history)


def done(*keys: str, status: TaskStatus = DONE) -> SourceHistory:
    return SourceHistory(("run",), {key: Completion(status, "run", n) for n, key in enumerate(keys, 1)})


def mark(source: RecordedSource, key: str, **facts: Any) -> None:
    task = next(task for task in source.tasks().tasks if task.key == key)
    source.mark(task, replace(Completion(DONE, "run", 1), **facts))


def pending(source: RecordedSource) -> list[str]:
    return [task.key for task in source.look().tasks if task.status is TaskStatus.PENDING]


def test_the_journal_says_what_is_done(tmp_path: Path) -> None:
    source = record(plan_in(tmp_path), tmp_path, done("1"))
    source.progress.write(ProgressDocument(completed_task_indices=(2, 3)))
    assert pending(source) == ["2", "3"]
    mark(source, "3")
    assert pending(source) == ["2"]


def test_the_file_has_the_fields_of_both_documents(tmp_path: Path) -> None:
    source = record(plan_in(tmp_path), tmp_path)
    mark(source, "2", commit="c2", plan="first look", agent_id="bc-1", branch="b", attempts=2)
    task = source.tasks().tasks[2]
    source.mark(task, Completion(TaskStatus.PENDING, "run", 2, error="it broke"))
    found = json.loads(source.progress.path.read_text())
    assert (found["plan_path"], found["repo_path"]) == (str(tmp_path / "plan.md"), str(tmp_path))
    assert (found["completed_task_indices"], found["last_completed_ref"]) == ([2], "c2")
    assert found["last_plan_by_task"] == {"2": "first look"}
    entry = found["tasks"]["2"]
    assert [entry[name] for name in ("status", "agent_id", "branch", "commit")] == ["done", "bc-1", "b", "c2"]
    assert (found["tasks"]["3"]["status"], found["tasks"]["3"]["error"]) == ("failed", "it broke")
    assert pending(source) == ["1", "3"]


def test_without_a_journal_the_file_counts(tmp_path: Path) -> None:
    mark(record(plan_in(tmp_path), tmp_path), "1")
    other = record(plan_in(tmp_path), tmp_path)
    assert pending(other) == ["2", "3"]
    assert "Tasks done according to its state file: 1." in other.take_message()
    other.progress.path.write_text(json.dumps({"completed_task_indices": [1, 3]}))
    assert pending(record(plan_in(tmp_path), tmp_path)) == ["2"], "as a person has edited it"


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"completed_task_indices": "1"}', '{"tasks": {}, "schema": 9}']
)
def test_a_file_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    path = record(plan_in(tmp_path), tmp_path).progress.path
    path.parent.mkdir(parents=True)
    path.write_text(text)
    unknown = record(plan_in(tmp_path), tmp_path)
    message = unknown.take_message()
    assert message.startswith("The run starts with the first task.")
    assert "is corrupted" in message
    known = record(plan_in(tmp_path), tmp_path, done("1"))
    assert pending(known) == ["2", "3"]
    assert "is corrupted" in known.look().notices[0].text
    mark(known, "2")
    assert path.with_name(f"{path.name}.corrupt").read_text() == text
    feature(tmp_path)
    folder = tmp_path / "specs" / "001-lending"
    (folder / "state.json").write_text(text)
    with pytest.raises(SourceError, match=CANNOT_PROCEED):
        record(SpecKit(folder, tmp_path), tmp_path).look()
    assert (folder / "state.json").read_text() == text
    record(SpecKit(folder, tmp_path), tmp_path, done("T001")).tasks()


def test_a_missing_file_is_named_where_the_journal_has_something(tmp_path: Path) -> None:
    assert "is missing" in record(plan_in(tmp_path), tmp_path, done("1")).look().notices[0].text
    assert record(plan_in(tmp_path), tmp_path).look().notices == ()


def test_completed_tasks_of_a_plan_that_say_something_else(tmp_path: Path) -> None:
    marks = {
        key: Completion(DONE, "run", 1, digest=text_digest(text)) for key, text in (("1", "one"), ("2", "2"))
    }
    source = record(plan_in(tmp_path), tmp_path, SourceHistory(("run",), marks))
    assert source.changed() == ["2"]
    assert record(plan_in(tmp_path, "## Task 2\ntwo\n"), tmp_path, done("1")).changed() == ["1"]
    hidden = Completion(DONE, "run", 1, digest=text_digest("[removed]"))
    redacted = RecordedSource(
        plan_in(tmp_path),
        tmp_path,
        tmp_path,
        lambda: SourceHistory(("r",), {"1": hidden}),
        lambda _: "[removed]",
    )
    assert redacted.changed() == [], "the journal has no secrets"


def test_a_feature_is_ticked_and_another_task_with_the_same_id_is_not(tmp_path: Path) -> None:
    folder = feature(tmp_path, "- [ ] T001 One\n- [ ] T002 Two\n- [x] Three\n")
    marks = {
        "T001": Completion(DONE, "run", 1, branch="segue/a", commit="c1", digest=text_digest("T001 One")),
        "T002": Completion(DONE, "run", 2, digest=text_digest("T002 Another")),
    }
    source = record(SpecKit(folder, tmp_path), tmp_path, SourceHistory(("run",), marks))
    listing = source.tasks()
    assert (folder / "tasks.md").read_text() == "- [x] T001 One\n- [ ] T002 Two\n- [x] Three\n"
    said = "\n".join(notice.text for notice in listing.notices)
    assert "T001 was recorded as done but its box was open: it has been ticked." in said
    assert "T002 was done once but says something else now: it is pending again." in said
    assert [task.title for task in source.unrecorded()] == ["Three"]
    assert (source.head_branch(), source.head_commit()) == ("segue/a", "c1")


def test_a_restart_opens_boxes_and_forgets(tmp_path: Path) -> None:
    folder = feature(tmp_path, "- [ ] T001 One\n- [x] T002 By hand\n")
    source = record(SpecKit(folder, tmp_path), tmp_path)
    mark(source, "T001", branch="segue/a")
    source.restart()
    assert (folder / "tasks.md").read_text() == "- [ ] T001 One\n- [x] T002 By hand\n"
    assert json.loads((folder / "state.json").read_text())["tasks"] == {}
    assert (pending(source), source.head_branch()) == (["T001"], None)


def test_a_task_that_nobody_listed_cannot_be_marked(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="There is no task 9"):
        record(plan_in(tmp_path), tmp_path).mark(Task("9", "Nine", ""), Completion(DONE, "run", 1))


def test_the_version_tells_own_marks_from_changes_by_others(tmp_path: Path) -> None:
    source = record(plan_in(tmp_path), tmp_path)
    before = source.tasks().version
    mark(source, "1")
    assert source.tasks().version == before
    plan_in(tmp_path, f"{PLAN}\n## Task 4\nfour\n")
    assert source.tasks().version != before
    folder = feature(tmp_path)
    story = record(SpecKit(folder, tmp_path), tmp_path)
    before = story.tasks().version
    mark(story, "T003")
    assert story.tasks().version != before, "T004 is the last task of its story now"


def test_a_plan_that_an_agent_makes(tmp_path: Path) -> None:
    steps = (Task("1", "One", "a"), Task("2", "Two", "b"))
    source = record(PromptSource("Build a shop", tmp_path), tmp_path)
    assert source.outline is not None
    assert not source.is_planned()
    source.revise(steps, "run")
    mark(source, "1")
    source.revise((Task("3", "Three", "c"),), "run")
    assert [(task.key, task.status) for task in source.tasks().tasks] == [
        ("1", DONE),
        ("3", TaskStatus.PENDING),
    ]
    assert source.last_number() == 3
    assert "[this step] 3: Three" in source.context(source.tasks().tasks[1])
    copied = record(PromptSource("Build a shop", tmp_path), tmp_path)
    assert copied.tasks().tasks == source.tasks().tasks
    history = SourceHistory(("run",), done("1").marks, (steps, steps[:1], ()))
    again = record(PromptSource("Build a shop", tmp_path), tmp_path / "other", history)
    assert (again.is_planned(), again.last_number()) == (False, 2), "the last plan was given up"


_ACTS = st.lists(
    st.tuples(st.sampled_from(["1", "2", "3"]), st.sampled_from([DONE, TaskStatus.SKIPPED])), max_size=6
)


@given(_ACTS, st.booleans())
def test_file_and_journal_say_the_same(acts: list[tuple[str, TaskStatus]], lose_journal: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        source, marks = record(plan_in(root), root), dict[str, Completion]()
        for seq, (key, status) in enumerate(acts, 1):
            marks[key] = Completion(status, "run", seq)
            source.mark(next(task for task in source.look().tasks if task.key == key), marks[key])
        history = SourceHistory() if lose_journal or not marks else SourceHistory(("run",), marks)
        found = {task.key: task.status for task in record(plan_in(root), root, history).look().tasks}
        assert found == {key: marks[key].status if key in marks else TaskStatus.PENDING for key in "123"}
