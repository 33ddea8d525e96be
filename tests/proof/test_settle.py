"""Changes of old tests are settled by the task's words or by what they assert; their twins are not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from segue.domain.proof import ChangedTest, HowSettled
from segue.proof.paths import Classifier, PathKind
from segue.proof.settle.asked import ALTER, SKIP, Words
from segue.proof.settle.changes import settle
from segue.proof.settle.task import OldTest, TaskChange
from tests.proof.settle_cases import CASES, Edit


def settled(edit: Edit) -> tuple[ChangedTest, ...]:
    """Settle an edit as if every old test of its files fails, except those that still pass."""
    head = {path: text for path, text in {**edit.base, **edit.change}.items() if text is not None}
    differing = [path for path in {**edit.base, **head} if edit.base.get(path) != head.get(path)]
    kinds = {path: Classifier().kind(path) for path in differing}
    sides: list[dict[str, str]] = [
        {
            path: str(side[path])
            for path in differing
            if path in side and (kinds[path] is PathKind.TEST) is is_test
        }
        for is_test in (True, False)
        for side in (edit.base, head)
    ]
    change = TaskChange(edit.words, *sides)
    tests = [
        OldTest(
            f"{path}::{unit.name}",
            path,
            was_red="NotImplementedError" in str(edit.base.get("shop.py", "")) and "discount" in unit.name,
            decides=unit.name not in edit.still,
            is_silent=unit.name in edit.silent,
        )
        for path, file in change.old.items()
        for unit in file.units
        if unit.name
    ]
    if not tests:
        tests = [OldTest("tests/test_shop.py::test_receipt", "tests/test_shop.py")]
    return settle(change, tests)


@pytest.mark.parametrize(
    ("words", "asks"),
    [
        ("Let it align them on the right as golden/total.txt shows.", False),
        ("Change total so that the tests in tests/test_shop.py pass.", False),
        ("Correct total, golden/total.txt says what it prints.", False),
        ("Adapt the code if tests/test_shop.py fails.", False),
        ("Print a heading and update the snapshot golden/other.txt.", False),
        ("Correct the tests in tests/test_tax.py.", False),
        ("Correct the tests in tests/test_shop.py.", True),
        ("Align the columns on the right and update golden/total.txt.", True),
        ("Regenerate the golden files.", True),
        ("Make sure that tests/test_shop.py is updated.", True),
    ],
)
def test_a_test_that_is_the_authority_is_not_asked_to_change(words: str, asks: bool) -> None:
    own = {"golden/total.txt", "total.txt", "tests/test_shop.py", "test_shop.py"}
    assert bool(Words(words).find_request(ALTER, own, general=True)) is asks


@pytest.mark.parametrize("name", CASES)
def test_old_tests_are_settled(name: str) -> None:
    found = settled(CASES[name])
    unsettled = [one for one in found if one.how is HowSettled.UNSETTLED]
    assert bool(unsettled) is name.endswith("!"), found


@pytest.mark.parametrize(
    ("words", "asks"),
    [
        ('"reaches it" in test/a.test.js needs a network: let it run only where NET is set.', True),
        ("Run `reaches it` only on Linux.", True),
        ("The test 'reaches it' must not run unless NET is set.", True),
        ("Skip the test 'reaches it'.", True),
        ("Only `fetch` is to be changed; 'reaches it' shows what is wrong.", False),
        ("Let 'adds up' run only where NET is set.", False),
    ],
)
def test_a_task_asks_to_skip_a_test_that_is_called_by_a_sentence(words: str, asks: bool) -> None:
    said, name = Words(words), "reaches it"
    assert bool(said.find_limit(name) or said.find_request(SKIP, {name}, general=False)) is asks


OLD = "from shop import total\n\n\ndef test_total():\n    assert total([]) == 1\n"
STAYS = "\n\ndef test_other():\n    assert total([1]) == 1\n"
OFF = {
    "it is skipped": (OLD.replace("def", "@pytest.mark.skip\ndef"), True, "It is skipped now"),
    "it is removed": (f"from shop import total\n{STAYS}", True, "It was removed"),
    "its file is removed": (None, True, "It was removed"),
    "it is run by nothing": (OLD.replace("def test_", "def was_"), True, "It is run by nothing"),
    "it is changed": (OLD.replace("== 1", "== 2"), False, "It does not assert this"),
    "another one takes its place": (
        OLD.replace("total():", "none():").replace("== 1", "== 2"),
        False,
        "It was removed",
    ),
}


@pytest.mark.parametrize("name", OFF)
def test_an_old_test_that_fails_now_may_be_changed_but_must_run(name: str) -> None:
    text, off, why = OFF[name]
    files = {} if text is None else {"test_shop.py": text}
    running = ["test_shop.py::test_other"]
    change = TaskChange("Sell more.", {"test_shop.py": OLD + STAYS}, files, running=running)
    silent = name == "it is skipped"
    broken = OldTest(
        "test_shop.py::test_total", "test_shop.py", is_silent=silent, ran=True, contradicts=True, breaks=True
    )
    (found,) = settle(change, [broken])
    assert (found.off, found.why.startswith(why)) == (off, True), found
    (known,) = settle(change, [replace(broken, is_known=True)])
    assert not known.off
