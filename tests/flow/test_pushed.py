"""What cloud agents push in place of the contract: marks of others are named, their own habit is not."""

from __future__ import annotations

import pytest

from segue.domain.task import Task
from segue.flow.evidence import compare_lines

OWN = Task("T001", "First", "First, as spec.md says")
OLD = ["# Tasks", "- [ ] T001 First", "- [ ] T002 Second", "- [x] T000 Done before", "1. [ ] T0012 Other"]


@pytest.mark.parametrize(
    ("new", "subject", "said"),
    [
        (OLD, "tasks", ""),
        ([line.replace("[ ] T001 ", "[x] T001 ") for line in OLD], "tasks", ""),
        (
            [line.replace("[ ]", "[X]") for line in OLD],
            "tasks",
            "tasks.md of its branch: T002 Second, T0012 Other.",
        ),
        (["* [x] T002 Else"], "tasks", "marked as done in tasks.md of its branch: T002 Else."),
        ([*OLD, "- [ ] T003 More"], "tasks", "changed tasks.md in its branch"),
        (OLD[:2], "tasks", "changed tasks.md in its branch"),
        ([], "state", "changed tasks.md in its branch"),
    ],
)
def test_marks_of_others_are_named(new: list[str], subject: str, said: str) -> None:
    found = list(compare_lines("specs/1/tasks.md", subject, OLD, new, OWN))
    assert [one.path for one in found] == (["tasks.md"] if said else [])
    assert all(said in one.text for one in found)


def test_a_document_that_the_task_names_may_change() -> None:
    assert list(compare_lines("specs/1/spec.md", "criteria", ["a"], ["b"], OWN)) == []
