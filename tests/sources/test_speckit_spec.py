"""What is understood of spec.md, plan.md and constitution.md, in the forms of real files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.verdict import Criterion
from segue.sources.speckit.spec import Story, parse_constitution, parse_plan, parse_spec
from tests.sources.speckit_files import PLAN, SPEC


def story(text: str) -> Story:
    (found,) = parse_spec(text.encode()).stories.values()
    return found


def scenarios(text: str) -> list[str]:
    return [criterion.text for criterion in story(f"### User Story 1 - A\n\n{text}").scenarios]


def test_the_template() -> None:
    spec = parse_spec(SPEC.encode())
    assert list(spec.stories) == ["US1", "US2"]
    first = spec.stories["US1"]
    assert (first.title, first.priority) == ("User Story 1 - Borrow a book (Priority: P1)", "P1")
    assert first.scenarios == (
        Criterion("US1/AC1", "Given a book on the shelf, When a member borrows it, Then it is lent.", True),
        Criterion(
            "US1/AC2",
            "Given a lent book, When another member asks for it, Then the request is refused.",
            True,
        ),
    )
    assert first.text.startswith("### User Story 1")
    assert first.text.endswith("**Then** the request is refused.")
    assert spec.edge_cases == "### Edge Cases\n\n- What if a book is lost?"
    assert list(spec.requirements) == ["FR-001", "FR-002", "FR-003", "SC-001"]
    assert spec.requirements["FR-002"] == (
        "FR-002: System MUST lend a book to one member at a time.\n  - Not to two."
    )
    assert spec.primary is None


@pytest.mark.parametrize(
    ("heading", "key"),
    [
        ("### User Story 1 - Borrow (Priority: P1)", "US1"),
        ("### User Story 2 — Borrow", "US2"),
        ("### User Story 3: Borrow", "US3"),
        ("## User Story 12", "US12"),
        ("### 🎯 User Story 1 - Borrow", "US1"),
        ("### 1. User Story 1 - Borrow", "US1"),
        ("### US1: Borrow", "US1"),
        ("### US-1 Borrow", "US1"),
        ("### Story 4 - Borrow", "US4"),
    ],
)
def test_forms_of_story_headings(heading: str, key: str) -> None:
    text = f"# Spec\n\n{heading}\n\nProse.\n\n1. **Given** a, **When** b, **Then** c\n\n## Requirements\n"
    found = story(text)
    assert found.key == key
    assert [criterion.key for criterion in found.scenarios] == [f"{key}/AC1"]
    assert found.text.endswith("**Then** c")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("**Acceptance Scenarios**:\n\n1. **Given** a, **Then** b\n2. c", ["Given a, Then b", "c"]),
        ("**Acceptance Criteria**\n- One\n  - part of one\n- Two", ["One part of one", "Two"]),
        ("#### Acceptance Scenarios\n* One\n* Two", ["One", "Two"]),
        ("**Acceptance Scenarios**:\n- **Given** a\n- **When** b\n- **Then** c\n- **Given** d",
         ["Given a When b Then c", "Given d"]),
        ("**Acceptance Scenarios**:\n1. One\n\n**Notes**:\n1. Not this", ["One"]),
        ("**Acceptance Scenarios**:\n1. One\n\n---\n\n1. Not this", ["One"]),
        ("**Scenario 1: a**\n\n**Given** x\n**When** y\n\n**Scenario 2: b**\n\n**Given** z",
         ["Given x When y", "Given z"]),
        ("1. Buy milk\n2. **Given** a, **When** b", ["Given a, When b"]),
        ("**Why this priority**: because\n\n- a\n- b", []),
    ],
)  # fmt: skip
def test_forms_of_scenarios(text: str, found: list[str]) -> None:
    assert scenarios(text) == found


def test_the_old_template_has_one_story_for_all_tasks() -> None:
    text = (
        "# Spec\n\n## User Scenarios & Testing\n\n### Primary User Story\nA member borrows.\n\n"
        "### Acceptance Scenarios\n1. **Given** a, **When** b, **Then** c\n2. **Given** d\n\n"
        "### Edge Cases\n- Lost?\n\n## Review & Acceptance Checklist\n- [ ] No details\n"
    )
    spec = parse_spec(text.encode())
    assert spec.primary == "US1"
    assert [c.text for c in spec.stories["US1"].scenarios] == ["Given a, When b, Then c", "Given d"]
    assert "A member borrows." in spec.stories["US1"].text
    assert spec.edge_cases.endswith("- Lost?")


@pytest.mark.parametrize(
    ("text", "key", "requirement"),
    [
        ("- **FR-001**: System MUST", "FR-001", "FR-001: System MUST"),
        ("* FR-001 System MUST", "FR-001", "FR-001 System MUST"),
        ("**SC-002**: Fast", "SC-002", "SC-002: Fast"),
        ("- **NFR-010a**: Safe\n\n  more\nnot this", "NFR-010a", "NFR-010a: Safe\n\n  more"),
        ("#### FR-001: Title\n\nText.\n\n#### Next", "FR-001", "FR-001: Title\n\nText."),
        ("| FR-001 | System MUST |", "FR-001", "FR-001 | System MUST |"),
    ],
)
def test_forms_of_requirements(text: str, key: str, requirement: str) -> None:
    assert parse_spec(text.encode()).requirements == {key: requirement}


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("per FR-002 (partial)", ["FR-002"]),
        ("[FR-001] and SC-001", ["FR-001", "SC-001"]),
        ("FR-001 to FR-003", ["FR-001", "FR-002", "FR-003"]),
        ("FR-001–003", ["FR-001", "FR-002", "FR-003"]),
        ("FR-001 - 3 retries", ["FR-001"]),
        ("FR-0011, XFR-001, FR-999", []),
    ],
)
def test_requirements_quoted_by_a_task(text: str, keys: list[str]) -> None:
    assert list(parse_spec(SPEC.encode()).quoted(text)) == keys


def test_a_constitution_counts_once_it_is_filled_in() -> None:
    assert parse_constitution(b"# [PROJECT_NAME] Constitution\n\n[PRINCIPLE_1]") == ""
    assert parse_constitution(b"\xef\xbb\xbf# Our Constitution\r\n\r\nTest first.\r\n") == (
        "# Our Constitution\n\nTest first."
    )


def test_a_byte_that_is_not_utf8_is_read() -> None:
    text = parse_spec("### User Story 1 - Caf\u00e9 (Priority: P1)\nDrink.\n".encode("latin-1"))
    assert text.stories["US1"].title.startswith("User Story 1 - Café")


PARTS = st.sampled_from(
    [*SPEC.split("\n"), *PLAN.split("\n"), "#### Acceptance", "- Given", "1. When", "```"]
)


@given(st.lists(PARTS | st.text(max_size=20), max_size=40).map("\n".join))
def test_any_text_is_read(text: str) -> None:
    spec = parse_spec(text.encode())
    parse_plan(text.encode())
    keys = [criterion.key for found in spec.stories.values() for criterion in found.scenarios]
    assert len(set(keys)) == len(keys)
    assert all(criterion.text.strip() for found in spec.stories.values() for criterion in found.scenarios)
