"""The event that says whether work was right."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from segue.domain.events import Event


class LabelOrigin(StrEnum):
    """Who knows whether work was right."""

    PERSON = "person"
    FILE = "file"
    TESTS = "tests"
    """Tests that nobody who took part has seen."""
    GIT = "git"
    """What became of it: reverted or fixed. Work of which history says nothing is not known to be right."""


class Label(Event, frozen=True):
    """Whether the work of a task was right, or that of one attempt at it."""

    type: ClassVar[str] = "label"
    task: str
    good: bool
    origin: LabelOrigin
    by: str = ""
    reason: str = ""
    step: str = ""
    """The attempt that is meant; empty: the work that the task ended with."""

    def describe(self) -> str:
        """Return one line for people."""
        words = f"task {self.task} is labelled {'right' if self.good else 'wrong'} ({self.by or self.origin})"
        return f"{words}: {self.reason}" if self.reason else words
