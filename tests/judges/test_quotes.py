"""Which quotes of a judge count: those of what stands in the work and shows what it does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.domain.errors import UnusableAnswer
from segue.domain.task import Task
from segue.domain.verdict import CONTESTED, Criterion, Evidence
from segue.judges.quotes import Quotable, Worth
from segue.judges.verdict import read_verdict

SHOWN = """\
diff --git a/app.py b/app.py
--- a/app.py
+++ b/app.py
@@ -1,2 +1,6 @@
 def read(id):
-    return 200
+    if id not in notes:
+        return 404, "no such note"
+    return 200
+MESSAGE = "it’s \\n gone"
+- first item
+- second item
"""
CHECKS = """\
$ pytest -q
exit code 0
3 passed in 0.12s
"""
SEEN = Quotable(SHOWN, CHECKS)

CASES = json.loads(Path(__file__).with_name("quotes.json").read_text("utf-8"))
"""Written by somebody who had not seen the rule."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_quotes_count_if_they_show_what_the_work_does(case: dict[str, Any]) -> None:
    checks = "\n".join(f"$ {one['command']}\n{one['output']}" for one in case["checks"])
    seen = Quotable(case["diff"], checks)
    for criterion in case["criteria"]:
        quote = case["quotes"].get(criterion["key"])
        if quote is None:
            continue
        counts = seen.weigh(quote, criterion["text"]) is Worth.REAL
        assert counts is case["expected"][criterion["key"]], quote


REMOVED = """\
diff --git a/app.py b/app.py
@@ -1,3 +1,2 @@
 def read(id):
-    check(id)
-    count(id)
+    return 1
"""


def _answer(*keys: str) -> str:
    quotes = {"AC1": "-    check(id)", "AC2": "count(id)", CONTESTED: "-    check(id)"}
    return json.dumps({"criteria": [{"key": key, "met": True, "evidence": quotes[key]} for key in keys]})


def _task(*keys: str) -> Task:
    return Task("1", "Read", "Read it.", criteria=tuple(Criterion(key, "Ids are checked.") for key in keys))


def test_one_quote_of_a_removed_line_shows_nothing_and_two_decide_nothing() -> None:
    evidence = Evidence(REMOVED)
    verdict = read_verdict(_answer("AC1"), _task("AC1"), evidence)
    assert [one.met for one in verdict.criteria] == [False]
    assert "the work removed it" in verdict.criteria[0].evidence
    with pytest.raises(UnusableAnswer, match="AC1, AC2: the quotes are lines that the work removed"):
        read_verdict(_answer("AC1", "AC2"), _task("AC1", "AC2"), evidence)


def test_who_is_asked_about_a_change_may_quote_what_it_removed() -> None:
    verdict = read_verdict(_answer(CONTESTED), _task(CONTESTED), Evidence(REMOVED))
    assert [one.met for one in verdict.criteria] == [True]


@pytest.mark.parametrize(
    "quote",
    [
        "return 404",
        "+        return 404",
        '+    if id not in notes:\n+        return 404, "no such note"',
        'if id not in notes:\n    return 404, "no such note"',
        "if id not in notes:\\n+        return 404",
        "if id not in notes:\n...\n+    return 200",
        '`return 404, "no such note"`',
        "In app.py: `if id not in notes:` and then",
        '"it\'s \\n gone"',
        "- first item\n- second item",
        "3 passed in 0.12s",
        "$ pytest -q\nexit code 0",
    ],
)
def test_a_quote_is_known_in_the_forms_that_models_give_it(quote: str) -> None:
    assert SEEN.weigh(quote, "") is Worth.REAL


@pytest.mark.parametrize(
    "quote",
    [
        "return 500",
        "}",
        "",
        "…",
        "return 404 … if id not in notes",
        "The handler returns 404 when the note is missing.",
        'It says "return 404, gone" and `if id not in notes:`',
        "4 passed in 0.12s",
    ],
)
def test_a_made_up_quote_is_seen(quote: str) -> None:
    assert SEEN.weigh(quote, "") is Worth.MADE_UP


lines = st.text(st.characters(exclude_characters="…\\"), min_size=1, max_size=40)


@settings(deadline=None)
@given(st.lists(lines, min_size=1, max_size=8), st.data())
def test_every_run_of_lines_can_be_quoted_with_or_without_signs(
    texts: list[str], data: st.DataObject
) -> None:
    shown = Quotable("\n".join(["diff --git a/x b/x", "@@ -0,0 +1 @@", *(f"+{text}" for text in texts)]), "")
    start = data.draw(st.integers(0, len(texts) - 1))
    end = data.draw(st.integers(start + 1, len(texts)))
    sign = data.draw(st.sampled_from(["", "+", "-", "   "]))
    quote = "\n".join(sign + text for text in texts[start:end])
    content = "".join(char for char in quote if char.isalnum())
    assert len(content) < 3 or "..." in quote or shown.weigh(quote, "") is Worth.REAL
