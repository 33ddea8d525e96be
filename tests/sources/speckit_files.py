"""Spec Kit features written to disk for tests, in the style of its templates."""

from __future__ import annotations

from pathlib import Path

from segue.sources.speckit.source import SpecKit

TASKS = """\
---
description: "Task list"
---
# Tasks: Lending library

**Input**: Design documents from `/specs/001-lending/`

## Format: `[ID] [P?] [Story] Description`

## Phase 1: Setup

- [ ] T001 Create the project in src/library/
  Use a src layout.

  - [ ] package
- [x] T002 [P] Configure the linter

## Phase 2: User Story 1 - Borrow a book (Priority: P1) 🎯 MVP

**Goal**: Members borrow books.

### Tests for User Story 1

- [ ] T003 [P] [US1] Test lending in tests/test_lend.py

### Implementation for User Story 1

- [ ] T004 [US1] Lend a book in src/library/lend.py per FR-002 and SC-001

**Checkpoint**: Books can be borrowed

## Phase 3: User Story 2 - Return a book (Priority: P2)

- [ ] T005 Return a book in src/library/give_back.py

## Notes

- [P] tasks = different files
- T003 blocks T004
"""

SPEC = """\
# Feature Specification: Lending library

## User Scenarios & Testing *(mandatory)*

### User Story 1 - Borrow a book (Priority: P1)

A member borrows a book.

**Why this priority**: It is what a library is for.

**Acceptance Scenarios**:

1. **Given** a book on the shelf, **When** a member borrows it, **Then** it is lent.
2. **Given** a lent book, **When** another member asks for it,
   **Then** the request is refused.

---

### User Story 2 - Return a book (Priority: P2)

**Acceptance Scenarios**:

1. **Given** a lent book, **When** it is returned, **Then** it is on the shelf.

### Edge Cases

- What if a book is lost?

## Requirements *(mandatory)*

### Functional Requirements

- **FR-001**: System MUST know its members.
- **FR-002**: System MUST lend a book to one member at a time.
  - Not to two.
- **FR-003**: System MUST keep a log.

### Measurable Outcomes

- **SC-001**: Lending takes less than a second.
"""

PLAN = """\
# Implementation Plan: Lending library

## Summary

A small command line program.

## Technical Context

**Language/Version**: Python 3.12

## Constitution Check

All gates pass.

## Project Structure

```text
src/library/
# not a heading
tests/
```

## Complexity Tracking

None.
"""


def feature(root: Path, tasks: str | bytes = TASKS, spec: str | None = SPEC, plan: str | None = PLAN) -> Path:
    """A feature folder in a project."""
    folder = root / "specs" / "001-lending"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tasks.md").write_bytes(tasks if isinstance(tasks, bytes) else tasks.encode())
    for name, text in (("spec.md", spec), ("plan.md", plan)):
        if text is not None:
            (folder / name).write_bytes(text.encode())
    return folder


def speckit(root: Path) -> SpecKit:
    """A new object for the feature that lies there."""
    return SpecKit(root / "specs" / "001-lending", root)
