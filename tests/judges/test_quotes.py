"""Quotes of a judge that count: what the work added or kept, or the output of checks, not a comment alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.judges.quotes import COMMENT, MADE_UP, REMOVED, Quotable

SHOWN = """\
diff --git a/app.py b/app.py
--- a/app.py
+++ b/app.py
@@ -1,2 +1,6 @@
 def read(id):
-    return find(id)
+    if id not in notes:
+        return 404, "no such note"  # the response carries the header X
+    # the body is signed with HMAC
+    return 200
+MESSAGE = "it’s \\n gone"
diff --git a/list.md b/list.md
@@ -0,0 +1,2 @@
+- first item
+- second item
diff --git a/old.py b/old.py
@@ -1 +1,2 @@
 VALUE = 1
+# Copyright 2026 A. Author
"""
CHECKS = "$ pytest -q\nexit code 0\n3 passed in 0.12s\n"
SEEN = Quotable(SHOWN, CHECKS)


@pytest.mark.parametrize(
    "quote",
    [
        "return 404",
        "+        return 404",
        '+    if id not in notes:\n+        return 404, "no such note"',
        "if id not in notes:\\n+        return 404",
        '`return 404, "no such note"`',
        "```python\nif id not in notes:\n```",
        'return 404, "no such note"  # the response carries the header X',
        '"it\'s \\n gone"',
        "- first item\n- second item",
        "def read(id):",
        "3 passed in 0.12s",
        "# Copyright 2026 A. Author",
    ],
)
def test_a_line_that_was_added_or_kept_counts_in_the_forms_that_models_give_it(quote: str) -> None:
    assert SEEN.refuse(quote) == ""


@pytest.mark.parametrize(
    ("quote", "why"),
    [
        ("return 500", MADE_UP),
        ("}", MADE_UP),
        ("", MADE_UP),
        ("return", MADE_UP),
        ("The handler returns 404 when the note is missing.", MADE_UP),
        ("return 404 … if id not in notes", MADE_UP),
        ("4 passed in 0.12s", MADE_UP),
        ("-    return find(id)", REMOVED),
        ("# the body is signed with HMAC", COMMENT),
        ("the body is signed with HMAC", COMMENT),
        ("# the response carries the header X", COMMENT),
    ],
)
def test_what_is_invented_removed_or_only_a_comment_does_not_count(quote: str, why: str) -> None:
    assert SEEN.refuse(quote) == why


def test_a_question_about_a_change_may_be_answered_with_what_it_removed() -> None:
    assert SEEN.refuse("-    return find(id)", about_changes=True) == ""


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
    assert len(content) < 8 or "```" in quote or shown.refuse(quote) == ""
