"""What becomes of old tests whose old version fails now: pure functions over texts."""

from __future__ import annotations

import pytest

from segue.domain.proof import ChangedTest, HowSettled
from segue.proof.changed_tests import OldTest, TaskTexts, review

CODE = "def half(n):\n    return n / 2\n"
TEST = "from calc import half\n\n\ndef test_half():\n    assert half(4) == 2\n"
OTHER = "from calc import half\n\n\ndef test_half():\n    assert half(4) == 7\n"
MECHANICAL, ASKED, UNSETTLED = HowSettled.MECHANICAL, HowSettled.ASKED, HowSettled.UNSETTLED


def look(
    after: dict[str, str],
    code: str = CODE,
    *,
    words: str = "Improve it.",
    now: str = "passed",
    passing: str = "",
    red: bool = False,
) -> ChangedTest:
    """Return what became of `test_half` in `test_calc.py`."""
    before = {"test_calc.py": TEST}
    task = TaskTexts(
        words,
        {**dict.fromkeys(after, ""), **before},
        {**before, **after},
        {"calc.py": (CODE, code)},
        [passing],
    )
    (found,) = review([OldTest("test_calc.py::test_half", "test_calc.py", now, red)], task)
    return found


CASES = {
    "changed unasked": (look({"test_calc.py": OTHER}), UNSETTLED, False),
    "skipped": (look({"test_calc.py": f"import pytest\n{TEST}"}, now="skipped"), UNSETTLED, True),
    "removed": (look({"test_calc.py": ""}, now="gone"), UNSETTLED, True),
    "named by the task": (look({"test_calc.py": OTHER}, words="Let test_half want 7."), ASKED, False),
    "its file is to be changed": (
        look({"test_calc.py": OTHER}, words="Change the numbers in test_calc.py."),
        ASKED,
        False,
    ),
    "its file is only mentioned": (
        look({"test_calc.py": OTHER}, words="See test_calc.py."),
        UNSETTLED,
        False,
    ),
    "a red test that the task names": (
        look({"test_calc.py": OTHER}, words="Make test_half pass.", red=True),
        UNSETTLED,
        False,
    ),
    "what it tested is gone": (
        look({"test_calc.py": ""}, "", words="Nobody needs half.", now="gone"),
        ASKED,
        False,
    ),
    "what it tested has another name": (
        look({"test_calc.py": ""}, CODE.replace("half", "halve"), words="Rename half to halve.", now="gone"),
        UNSETTLED,
        True,
    ),
    "moved": (
        look(
            {"test_calc.py": "", "test_more.py": TEST},
            "def half(m):\n    return m / 2\n",
            now="gone",
            passing="test_more.py::test_half",
        ),
        MECHANICAL,
        False,
    ),
    "renamed with the product": (
        look(
            {"test_calc.py": TEST.replace("half(4", "halve(4").replace("import half", "import halve")},
            CODE.replace("half", "halve"),
        ),
        MECHANICAL,
        False,
    ),
    "renamed, and another value": (
        look({"test_calc.py": OTHER.replace("half(4", "halve(4")}, CODE.replace("half", "halve")),
        UNSETTLED,
        False,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_became_of_an_old_test(name: str) -> None:
    found, how, off = CASES[name]
    assert (found.how, found.off) == (how, off), found


def test_the_line_and_what_it_said_are_named() -> None:
    found = look({"test_calc.py": OTHER})
    assert (found.path, found.line) == ("test_calc.py", 5)
    assert "assert half(4) == 2" in found.why
