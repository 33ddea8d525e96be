"""Prompts for tasks of realistic features: what an expert would write, and no more."""

from __future__ import annotations

from pathlib import Path

from segue.domain.task import Task
from segue.prompts.task import execute_prompt
from segue.sources.speckit.source import SpecKit
from tests.sources.features import example


def source(root: Path) -> SpecKit:
    return SpecKit(example(root), root)


def find(opened: SpecKit, key: str) -> Task:
    return next(task for task in opened.tasks().tasks if task.key == key)


def prompt(opened: SpecKit, key: str) -> str:
    task = find(opened, key)
    return execute_prompt(task, opened.context(task), nonce="test").text


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
