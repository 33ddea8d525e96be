"""`segue check`: a person's own work gets the card of a task, and nothing of the repository is touched."""

from __future__ import annotations

import hashlib
import json
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from segue.reports.card.card import ProofCard
from tests.cli.place import DEADLINE, Place, until
from tests.proof.projects import DISCOVER, needs_sandbox

SHOP = "def total(prices):\n    return sum(prices)\n"
TESTS = """import unittest
from shop import total


class Test(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([1, 2]), 3)
"""
MEAN = SHOP + "\n\ndef mean(prices):\n    return total(prices) / len(prices)\n"
TEST_MEAN = """import unittest
from shop import mean


class Mean(unittest.TestCase):
    def test_mean(self):
        self.assertEqual(mean([1, 3]), 2)
"""
BASE = {"shop.py": SHOP, "test_shop.py": TESTS, ".gitignore": "__pycache__\nsecret.txt\n"}
WORK = {"shop.py": MEAN, "test_mean.py": TEST_MEAN}
PROVING = "test_mean.Mean.test_mean"


def write(place: Place, files: Mapping[str, str | None]) -> None:
    for name, text in files.items():
        path = place.repo / name
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def commit(place: Place, files: Mapping[str, str | None], subject: str = "Work") -> None:
    write(place, files)
    place.git("add", "--all")
    place.git("commit", "--quiet", "-m", subject)


def project(
    root: Path, work: Mapping[str, str | None] = WORK, base: Mapping[str, str] = BASE, more: str = ""
) -> Place:
    """A repository with a check, and work that is not committed."""
    place = Place.make(root)
    commit(place, base, "Begin")
    write(place, work)
    place.config(f"checks = [{json.dumps(DISCOVER)}]\n{more}")
    return place


def bytes_of(place: Place) -> dict[str, str]:
    """Everything in the work tree and the git folder but git's objects, which have no names there."""
    found = {}
    for path in sorted(place.repo.rglob("*")):
        name = str(path.relative_to(place.repo))
        if path.is_file() and not name.startswith(".git/objects/"):
            facts = f"{path.lstat().st_mtime_ns} {path.lstat().st_mode} ".encode()
            found[name] = hashlib.sha256(facts + path.read_bytes()).hexdigest()
    return found


@needs_sandbox
def test_own_work_gets_the_card_of_a_task_and_stays_as_it_is(tmp_path: Path) -> None:
    place = project(tmp_path, {**WORK, "secret.txt": "ignored"})
    place.git("add", "shop.py")  # staged, and changed again since
    write(place, {"shop.py": MEAN.replace("/ len", "/  len")})
    before = bytes_of(place)
    done = place.segue("check", "--json")
    card = json.loads(done.stdout)["data"]
    assert bytes_of(place) == before
    assert set(ProofCard.__struct_fields__) <= set(card)
    assert (card["level"], card["passed"], card["state"]) == ("tested", True, "done")
    assert {"by its own tests", "sealed"} <= set(card["marks"])
    assert card["files"] == ["shop.py", "test_mean.py"]
    assert card["base"] == place.git("rev-parse", "HEAD").strip()
    [check] = card["checks"]
    assert check["proved"] == [PROVING]
    assert not place.database.exists(), "no run was recorded"
    assert not list((place.database.parent / "scratch").iterdir()), "nothing is left"


def test_nothing_to_check(tmp_path: Path) -> None:
    place = project(tmp_path, {})
    assert "There is nothing to check: the work tree is as commit" in place.segue("check").stdout
    shown = place.json("check", "--require", "tested", "--since", "HEAD")
    assert (shown["state"], shown["level"], shown["passed"]) == ("unchanged", None, True)
    assert shown["files"] == shown["checks"] == shown["missing"] == []


@needs_sandbox
def test_work_that_fails_is_refused_with_what_the_test_says(tmp_path: Path) -> None:
    place = project(tmp_path, {"shop.py": "def total(prices):\n    return 7\n"}, more="proof.mutants = 0\n")
    done = place.segue("check", code=1)
    assert "[failed]" in done.stdout
    assert "no longer pass: test_shop.Test.test_total" in done.stdout
    assert "AssertionError: 7 != 3" in done.stdout
    assert "your work" in done.stderr, "it says how far it is"


def test_checks_of_an_untrusted_file_are_not_run(tmp_path: Path) -> None:
    place = project(tmp_path)
    touched = place.root / "touched"
    (place.root / "segue.toml").unlink()
    write(place, {"segue.toml": f'checks = ["touch {touched}"]\n'})
    del place.env["SEGUE_TRUST"]
    assert "segue trust" in place.segue("check", code=2).stderr
    assert "segue trust" in place.segue("check", "--", *DISCOVER, code=2).stderr
    assert not touched.exists()


@needs_sandbox
def test_a_branch_is_checked_from_where_it_parted(tmp_path: Path) -> None:
    place = project(tmp_path, {})
    place.git("checkout", "--quiet", "-b", "feature")
    commit(place, {"shop.py": MEAN})
    place.git("checkout", "--quiet", "main")
    commit(place, {"other.py": "x = 1\n"}, "Somebody else's")
    place.git("checkout", "--quiet", "feature")
    low = place.segue("check", "--since", "main", "--require", "tested", code=3)
    assert "is `changed`, but `tested` is required" in low.stderr
    write(place, {"test_mean.py": TEST_MEAN})  # not committed
    place.git("checkout", "--quiet", "--detach")
    before = bytes_of(place)
    shown = place.json("check", "--since", "main", "--require", "tested")
    assert bytes_of(place) == before
    assert (shown["level"], shown["files"]) == ("tested", ["shop.py", "test_mean.py"])


@needs_sandbox
def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    slow = TESTS.replace("self.assertEqual(", "import time; time.sleep(300)\n        self.assertEqual(", 1)
    place = project(tmp_path, WORK, {**BASE, "test_shop.py": slow})
    before = bytes_of(place)
    process = place.start("check")
    scratch = place.database.parent / "scratch"
    until(lambda: list(scratch.glob("check-*/runs/*")), "the check")
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE) == 130
    assert not list(scratch.iterdir())
    assert bytes_of(place) == before


def test_a_strangers_code_gets_neither_keys_nor_files_nor_the_network(tmp_path: Path) -> None:
    """What `gh pr checkout` leaves in the work tree is tried in the sandbox that checks of a run have."""
    place = Place.make(tmp_path)
    token = Path(place.env["HOME"]) / ".ssh" / "id_ed25519"
    token.parent.mkdir(parents=True, exist_ok=True)
    token.write_text("the key")
    listening = socket.create_server(("127.0.0.1", 0))
    address = listening.getsockname()
    (place.repo / "check.py").write_text(
        "import os, pathlib, socket\n"
        f"print('FILE', pathlib.Path({str(token)!r}).exists() and pathlib.Path({str(token)!r}).read_text())\n"
        "print('VARIABLE', os.environ.get('ANTHROPIC_API_KEY'))\n"
        f"try:\n    socket.create_connection({address!r}, 5)\n    print('NETWORK')\n"
        "except OSError:\n    print('ALONE')\n"
        f"pathlib.Path({str(place.root / 'outside')!r}).write_text('x')\n"
        "raise SystemExit(1)\n"
    )
    place.config(f'checks = [["{sys.executable}", "check.py"]]\n')
    place.use_sandbox()
    with listening:
        done = place.segue("check", ANTHROPIC_API_KEY="sk-the-key-of-mine", code=1)
    if "weakly sealed" in done.stdout:
        pytest.skip("there is no sandbox on this machine")
    assert "the key" not in done.stdout
    assert "VARIABLE None" in done.stdout
    assert "ALONE" in done.stdout
    assert not (place.root / "outside").exists()
