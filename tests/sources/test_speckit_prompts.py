"""Prompts for tasks of realistic features: what an expert would write, and no more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

from segue.domain.task import Task
from segue.prompts.task import execute_prompt
from segue.sources.speckit.source import SpecKit
from tests.sources.features import FEATURES, example, foreign, large

Make = Callable[[Path], Path]


def source(root: Path, make: Make = example) -> SpecKit:
    return SpecKit(make(root), root)


def find(opened: SpecKit, key: str) -> Task:
    return next(task for task in opened.tasks().tasks if task.key == key)


def prompt(opened: SpecKit, key: str) -> str:
    task = find(opened, key)
    return execute_prompt(task, opened.context(task), nonce="test").text


@pytest.mark.thorough
@pytest.mark.parametrize("make", FEATURES, ids=lambda make: make.__name__)
def test_prompts_are_short_and_have_the_task_once(tmp_path: Path, make: Make) -> None:
    opened = source(tmp_path, make)
    tasks = opened.tasks().tasks
    texts = [execute_prompt(task, opened.context(task), nonce="test").text for task in tasks]
    assert median(len(text.encode()) for text in texts) <= 8 * 1024
    assert max(len(text.encode()) for text in texts) <= 10 * 1024
    for task, text in zip(tasks, texts, strict=True):
        assert text.count(task.text) == 1
        assert text.count(task.title.removesuffix("…")) == 1
        assert f"Feature folder: specs/{opened.folder.name}\n" in text


def test_the_prompt_of_a_task_in_the_middle(tmp_path: Path) -> None:
    text = prompt(source(tmp_path), "T013")
    order = [
        "# Where the task belongs",
        "Feature folder: specs/001-lending",
        "Phase 3: User Story 1 - Borrow a book (Priority: P1)",
        "Goal: A member borrows a copy at the desk; nobody else can borrow it until it is returned",
        "Checkpoint: User Story 1 is fully functional and testable on its own",
        "# US1: User Story 1 - Borrow a book (Priority: P1)",
        "2. **Given** a copy that is lent",
        "# Requirements quoted by the task\n\nFR-002: System MUST lend a copy",
        "FR-005: System MUST refuse",
        "# Clarifications",
        "# Plan: technical context",
        "# Constitution",
        "- III. Test First (NON-NEGOTIABLE): Contract and integration tests",
        "# Assumptions",
        "- specs/001-lending/data-model.md: Member, Copy, Loan, Reservation, State transitions",
        "- specs/001-lending/contracts/loans.yaml",
        "- .specify/memory/constitution.md",
        "T013 [US1] Record a loan in one transaction",
        "  - A unique violation becomes `copy_lent`",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    for unwanted in (
        "SYNC IMPACT",
        "User Story 2 - Return",
        "FR-009",
        "uvicorn",
        "partial unique index on `loan",
    ):
        assert unwanted not in text
    assert text.count("see that a second loan of the same copy is refused") == 1


def test_a_task_before_the_stories_gets_its_purpose_and_the_requirements(tmp_path: Path) -> None:
    text = prompt(source(tmp_path), "T007")
    assert "Purpose: What every story needs before it can begin\n" in text
    assert "CRITICAL: No user story can begin until this phase is complete\n" in text
    assert "Checkpoint: The service starts, answers 404 in the agreed form" in text
    assert "FR-012: System MUST write an audit entry" in text


def test_labels_are_known_by_their_form_in_any_language(tmp_path: Path) -> None:
    text = prompt(source(tmp_path, foreign), "T203")
    assert "Phase 2: User Story 2\nZiel: Termin 2 geht.\nPrüfpunkt: Story 2 läuft allein.\n" in text
    assert "# Clarifications\n\n- F: Zeitzone? → A: UTC." in text
    assert "# Assumptions\n\n- Es gibt einen Kalender." in text


def test_what_finds_no_room_is_named_with_its_file(tmp_path: Path) -> None:
    text = prompt(source(tmp_path, large), "T050")
    assert "Sync Impact" not in text
    assert "- Constitution: see .specify/memory/constitution.md" in text or "- 1. Simplicity:" in text
    assert "- Clarifications: see specs/042-billing/spec.md" in text or "→ A:" in text
    assert "part_model.ts" not in text, "the structure is in plan.md"
    assert "- specs/042-billing/contracts/voucher.yaml" in text


TASKS_AS_HEADINGS = """\
# Tasks

## Phase 1: Core

**Purpose**: The heart of it,
over two lines

### T001 Write a

**Files**: a.py
**Status**: open

### T002 Write b

**Files**: b.py

**Checkpoint**: It runs
"""


def test_what_belongs_to_other_tasks_is_not_said_of_the_phase(tmp_path: Path) -> None:
    folder = tmp_path / "specs" / "001-x"
    folder.mkdir(parents=True)
    (folder / "tasks.md").write_text(TASKS_AS_HEADINGS)
    opened = SpecKit(folder, tmp_path)
    text = opened.context(find(opened, "T001"))
    assert "Phase 1: Core\nPurpose: The heart of it, over two lines\nCheckpoint: It runs" in text
    assert "b.py" not in text
    (folder / "tasks.md").write_text("## Phase 1: Bare\n\n**T003** Write c\n\n**T004** Write d\n")
    assert "T004" not in opened.context(find(opened, "T003"))
