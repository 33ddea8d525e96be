"""Whether independent tests ask for more than examples, whatever language they are in."""

from __future__ import annotations

from pathlib import Path

import pytest

from segue.proof.breadth import find_libraries, find_names, list_values, only_repeats

SEEN = 'Add `discount(amount, percent)`: discount(200, 10) is 180, discount(50, 0) 50; initials("Ada") "A".'
PYTHON = "import pytest\nfrom shop import discount\n\n\n"
REPEATS = {
    "test_a.py": PYTHON + 'def test_a():\n    """Tests 7 things."""\n'
    'assert discount(200, 10) == 180, "5 is what must come out here"\n',
    "test_b.py": PYTHON + '@pytest.mark.parametrize("amount, percent", [(200, 10), (50, 0)])\n'
    "def test_b(amount, percent):\n    assert discount(amount, percent) in (180, 50)\n",
    "a.test.js": 'const { initials } = require("../lib/names.js");\n'
    'test("one name", () => { assert.equal(initials("Ada"), "A"); });\n',
    "shop_test.go": 'package shop\n\nimport "testing"\n\nfunc TestA(t *testing.T) {\n'
    "\tif Discount(200, 10) != 180 {\n\t\tt.Fatal()\n\t}\n}\n",
}
ASKS_MORE = {
    "test_c.py": PYTHON + "def test_c():\n    assert discount(200, 25) == 150\n",
    "test_d.py": "from hypothesis import given, strategies as st\n"
    + PYTHON
    + "@given(st.integers())\ndef test_d(amount):\n    assert discount(amount, 0) == amount\n",
    "test_e.py": PYTHON
    + "def test_e():\n    for amount in range(50):\n        assert discount(amount, 0) == amount\n",
    "b.test.js": 'test("one name", () => { assert.equal(initials("Åse Öst"), "ÅÖ"); });\n',
    "test_f.py": "from names import initials\n\n\ndef test_f():\n    assert initials('') == ''\n",
    "unknown.xyz": "discount 200 10 180",
}


@pytest.mark.parametrize("path", [*REPEATS, *ASKS_MORE])
def test_tests_that_use_only_the_values_of_the_examples_are_seen(path: str) -> None:
    assert only_repeats({path: {**REPEATS, **ASKS_MORE}[path]}, SEEN) is (path in REPEATS)


def test_one_file_with_other_values_is_enough() -> None:
    assert only_repeats(REPEATS, SEEN)
    assert not only_repeats(REPEATS | ASKS_MORE, SEEN)


def test_values_are_what_a_test_compares() -> None:
    assert list_values("test_a.py", REPEATS["test_a.py"]) == {"200", "10", "180"}
    assert list_values("a.test.js", REPEATS["a.test.js"]) == {"Ada", "A"}
    assert find_names("Add `discount` to shop.py, as sum_up(entries) does.") == {"discount", "sum_up"}


def test_installed_libraries_are_found_beside_the_checks(tmp_path: Path) -> None:
    program = tmp_path / ".venv" / "bin" / "pytest"
    for path in (program, tmp_path / ".venv/lib/python3.11/site-packages/hypothesis/__init__.py"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o755)
    assert find_libraries(tmp_path, [(".venv/bin/pytest", "-q")]) == ("Hypothesis",)
    (tmp_path / "node_modules" / "fast-check").mkdir(parents=True)
    (tmp_path / "node_modules" / "fast-check" / "package.json").write_text("{}")
    assert find_libraries(tmp_path, [("no-such-program",)]) == ("fast-check",)
