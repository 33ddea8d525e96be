"""What a task file says about the order of its tasks, and what follows from its phases."""

from __future__ import annotations

from pathlib import Path

import pytest

from segue.domain.graph import WaitKind
from segue.sources.markdown.lines import read_lines
from segue.sources.markdown.relations import TaskNames, read_relations, wait_by_text
from segue.sources.plan.usual import parse as parse_plan
from segue.sources.speckit.dependencies import find_waits
from segue.sources.speckit.tasks import parse
from tests.sources.speckit_files import feature, speckit

NAMES = TaskNames.of({f"T{n:03d}": f"T{n:03d}" for n in range(1, 21)})
TEXT = """\
# Tasks
## Phase 1: Setup
- [ ] T001 Create
- [ ] T002 [P] Lint
- [ ] T003 [P] Format
**Checkpoint**: It starts
## Phase 2: Foundational
- [ ] T004 Database
- [ ] T005 Sign in (depends on T004)
## Phase 3: User Story 1 - Buy (Priority: P1)
- [ ] T006 [P] [US1] Model
- [ ] T007 [US1] Service (after T006)
## Phase 4: User Story 2 - Return
- [ ] T008 [US2] Model
## Phase 5: Polish
- [ ] T009 Docs
## Dependencies & Execution Order
- T001 → T004
- T008 depends on T006
- User Story 2 (P2): Can start after Foundational, may integrate with US1
"""


def waits(text: str) -> dict[str, list[tuple[str, str, str]]]:
    found = find_waits(parse(text.encode()).tasks, read_lines(text))
    return {key: [(w.kind.value, ",".join(w.keys), w.why) for w in ways] for key, ways in found.items()}


def test_phases_stories_labels_and_words() -> None:
    phase_2 = ("phase", "T001,T002,T003", "phase 2 waits for phase 1")
    assert waits(TEXT) == {
        "T001": [],
        "T002": [("order", "T001", "it comes after T001")],
        "T003": [("order", "T001", "it comes after T001")],
        "T004": [("stated", "T001", "line 18 says so"), phase_2],
        "T005": [("stated", "T004", "it says so"), phase_2],
        "T006": [("phase", "T004,T005", "phase 3 waits for phase 2")],
        "T007": [("stated", "T006", "it says so"), ("phase", "T004,T005", "phase 3 waits for phase 2")],
        "T008": [("stated", "T006", "line 19 says so"), ("phase", "T004,T005", "phase 4 waits for phase 2")],
        "T009": [
            ("phase", "T006,T007", "phase 5 waits for phase 3"),
            ("phase", "T008", "phase 5 waits for phase 4"),
        ],
    }
    assert [task.checkpoint for task in parse(TEXT.encode()).tasks][2] == "It starts"


def test_a_story_waits_for_another_where_it_is_said() -> None:
    text = TEXT.replace("Can start after Foundational, may integrate with US1", "depends on US1")
    assert ("phase", "T006,T007", "story US2 waits for US1: line 20 says so") in waits(text)["T008"]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("Make it (depends on T012)", "T012"),
        ("Make it (depends on T012, T013)", "T012 T013"),
        ("Make it (after T003, T004 and T006)", "T003 T004 T006"),
        ("Make it; requires **T003**", "T003"),
        ("Make it. Blocked by T003-T005", "T003 T004 T005"),
        ("**Dependencies**: T003, T004", "T003 T004"),
        ("Prerequisites: T003 through T005", "T003 T004 T005"),
        ("Make it after lunch", ""),
        ("T003 is related", ""),
        ("depends on T099", ""),
        ("depends on T001", ""),
        ("depends on T003%", ""),
    ],
)
def test_what_a_task_says(text: str, keys: str) -> None:
    found = [key for wait in wait_by_text(text, "T001", NAMES) for key in wait.keys]
    assert found == keys.split()


@pytest.mark.parametrize(
    ("line", "after", "before"),
    [
        ("- T001 blocks T002, T003", "T002 T003", "T001"),
        ("T001 must be completed before T004", "T004", "T001"),
        ("Tests (T004-T006) before implementation (T008-T009)", "T008 T009", "T004 T005 T006"),
        ("- T016 depends on T014 and T015", "T016", "T014 T015"),
        ("- **T016** requires **T014**", "T016", "T014"),
        ("T005 -> T006", "T006", "T005"),
        ("T001, T002 can run in parallel", "", ""),
    ],
)
def test_what_a_line_says(line: str, after: str, before: str) -> None:
    found = list(read_relations(line, NAMES))
    assert found == ([(after.split(), before.split())] if after else [])


def test_plans_say_it_by_number() -> None:
    first, second, third = parse_plan(
        "## Task 1\na\n## Task 2: b\nAfter Task 1.\n## Task 3\nDepends on tasks 1 and 2"
    ).tasks
    assert (second.depends_on[0].kind, second.depends_on[0].keys) == (WaitKind.STATED, ("1",))
    assert third.depends_on[0].keys == ("1", "2")
    assert first.depends_on == ()
    steps = parse_plan("## Step 1\na\n## Step 2\nAfter step 1.").tasks
    assert steps[1].depends_on[0].kind is WaitKind.STATED
    inner = parse_plan("## Task 1\na\n## Task 2\nAfter step 1.").tasks
    assert inner[1].depends_on == ()


def test_cycles_and_forward_references_are_notices(tmp_path: Path) -> None:
    feature(
        tmp_path, "- [ ] T001 One (depends on T002)\n- [ ] T002 Two (depends on T001)\n- [ ] T003 Three\n"
    )
    texts = [notice.text for notice in speckit(tmp_path).tasks().notices]
    assert "These tasks wait for each other: T001 → T002 → T001." in texts
    feature(tmp_path, "- [ ] T001 One (after T002)\n- [ ] T002 Two\n")
    texts = [notice.text for notice in speckit(tmp_path).tasks().notices]
    assert "T001 waits for T002, but comes first; one task at a time is run in this order." in texts
