"""A criterion: one thing that must be true before a task is done."""

from __future__ import annotations

from msgspec import Struct

CONTESTED = "contested"
"""The key of the question whether a task asks for tests to be changed as they were."""


class Criterion(Struct, frozen=True):
    """One thing that must be true; `key` is its name for people (`US1/AC2`, `FR-003`, `task`)."""

    key: str
    text: str
    of_story: bool = False
    """Whether it is about a whole story, and judged by everything that changed since the story began."""


class CriterionVerdict(Struct, frozen=True):
    """Whether a criterion is met, with a quote from the evidence."""

    key: str
    met: bool
    evidence: str
