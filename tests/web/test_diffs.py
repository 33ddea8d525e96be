"""What a task shows first: the lines that say why a check failed, and the diff with numbers and colours."""

from __future__ import annotations

import pytest

from segue.web.diffs import split_by_file
from segue.web.failure import find_failure
from segue.web.syntax import colour_code

DIFF = """diff --git a/shop.py b/shop.py
--- a/shop.py
+++ b/shop.py
@@ -10,4 +10,5 @@ class Cart:
 def total():
-    old = 1
+    new = 1
+    more = 2
     return new
\\ No newline at end of file
diff --git a/tests/test_shop.py b/tests/test_shop.py
new file mode 100644
--- /dev/null
+++ b/tests/test_shop.py
@@ -0,0 +1 @@
+assert True
"""

PYTEST = """collected 2 items
________ test_total ________

    def test_total():
>       assert total() == 3
E       assert 2 == 3
E        +  where 2 = total()

tests/test_shop.py:4: AssertionError
=== short test summary info ===
FAILED tests/test_shop.py::test_total
"""
WARNS = "warning: deprecated\n" * 30


@pytest.mark.parametrize(
    ("output", "telling"),
    [
        (PYTEST, "E       assert 2 == 3"),
        (f"{WARNS}--- FAIL: TestTotal (0.00s)\n    shop_test.go:9: got 2, want 3\nFAIL\n", "got 2, want 3"),
        (f"{WARNS}  ● adds\n\n    Expected: 3\n    Received: 2\n", "Expected: 3"),
        (
            f"{WARNS}thread 't' panicked at src/lib.rs:9:5:\nassertion `left == right` failed\n",
            "left == right",
        ),
        (f"{WARNS}not ok 1 - adds\n  ---\n  expected: 3\n  actual: 2\n", "expected: 3"),
        (
            f"{WARNS}Traceback (most recent call last):\nValueError: no such code\n",
            "ValueError: no such code",
        ),
        (f"{WARNS}src/shop.ts(3,5): error TS2322: Type 'x' is not assignable\n", "TS2322"),
        (f"{WARNS}make: *** No rule to make target 'test'.  Stop.\n", "No rule to make target"),
        (f"{WARNS}shop.py:3:1: F401 `os` imported but unused\nFound 1 error.\n", "F401"),
        (f"{WARNS}java.lang.AssertionError: expected:<3> but was:<2>\n\tat ShopTest.java\n", "expected:<3>"),
        ("FAIL: test_total (t.T)\nTraceback:\n  x\nAssertionError: 2 != 3\n\nRan 1 test\n", "2 != 3"),
        ("", ""),
    ],
)
def test_the_lines_that_say_why_are_found(output: str, telling: str) -> None:
    found = find_failure(output)
    assert telling in found
    assert len(found.splitlines()) <= 24
    assert "short test summary" not in found


def test_a_diff_has_tests_first_and_the_numbers_of_both_sides() -> None:
    first, second = split_by_file(DIFF)
    assert (first["path"], first["test"], first["change"]) == ("tests/test_shop.py", True, "new")
    assert (second["path"], second["test"], second["change"]) == ("shop.py", False, "changed")
    assert (second["added"], second["removed"]) == (2, 1)
    numbers = [(line["kind"], line["old"], line["new"]) for line in second["lines"] if "old" in line]
    assert numbers == [
        ("hunk", None, None),
        ("", 10, 10),
        ("del", 11, None),
        ("add", None, 11),
        ("add", None, 12),
        ("", 12, 13),
        ("", None, None),
    ]


@pytest.mark.parametrize(
    ("line", "path", "marked"),
    [
        ("def f(x): return 'a'  # b", "x.py", '<i class="c-word">def</i> <i class="c-name">f</i>(x)'),
        ("a = '#no' # <b>", "x.py", '<i class="c-note"># &lt;b&gt;</i>'),
        ('const a = "<script>" // x', "x.ts", '<i class="c-text">&#34;&lt;script&gt;&#34;</i>'),
        ("if a < 1", "notes.txt", "if a &lt; 1"),
    ],
)
def test_code_is_coloured_and_stays_text(line: str, path: str, marked: str) -> None:
    assert marked in colour_code(line, path)
    assert "<script>" not in colour_code(line, path)
