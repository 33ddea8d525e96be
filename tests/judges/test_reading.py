"""What is read of a model's answer, and which quotes are taken for real."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.domain.errors import UnusableAnswer
from segue.judges.verdict import Quotable, read_answer

KEYS = ["US1/AC1", "FR-003"]
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
$ pytest -q
exit code 0
3 passed in 0.12s
"""


def answer(*entries: tuple[str, bool, str]) -> str:
    listed = [{"key": key, "met": met, "evidence": words} for key, met, words in entries]
    return json.dumps({"criteria": listed, "reasoning": "because"})


WHOLE = answer(("US1/AC1", True, "return 404"), ("FR-003", False, "no test"))


@pytest.mark.parametrize(
    "text",
    [
        WHOLE,
        f"```json\n{WHOLE}\n```",
        f"<think>{{maybe}} {{not}}</think>\nSure! {WHOLE} Is there more {{to do}}?",
        f"{WHOLE}\n{WHOLE}",
        json.dumps({"verdict": "PASS", **json.loads(WHOLE)}, indent=2),
        answer(("FR-003", False, "no test"), (" US1/AC1 ", True, "return 404")),
    ],
)
def test_one_answer_is_found_in_whatever_stands_around_it(text: str) -> None:
    entries = read_answer(text, KEYS).criteria
    assert [(entry.key, entry.met) for entry in entries] == [("US1/AC1", True), ("FR-003", False)]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no JSON object"),
        ('["criteria"]', "no JSON object"),
        ("{" * 100_000, "no JSON object"),
        ("x" * 1_000_000, "too long"),
        (WHOLE + answer(("US1/AC1", True, "x"), ("FR-003", True, "y")), "more than one"),
        ('{"criteria": "all met"}', "criteria: "),
        (answer(("US1/AC1", True, "return 404")), "no entry for: FR-003"),
        (answer(("US1/AC1", True, "x"), ("US1/AC1", True, "x"), ("FR-003", True, "x")), "repeat one"),
        (answer(("US1/AC1", True, "x"), ("fr-003", True, "x")), "1 entries have a key that was not asked"),
        (answer(("US1/AC1", True, " \n"), ("FR-003", True, "x")), "Met without a quote: US1/AC1"),
        (WHOLE.replace("true", "1"), "met: Expected `bool`"),
    ],
)
def test_what_cannot_be_used_is_named(text: str, complaint: str) -> None:
    with pytest.raises(UnusableAnswer, match=complaint):
        read_answer(text, KEYS)


@settings(deadline=None)
@given(st.text(max_size=200), st.text(max_size=200))
def test_no_text_around_an_answer_can_turn_it(before: str, after: str) -> None:
    try:
        entries = read_answer(f"{before}\n{WHOLE}\n{after}", KEYS).criteria
    except UnusableAnswer:
        return
    assert [entry.met for entry in entries] == [True, False]


@pytest.mark.parametrize(
    "quote",
    [
        "return 404",
        "+        return 404",
        "  return   404,\n",
        '+    if id not in notes:\n+        return 404, "no such note"',
        'if id not in notes:\n    return 404, "no such note"',
        "if id not in notes:\\n+        return 404",
        "if id not in notes: … return 200",
        "if id not in notes:\n...\n+    return 200",
        '`return 404, "no such note"`',
        '"return 404"',
        "In app.py: `if id not in notes:` and then",
        '"it\'s \\n gone"',
        "it's\n gone",
        "- first item\n- second item",
        "3 passed in 0.12s",
        "$ pytest -q\nexit code 0",
    ],
)
def test_a_quote_is_known_in_the_forms_that_models_give_it(quote: str) -> None:
    assert Quotable(SHOWN).contains(quote)


@pytest.mark.parametrize(
    "quote",
    [
        "return 500",
        "}",
        "",
        "…",
        "a … b",
        "return 404 … if id not in notes",
        "The handler returns 404 when the note is missing.",
        'The "read" function does it.',
        'It says "return 404, gone" and `if id not in notes:`',
        "4 passed in 0.12s",
        "return 4 04",
    ],
)
def test_a_made_up_quote_is_seen(quote: str) -> None:
    assert not Quotable(SHOWN).contains(quote)


lines = st.text(st.characters(exclude_characters="…\\"), min_size=1, max_size=40)


@settings(deadline=None)
@given(st.lists(lines, min_size=1, max_size=8), st.data())
def test_every_run_of_lines_can_be_quoted_with_or_without_signs(
    texts: list[str], data: st.DataObject
) -> None:
    shown = Quotable("\n".join(f"+{text}" for text in texts))
    start = data.draw(st.integers(0, len(texts) - 1))
    end = data.draw(st.integers(start + 1, len(texts)))
    sign = data.draw(st.sampled_from(["", "+", "-", "   "]))
    quote = "\n".join(sign + text for text in texts[start:end])
    content = "".join(char for char in quote if char.isalnum())
    assert len(content) < 3 or "..." in quote or shown.contains(quote)
