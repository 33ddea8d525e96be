"""Spec Kit features: which boxes are tasks, their stories and criteria, what agents get, and the ticks."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.errors import SourceError
from segue.domain.graph import WaitKind
from segue.domain.task import Completion, TaskStatus
from segue.ports import SourceRequest
from segue.sources.speckit.source import SpecKit
from segue.sources.speckit.spec import parse_plan, parse_spec, stories_in
from segue.sources.speckit.tasks import parse_tasks, tick
from tests.conformance.source import check_source
from tests.sources.speckit_files import PLAN, SPEC, TASKS, feature, speckit

MARKS = {TaskStatus.PENDING: "", TaskStatus.DONE: "*", TaskStatus.SKIPPED: "-", TaskStatus.CANCELLED: "~"}
CORPUS = (Path(__file__).parent / "tasks.txt").read_text().split("%%% ")[1:]
DONE = TaskStatus.DONE


@pytest.mark.parametrize("part", CORPUS, ids=lambda part: part.split(" | ")[0])
def test_files_as_people_write_them(part: str) -> None:
    head, _, text = part.partition("\n")
    found = parse_tasks(text)
    keys = " ".join(task.key + MARKS[task.status] for task in found.tasks) or "none"
    lines = ",".join(str(notice.line) for notice in found.notices)
    assert head.split(" | ")[1] == f"{keys}{' !' + lines if lines else ''}"


def test_the_template() -> None:
    tasks = parse_tasks(TASKS).tasks
    assert [(t.key, t.status.value, t.line) for t in tasks] == [
        ("T001", "pending", 12),
        ("T002", "done", 16),
        ("T003", "pending", 24),
        ("T004", "pending", 28),
        ("T005", "pending", 34),
    ]
    assert tasks[0].text == "T001 Create the project in src/library/\n  Use a src layout.\n\n  - [ ] package"
    assert [t.stories for t in tasks] == [(), (), ("US1",), ("US1",), ("US2",)]
    assert (tasks[2].labels, tasks[3].checkpoint) == (("P", "US1"), "Books can be borrowed")
    assert tasks[2].section.endswith("/ Tests for User Story 1")
    assert tasks[3].title == "Lend a book in src/library/lend.py per FR-002 and SC-001"


def test_a_box_without_an_id_is_known_by_its_words() -> None:
    words = "A thing without id"
    key = f"box-{hashlib.sha256(words.encode()).hexdigest()[:8]}"
    assert [task.key for task in parse_tasks(f"- [x] {words}\n- [ ] {words}\n").tasks] == [key, f"{key}#2"]


def test_phases_labels_and_words_say_what_waits() -> None:
    text = """\
## Phase 1: Setup
- [ ] T001 Create
- [ ] T002 [P] Lint
- [ ] T003 [P] Format
## Phase 2: Foundational
- [ ] T004 Database
- [ ] T005 Sign in (depends on T004)
## Phase 3: User Story 1 - Buy (Priority: P1)
- [ ] T006 [P] [US1] Model
## Phase 4: User Story 2 - Return
- [ ] T008 [US2] Model
## Phase 5: Polish
- [ ] T009 Docs
## Dependencies & Execution Order
- T008 depends on T006 and T001
"""
    waits = {t.key: [(w.kind, ",".join(w.keys)) for w in t.waits] for t in parse_tasks(text).tasks}
    assert waits == {
        "T001": [],
        "T002": [(WaitKind.ORDER, "T001")],
        "T003": [(WaitKind.ORDER, "T001")],
        "T004": [(WaitKind.PHASE, "T001,T002,T003")],
        "T005": [(WaitKind.STATED, "T004"), (WaitKind.PHASE, "T001,T002,T003")],
        "T006": [(WaitKind.PHASE, "T004,T005")],
        "T008": [(WaitKind.STATED, "T006,T001"), (WaitKind.PHASE, "T004,T005")],
        "T009": [(WaitKind.PHASE, "T006"), (WaitKind.PHASE, "T008")],
    }


@given(
    st.lists(
        st.tuples(st.sampled_from(["- [ ] ", "* [x] ", "text ", "  - [ ] ", "```"]), st.text(max_size=20))
    ),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
)
def test_a_tick_changes_one_character(rows: list[tuple[str, str]], end: str, bom: bool) -> None:
    text = "\ufeff" * bom + end.join(start + words for start, words in rows)
    for task in parse_tasks(text).tasks:
        is_done = task.status is DONE
        new = tick(text, task, done=not is_done)
        assert [a for a, b in zip(text, new, strict=True) if a != b] == (["x"] if is_done else [" "])
        assert next(one for one in parse_tasks(new).tasks if one.line == task.line).status is not task.status


def test_stories_scenarios_and_requirements() -> None:
    spec = parse_spec(SPEC)
    story = spec.stories["US1"]
    assert [(one.key, one.text) for one in story.scenarios] == [
        ("US1/AC1", "Given a book on the shelf, When a member borrows it, Then it is lent."),
        ("US1/AC2", "Given a lent book, When another member asks for it, Then the request is refused."),
    ]
    assert list(spec.requirements) == ["FR-001", "FR-002", "FR-003", "SC-001"]
    assert spec.quoted("per FR-002") == {
        "FR-002": "FR-002: System MUST lend a book to one member at a time.\n  - Not to two."
    }


def test_what_is_not_written_as_in_the_template_gives_its_whole_text() -> None:
    spec = parse_spec(
        "### US2: Geben\n\nJemand gibt etwas zurück.\n\n**Akzeptanz**:\n\n1. Es liegt im Regal.\n"
    )
    (criterion,) = spec.stories["US2"].scenarios
    assert "Es liegt im Regal." in criterion.text
    assert parse_plan("# Plan\n\nNur Python.\n") == "# Plan\n\nNur Python."
    assert "A small command line program." in parse_plan(PLAN)
    assert "src/library/" not in parse_plan(PLAN)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("User Story 1 - A", ("US1",)),
        ("Phase 3: User Story 2 & 3", ("US2", "US3")),
        ("US04: x", ("US4",)),
        ("Setup", ()),
    ],
)
def test_stories_in_headings(text: str, keys: tuple[str, ...]) -> None:
    assert stories_in(text) == keys


def test_the_scenarios_of_a_story_are_judged_with_its_last_task(tmp_path: Path) -> None:
    feature(tmp_path)
    source = speckit(tmp_path)
    tasks = {task.key: task for task in source.tasks().tasks}
    assert [one.key for one in tasks["T004"].criteria] == ["task", "FR-002", "SC-001"]
    assert tasks["T005"].story_tasks == ("T005",)
    assert [one.key for one in tasks["T005"].criteria] == ["task", "US2/AC1"]
    assert ("T003",) in [wait.keys for wait in tasks["T004"].depends_on], "also with several tasks at once"
    source.mark(tasks["T003"], Completion(DONE, "run", 1))
    last = next(task for task in source.tasks().tasks if task.key == "T004")
    assert [one.key for one in last.criteria][-2:] == ["US1/AC1", "US1/AC2"]
    assert last.story_tasks == ("T003", "T004")


def test_what_an_agent_gets(tmp_path: Path) -> None:
    folder = feature(tmp_path)
    (folder / "research.md").write_text("x")
    source = speckit(tmp_path)
    text = source.context(next(task for task in source.tasks().tasks if task.key == "T004"))
    for words in ("specs/001-lending", "A member borrows a book.", "FR-002: System MUST", "Python 3.12"):
        assert words in text
    assert "- specs/001-lending/research.md" in text
    assert "User Story 2" not in text


def test_ticks(tmp_path: Path) -> None:
    folder = feature(tmp_path, b"\xef\xbb\xbf- [X] T001 One\r\n- [ ] T002 Two\r\n")
    source = speckit(tmp_path)
    task = source.tasks().tasks[1]
    for _ in range(2):
        source.mark(task, Completion(DONE, "run", 1))
    assert (folder / "tasks.md").read_bytes() == b"\xef\xbb\xbf- [X] T001 One\r\n- [X] T002 Two\r\n"
    source.mark(task, Completion(TaskStatus.PENDING, "run", 2))
    assert b"- [ ] T002" in (folder / "tasks.md").read_bytes()
    (folder / "tasks.md").write_text("- [ ] T002 Another\n")
    with pytest.raises(SourceError, match="T002 says something else now"):
        source.mark(task, Completion(DONE, "run", 3))
    (folder / "tasks.md").write_text("- [ ] T001 New\n- [ ] T003 Two\n- [ ] T009 T002 Two\n")
    with pytest.raises(SourceError, match="There is no task T002"):
        source.mark(task, Completion(DONE, "run", 4))


def test_a_mistyped_box_is_named_with_its_line() -> None:
    (notice,) = parse_tasks("- [ ] T001 a\n- [] T002 b\n").notices
    assert (notice.line, "- [] T002 b" in notice.text) == (2, True)
    assert parse_tasks("- [T001](a.md)\n- T002\n  - [] T003\n```\n- [] T004\n```\n").notices == ()


def test_notices_and_refusals(tmp_path: Path) -> None:
    folder = feature(tmp_path, "- [ ] T001 [US7] a\n- [ ] T001 b\n")
    (folder / "checklists").mkdir()
    (folder / "checklists" / "ux.md").write_text("- [ ] Read it\n- [x] Done\n")
    listing = speckit(tmp_path).tasks()
    said = "\n".join(notice.text for notice in listing.notices)
    assert "T001 belongs to US7, which spec.md does not have" in said
    assert "No task belongs to these user stories of spec.md: US1, US2." in said
    assert "this one is called T001#2" in said
    assert listing.unchecked == ("ux.md has 1 unchecked of 2 items (Read it)",)
    (folder / "tasks.md").write_text("# Tasks\n")
    assert "No tasks were found" in str(speckit(tmp_path).tasks().refusal)
    (folder / "tasks.md").write_bytes(b"- [ ] T001 \xff\n")
    with pytest.raises(SourceError, match=r"is not UTF-8: byte 11 \(line 1\)"):
        speckit(tmp_path).tasks()
    (folder / "tasks.md").unlink()
    with pytest.raises(SourceError, match=r"There is no tasks\.md"):
        speckit(tmp_path).tasks()


def test_the_next_step_is_spec_kits_own(tmp_path: Path) -> None:
    feature(tmp_path, "- [x] T001 One\n")
    assert speckit(tmp_path).tasks().next_step == ""
    (tmp_path / ".specify").mkdir()
    assert "/speckit.converge" in speckit(tmp_path).tasks().next_step


def test_it_keeps_the_promises_of_sources(tmp_path: Path) -> None:
    folder = feature(tmp_path)
    request = SourceRequest(str(folder), tmp_path, tmp_path / "state", tmp_path)
    check_source(lambda: SpecKit.open(request), request)
