"""Realistic Spec Kit features, as large as those that people have: one written out, others made of parts."""

from __future__ import annotations

import shutil
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "speckit"

_NOUNS = ("invoice", "reminder", "statement", "refund", "subscription", "voucher", "payout", "dispute")
_LAWS = ("Simplicity", "Test First", "Contracts", "Observability", "Privacy", "Compatibility", "Releases")


def example(root: Path) -> Path:
    """Copy the example of the documentation and return its feature."""
    shutil.copytree(EXAMPLE, root, dirs_exist_ok=True)
    return root / "specs" / "001-lending"


def large(root: Path) -> Path:
    """A feature of eight stories with 96 tasks, long documents and a constitution of 12 KB."""
    folder = root / "specs" / "042-billing"
    (folder / "contracts").mkdir(parents=True)
    law = "\n\n".join(f"### {n}. {name}\n\n{_prose(name, 9)}" for n, name in enumerate(_LAWS, 1))
    memory = root / ".specify" / "memory"
    memory.mkdir(parents=True)
    sync = "<!--\nSync Impact Report\nVersion: 2.3.0 → 2.4.0\nTemplates: ✅ updated\n-->\n"
    (memory / "constitution.md").write_text(f"{sync}# Billing Constitution\n\n## Core Principles\n\n{law}\n")
    stories = "\n---\n\n".join(_story(number, noun) for number, noun in enumerate(_NOUNS, 1))
    clarified = "\n".join(f"- Q: {_prose('Question', 1)[:-1]}? → A: {_prose('Answer', 1)}" for _ in range(12))
    required = "\n".join(f"- **FR-{n:03d}**: System MUST {_prose('rule', 1)}" for n in range(1, 41))
    assumed = "\n".join(f"- {_prose('Assumption', 1)}" for _ in range(8))
    (folder / "spec.md").write_text(
        f"# Feature Specification: Billing\n\n## Clarifications\n\n### Session 2026-05-01\n\n{clarified}\n\n"
        f"## User Scenarios & Testing *(mandatory)*\n\n{stories}\n\n"
        f"### Edge Cases\n\n- {_prose('Edge', 4)}\n\n"
        f"## Requirements *(mandatory)*\n\n### Functional Requirements\n\n{required}\n\n"
        f"## Assumptions\n\n{assumed}\n"
    )
    tree = "\n".join(f"│   ├── {noun}_{layer}.ts" for noun in _NOUNS for layer in ("model", "service", "api"))
    (folder / "plan.md").write_text(
        f"# Plan: Billing\n\n## Summary\n\n{_prose('Summary', 5)}\n\n## Technical Context\n\n"
        f"**Language/Version**: TypeScript 5.6\n**Constraints**: {_prose('Limit', 3)}\n\n"
        f"## Project Structure\n\n```text\n{tree}\n```\n"
    )
    for name in ("data-model", "research", "quickstart"):
        parts = "\n\n".join(f"## {noun.title()}\n\n{_prose(noun, 6)}" for noun in _NOUNS)
        (folder / f"{name}.md").write_text(f"# {name}\n\n{parts}\n")
    for noun in _NOUNS:
        (folder / "contracts" / f"{noun}.yaml").write_text(f"# {_prose(noun, 30)}\n")
    phases = [_phase(number, noun) for number, noun in enumerate(_NOUNS, 1)]
    (folder / "tasks.md").write_text("# Tasks: Billing\n\n" + "\n".join(phases))
    return folder


def old(root: Path) -> Path:
    """A feature of the template of 2025: no labels, one story for all, a checklist at the end."""
    folder = root / "specs" / "003-export"
    folder.mkdir(parents=True)
    required = "\n".join(f"- **FR-{n:03d}**: System MUST {_prose('rule', 1)}" for n in range(1, 16))
    (folder / "spec.md").write_text(
        f"# Feature Specification: Export\n\n## User Scenarios & Testing\n\n### Primary User Story\n\n"
        f"{_prose('An analyst', 3)}\n\n### Acceptance Scenarios\n\n"
        "1. **Given** data, **When** exported, **Then** a file.\n"
        "2. **Given** none, **When** exported, **Then** a refusal.\n\n### Edge Cases\n\n- Empty.\n\n"
        f"## Requirements\n\n{required}\n\n## Review & Acceptance Checklist\n\n- [ ] No details\n"
    )
    (folder / "plan.md").write_text(f"# Plan\n\n## Summary\n\n{_prose('Summary', 3)}\n")
    tasks = "\n".join(f"- [ ] T{n:03d} Write part {n} in src/part_{n}.py" for n in range(1, 29))
    (folder / "tasks.md").write_text(
        f"# Tasks: Export\n\n## Phase 3.1: Setup\n\n{tasks}\n\n"
        "## Validation Checklist\n\n- [ ] All contracts\n"
    )
    return folder


def foreign(root: Path) -> Path:
    """A feature in German, without a constitution."""
    folder = root / "specs" / "007-termine"
    folder.mkdir(parents=True)
    (folder / "spec.md").write_text(
        "# Spezifikation: Termine\n\n## Klärungen\n\n- F: Zeitzone? → A: UTC.\n\n## User Stories\n\n"
        + "\n".join(
            f"### User Story {n} - Termin {n} (Priority: P{n})\n\n{_prose('Ein Mitglied', 4)}\n\n"
            "**Acceptance Scenarios**:\n\n1. **Given** ein Termin, **When** abgesagt, **Then** frei.\n"
            for n in (1, 2, 3)
        )
        + "\n## Annahmen\n\n- Es gibt einen Kalender.\n"
    )
    (folder / "plan.md").write_text(f"# Plan\n\n## Zusammenfassung\n\n{_prose('Wir bauen', 3)}\n")
    phases = "\n".join(
        f"## Phase {n}: User Story {n}\n\n**Ziel**: Termin {n} geht.\n\n"
        + "\n".join(f"- [ ] T{n}{k:02d} [US{n}] Schreibe src/t{n}_{k}.py" for k in range(1, 12))
        + f"\n\n**Prüfpunkt**: Story {n} läuft allein.\n"
        for n in (1, 2, 3)
    )
    (folder / "tasks.md").write_text(f"# Aufgaben\n\n{phases}")
    return folder


FEATURES = (example, large, old, foreign)


def _prose(about: str, sentences: int) -> str:
    text = (
        "{} is decided once and written down where the next person looks for it, with the reason.",
        "{} fails closed: what cannot be decided is refused, and the refusal names what is missing.",
        "{} is measured in production, and a regression of more than ten percent is a defect.",
    )
    return " ".join(text[n % len(text)].format(about.capitalize()) for n in range(sentences))


def _story(number: int, noun: str) -> str:
    scenarios = "\n".join(
        f"{n}. **Given** an open {noun}, **When** step {n} happens, **Then** the {noun} shows state {n}."
        for n in range(1, 5)
    )
    return (
        f"### User Story {number} - Handle a {noun} (Priority: P{min(number, 4)})\n\n{_prose(noun, 3)}\n\n"
        f"**Why this priority**: {_prose('Value', 1)}\n\n**Independent Test**: Close a {noun}.\n\n"
        f"**Acceptance Scenarios**:\n\n{scenarios}\n"
    )


def _phase(number: int, noun: str) -> str:
    first = (number - 1) * 12
    tasks = "\n".join(
        f"- [ ] T{first + n:03d} [P] [US{number}] Write part {n} of the {noun} in src/{noun}/part_{n}.ts "
        f"(FR-{first % 40 + n:03d})"
        for n in range(1, 13)
    )
    return (
        f"## Phase {number}: User Story {number} - Handle a {noun} (Priority: P1)\n\n"
        f"**Goal**: A {noun} can be handled from end to end\n\n{tasks}\n\n"
        f"**Checkpoint**: Story {number} works on its own\n"
    )
