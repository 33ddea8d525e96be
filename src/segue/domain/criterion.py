"""A criterion: one thing that must hold for a task to count as done."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Criterion:
    """One thing that must hold; the key is what people and reports call it (`US1/AC2`, `FR-003`, `task`)."""

    key: str
    text: str


@dataclass(frozen=True, slots=True)
class CriterionVerdict:
    """Whether a criterion holds, with the evidence quoted."""

    key: str
    met: bool
    evidence: str
