"""An instance is run again from its folder alone: base, tests, patch with binary files, commands."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from segue.parts.lab.dataset.instances import split_tests
from segue.parts.lab.dataset.verify import VerifiedInstance, pack_base, verify_row
from segue.system.git.repository import Repository
from segue.system.isolation.isolate import Isolation

TEST = """
import unittest
from pathlib import Path

class Picture(unittest.TestCase):
    def test_it_is_there(self):
        self.assertEqual(len(Path("logo.bin").read_bytes()), 256)
"""
OLD = "import unittest\n\nclass Old(unittest.TestCase):\n    def test_old(self):\n        pass\n"
WANTED, KEPT = "tests.test_picture.Picture.test_it_is_there", "tests.test_old.Old.test_old"
COMMAND = "python -m unittest discover -t . -s tests"


def git(repo: Path, *args: str) -> str:
    names = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *names, *args], cwd=repo, check=True, capture_output=True, text=True)
    return done.stdout


def commit(repo: Path, files: dict[str, bytes]) -> str:
    for name, data in files.items():
        (repo / name).parent.mkdir(exist_ok=True)
        (repo / name).write_bytes(data)
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "x")
    return git(repo, "rev-parse", "HEAD").strip()


@pytest.fixture
def instance(tmp_path: Path) -> tuple[dict[str, Any], Path]:
    """A row, and the folder with its base; the repository that it comes from is gone."""
    repo, folder = tmp_path / "repo", tmp_path / "folder"
    repo.mkdir()
    git(repo, "init", "-q")
    old = {"tests/__init__.py": b"", "tests/test_old.py": OLD.encode(), "key.txt": b"hunter2"}
    base = commit(repo, old)
    head = commit(repo, {"tests/test_picture.py": TEST.encode(), "logo.bin": bytes(range(256))})
    patch, tests = split_tests(git(repo, "diff", "--binary", "--full-index", base, head))
    assert "GIT binary patch" in patch

    async def pack() -> None:
        objects = (await Repository.open(repo)).objects()
        await pack_base(
            objects, base, folder / "bases" / "b.tar.gz", lambda _, text: text.replace("hunter2", "***")
        )

    asyncio.run(pack())
    repo.rename(tmp_path / "gone")
    row = {"instance_id": "r__1", "base_archive": "bases/b.tar.gz", "patch": patch, "test_patch": tests}
    lists = {
        "FAIL_TO_PASS": json.dumps([WANTED]),
        "PASS_TO_PASS": "[]",
        "test_commands": json.dumps([COMMAND]),
    }
    return {**row, **lists}, folder


def verify(row: dict[str, Any], folder: Path, *, learn: bool = False) -> VerifiedInstance:
    return asyncio.run(verify_row(row, folder, Isolation(), 120, learn=learn))


@pytest.mark.thorough
def test_an_instance_with_a_binary_file_holds_and_what_passes_is_learnt(
    instance: tuple[dict[str, Any], Path],
) -> None:
    found = verify(*instance, learn=True)
    assert (found.problem, found.pass_to_pass) == ("", (KEPT,))


@pytest.mark.quick("without its patch")
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param({"patch": ""}, "do not pass with it", id="without its patch"),
        pytest.param({"FAIL_TO_PASS": json.dumps([KEPT])}, "pass without the patch", id="proves nothing"),
        pytest.param({"PASS_TO_PASS": '["gone"]'}, "of PASS_TO_PASS do not pass", id="a test that is gone"),
        pytest.param({"FAIL_TO_PASS": "[]"}, "is empty", id="nothing to prove"),
    ],
)
def test_one_that_does_not_hold_says_why(
    instance: tuple[dict[str, Any], Path], change: dict[str, str], problem: str
) -> None:
    row, folder = instance
    assert problem in verify({**row, **change}, folder).problem


def test_what_strangers_write_leads_nowhere(instance: tuple[dict[str, Any], Path]) -> None:
    row, folder = instance
    (folder / "other.tar.gz").write_bytes((folder / "bases" / "b.tar.gz").read_bytes())
    assert "not in bases/" in verify({**row, "base_archive": "bases/../other.tar.gz"}, folder).problem
    assert "does not apply" in verify({**row, "patch": "diff --git a/x b/x\nnonsense"}, folder).problem
