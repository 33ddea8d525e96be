"""The text and title of a pull request."""

from __future__ import annotations

from typing import Any

import pytest

from segue.domain.proof import Level
from segue.reports.card.card import ProofCard
from segue.reports.card.request import render_request, weakest_level, write_title


def card(
    task: str, title: str, state: str = "done", level: Level | None = Level.TESTED, **more: Any
) -> ProofCard:
    known: dict[str, Any] = dict.fromkeys(ProofCard.__struct_fields__, ())
    known |= {"run": "r1", "task": task, "title": title, "state": state, "level": level, "kind": None}
    known |= {"proof": str(level), "conclusion": "PASS" if level else "", "meaning": "", "judge": ""}
    known |= {"open_findings": 0, "independent": None, "mutants": None, "held": None, "base": "", "tree": ""}
    known |= {
        "commit": "c0ffee",
        "branch": None,
        "attempts": 1,
        "seconds": None,
        "tokens": 0,
        "cost_usd": None,
    }
    return ProofCard(**{**known, **more})


def test_the_label_is_what_every_task_reaches() -> None:
    assert weakest_level([card("1", "a"), card("2", "b", level=Level.CHECKED)]) == "checked"
    assert weakest_level([card("1", "a"), card("2", "b", "needs_human", None)]) == ""
    assert weakest_level([card("1", "a"), card("2", "b", "skipped", None)]) == "tested"
    assert weakest_level([]) == ""
    answered = card("pr-review-1", "Why?", level=Level.CHANGED, commit=None)
    assert weakest_level([card("1", "a"), answered]) == "tested"
    assert weakest_level([card("1", "a"), card("pr-ci-1", "x", level=Level.CHANGED)]) == "changed"


@pytest.mark.parametrize(
    ("title", "names", "expected"),
    [
        ("A greeting service", ["a", "b"], "A greeting service"),
        ("plan.md", ["Write one", "Write two"], "Write one; Write two"),
        ("docs/plan.md", ["a", "b", "c", "d"], "a; b and 2 more tasks"),
        ("plan.md", ["a" * 90, "b" * 90, "c"], "a" * 85 + "… and 2 more tasks"),
    ],
)
def test_titles_say_what_the_work_is_about(title: str, names: list[str], expected: str) -> None:
    found = write_title(title, [card(str(number), name) for number, name in enumerate(names)])
    assert len(found) <= 100
    if len(expected) < 80:
        assert found == expected
    else:
        assert found.endswith("and 2 more tasks")


def test_the_text_links_to_nobody() -> None:
    text = render_request(
        [card("1", "Thank @alice, closes #12 | <b>", "needs_human", None)], "r1", "needs @bob"
    )
    assert "@alice" not in text
    assert "@bob" not in text
    assert "#12" not in text.replace("\\#<!-- -->12", "")
    assert "0 of 1 task done" in text
