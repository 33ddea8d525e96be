"""What cloud agents push in place of the contract: marks of others are named, their own habit is not."""

from __future__ import annotations

import pytest

from segue.flow.pushed import compare_lines

OWN = {"T001"}
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
    found = compare_lines("specs/1/tasks.md", subject, OLD, new, OWN)
    assert (found is not None) == bool(said)
    assert found is None or (found.path == "tasks.md" and said in found.text)
