"""Independent tests are kept beside the work, under names that nobody else uses."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace

from segue.domain.proof import CheckResult, CheckState
from segue.proof.execute import SealOptions
from segue.proof.independent import DetachedTests, independent_path, is_in, without_lines
from segue.proof.interface import describe_interface
from segue.system.git.repository import Repository
from tests.proof.projects import DISCOVER, Checkout


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("tests/test_a.py", "tests/test_independent_T1_2_a.py"),
        ("a_test.py", "independent_T1_2_a_test.py"),
        ("pkg/a_test.go", "pkg/independent_T1_2_a_test.go"),
        ("src/a.test.tsx", "src/independent_T1_2_a.test.tsx"),
        ("src/a.spec.js", "src/independent_T1_2_a.spec.js"),
        ("tests/helpers.py", "tests/helpers.py"),
        ("tests/data/a.json", "tests/data/a.json"),
    ],
)
def test_test_files_get_names_of_their_own_and_helpers_keep_theirs(path: str, kept: str) -> None:
    assert independent_path(path, "T1.2") == kept


def test_ids_are_found_in_their_files() -> None:
    files = ("tests/test_a.py",)
    assert is_in("tests/test_a.py::test_x", files)
    assert is_in("tests.test_a.Case.test_x", files)
    assert is_in("tests/test_a.py", files)
    assert not is_in("tests/test_ab.py::test_x", files)


def test_only_new_test_files_are_kept_and_the_work_tree_stays_as_it_is(tmp_path: Path) -> None:
    place = Checkout(tmp_path, {"calc.py": "x = 1\n", "test_old.py": "def test_old(): pass\n"})
    place.write({"work.txt": "under way\n"})

    async def run() -> tuple[str, ...]:
        apart = DetachedTests(await Repository.open(place.root), tmp_path / "apart", tmp_path / "exams")
        folder = await apart.open(place.base, "3-1")
        names = sorted(path.name for path in folder.iterdir())
        assert names == [".git", "calc.py", "test_old.py"]
        (folder / "calc.py").write_text("x = 2\n")
        (folder / "test_old.py").write_text("")
        (folder / "conftest.py").write_text("")
        (folder / "tests" / "__pycache__").mkdir(parents=True)
        (folder / "tests" / "__pycache__" / "test_a.py").write_text("")
        (folder / "tests" / "test_a.py").write_text("def test_a(): pass\n")
        (folder / "tests" / "test_link.py").symlink_to("/etc/passwd")
        assert await apart.open(place.base, "3-1") == folder
        kept = await apart.keep("3-1", "3", place.base)
        assert kept is not None
        tree = await apart.lay_over(place.base, [kept.commit])
        objects = replace((await Repository.open(place.root)).objects(), aside=tmp_path / "exams")
        listed = (await objects.git("ls-tree", "-r", "--name-only", tree)).out.decode().split()
        assert listed == ["calc.py", "test_old.py", "tests/test_independent_3_a.py"]
        assert await objects.read(tree, "calc.py") == "x = 1\n"
        assert "+def test_a(): pass" in await apart.show(kept.commit)
        assert await apart.has(kept.commit)
        apart.close("3-1")
        assert not folder.exists()
        return kept.files

    before = place.git("cat-file", "--batch-all-objects", "--batch-check")
    assert asyncio.run(run()) == ("tests/test_independent_3_a.py",)
    assert place.git("cat-file", "--batch-all-objects", "--batch-check") == before
    assert place.git("status", "--porcelain") == "?? work.txt"
    assert not list((place.root / ".git").glob("segue-index*"))


def test_interface_lists_public_names_of_the_files_that_are_named(tmp_path: Path) -> None:
    (tmp_path / "calc.py").write_text(
        "LIMIT = 3\n_x = 1\ndef add(a: int, b=2) -> int: ...\ndef _hide(): ...\n"
        "class Sum(list):\n    def total(self): ...\n    def _part(self): ...\n"
    )
    (tmp_path / "other.py").write_text("def other(): ...\n")
    assert describe_interface(tmp_path, "Change `calc.py`, ../secret.py and missing.py.").splitlines() == [
        "calc.py:",
        "  LIMIT",
        "  def add(a: int, b=2) -> int",
        "  class Sum(list)",
        "    def total(self)",
    ]


@pytest.mark.parametrize(
    ("output", "kept"),
    [
        (">       assert double(5) == 10\nE       assert 4 == 10", "E       assert 4 == 10"),
        ("  File x, line 5\n    assert double(5) == 10\nAssertionError", "  File x, line 5\nAssertionError"),
        ("  3 |   assert double(5) == 10\n+ 10\n- 4", "+ 10\n- 4"),
        ("else:\nFAILED", "else:\nFAILED"),
    ],
)
def test_what_a_runner_says_has_no_line_of_the_tests(output: str, kept: str) -> None:
    source = "+++ b/test_x.py\n@@ -0,0 +1,3 @@\n+def test_other():\n+    assert double(5) == 10\n+    else:\n"
    assert without_lines(output, source) == kept


@pytest.mark.thorough
@pytest.mark.quick("copy")
@pytest.mark.parametrize("means", ["auto", "copy"])
def test_checks_run_tests_that_are_not_in_the_work_tree(
    tmp_path: Path, means: Literal["auto", "copy"]
) -> None:
    options = SealOptions(timeout=300, means=means, exams=tmp_path / "exams")
    place = Checkout(tmp_path, {"readme.md": "x\n"}, options)
    head = place.commit({"calc.py": "def one():\n    return 1\n"})

    async def run() -> CheckResult:
        apart = DetachedTests(await Repository.open(place.root), tmp_path / "apart", tmp_path / "exams")
        folder = await apart.open(place.base, "1")
        text = (
            "import unittest\n\nfrom calc import one\n\n\nclass Test(unittest.TestCase):\n"
            "    def test_one(self):\n        self.assertEqual(one(), 1)\n"
        )
        (folder / "test_one.py").write_text(text)
        kept = await apart.keep("1", "1", place.base)
        assert kept is not None
        return await place.sealer().check(DISCOVER, place.base, await apart.lay_over(head, [kept.commit]))

    result = asyncio.run(run())
    assert (result.state, result.proved) == (CheckState.PASSED, ("test_independent_1_one.Test.test_one",)), (
        result
    )
    assert place.git("status", "--porcelain") == ""
