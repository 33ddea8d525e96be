"""`segue check`: a person's own work gets the card of a task, and nothing of the repository is touched."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from segue.proof.setup import clear_kept
from segue.reports.card.card import ProofCard
from tests.cli.place import DEADLINE, Place, until
from tests.isolation.means import NAMED_IN_FILES
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


@pytest.mark.thorough
@needs_sandbox
def test_work_that_fails_is_refused_with_what_the_test_says(tmp_path: Path) -> None:
    place = project(tmp_path, {"shop.py": "def total(prices):\n    return 7\n"}, more="proof.mutants = 0\n")
    done = place.segue("check", code=1)
    assert "[failed]" in done.stdout
    assert "no longer pass: test_shop.Test.test_total" in done.stdout
    assert "AssertionError: 7 != 3" in done.stdout
    assert "your work" in done.stderr, "it says how far it is"


def test_a_check_that_is_not_there_judges_nothing(tmp_path: Path) -> None:
    place = project(tmp_path)
    done = place.segue("check", "--", "./no-such-script.sh", code=2)
    assert "There is no program ./no-such-script.sh" in " ".join(done.stdout.split())


def test_a_ref_that_has_no_commit_in_common(tmp_path: Path) -> None:
    place = project(tmp_path)
    place.git("branch", "other", place.git("commit-tree", "-m", "Alone", "HEAD^{tree}").strip())
    assert "fetch --unshallow" in place.segue("check", "--since", "other", code=2).stderr


def test_a_merge_that_is_not_resolved(tmp_path: Path) -> None:
    place = project(tmp_path, {})
    place.git("checkout", "--quiet", "-b", "other")
    commit(place, {"shop.py": "one = 1\n"})
    place.git("checkout", "--quiet", "main")
    commit(place, {"shop.py": "two = 2\n"})
    with pytest.raises(subprocess.CalledProcessError):
        place.git("merge", "other")
    assert "A merge is not resolved: shop.py" in place.segue("check", code=2).stderr


def test_checks_of_an_untrusted_file_are_not_run(tmp_path: Path) -> None:
    place = project(tmp_path)
    touched = place.root / "touched"
    (place.root / "segue.toml").unlink()
    write(place, {"segue.toml": f'checks = ["touch {touched}"]\n'})
    del place.env["SEGUE_TRUST"]
    assert "segue trust" in place.segue("check", code=2).stderr
    assert "segue trust" in place.segue("check", "--", *DISCOVER, code=2).stderr
    assert not touched.exists()


@pytest.mark.thorough
@needs_sandbox
@NAMED_IN_FILES
def test_a_check_that_is_named_or_found_needs_no_settings(tmp_path: Path) -> None:
    place = project(tmp_path)
    (place.root / "segue.toml").unlink()
    named = json.loads(place.segue("check", "--json", "--", *DISCOVER).stdout)["data"]
    assert (named["level"], named["checks"][0]["command"]) == ("tested", " ".join(DISCOVER))
    commit(place, {"Makefile": f"test:\n\t{' '.join(DISCOVER)}\n"}, "A target")
    write(
        place,
        {"shop.py": MEAN.replace("mean", "middle"), "test_mean.py": TEST_MEAN.replace("mean(", "middle(")},
    )
    write(
        place,
        {"test_mean.py": (place.repo / "test_mean.py").read_text().replace("import mean", "import middle")},
    )
    found = place.segue("check")
    assert "this one was found: make test (the target `test` of Makefile)" in found.stderr
    assert "PASS (" in found.stdout


@pytest.mark.thorough
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


@pytest.mark.thorough
@needs_sandbox
def test_survivors_and_changed_tests_are_on_the_card(tmp_path: Path) -> None:
    free = SHOP.replace("sum(prices)", "sum(prices) if len(prices) < 9 else 0")
    changed = TESTS.replace("[1, 2]), 3", "[1] * 9), 0")
    place = project(tmp_path, {"shop.py": free, "test_shop.py": changed})
    shown = place.json("check")
    assert shown["level"] == "checked"
    assert "tests changed" in shown["marks"]
    assert any(one.startswith("test_shop.py:") for one in shown["look_at"])
    assert place.json("check", "--about", "Make the `total` of nine prices 0.")["level"] != "changed"


@pytest.mark.thorough
@needs_sandbox
@pytest.mark.parametrize(
    "work", [{"README.md": "Words.\n"}, {"shop.py": SHOP + "# A comment.\n"}], ids=["documents", "comments"]
)
def test_what_no_test_can_tell_is_not_stopped(tmp_path: Path, work: dict[str, str | None]) -> None:
    place = project(tmp_path, work)
    done = place.segue("check", "--require", "tested")
    assert "[changed, nothing to test]" in done.stdout


@pytest.mark.thorough
@needs_sandbox
def test_what_was_red_before_is_not_this_works_fault(tmp_path: Path) -> None:
    red = TESTS + "\n    def test_red(self):\n        self.assertEqual(total([]), 1)\n"
    place = project(tmp_path, WORK, {**BASE, "test_shop.py": red})
    done = place.segue("check")
    assert "1 of 2 tests fails already: test_shop.Test.test_red" in done.stderr
    assert "failed before too: test_shop.Test.test_red" in done.stdout


@pytest.mark.thorough
@needs_sandbox
def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    place = project(tmp_path, {})
    for path in (place.repo / ".git").glob("refs/heads/*"):
        path.unlink()
    (place.repo / ".git" / "index").unlink()
    shown = place.json("check")
    assert (shown["passed"], shown["base"]) == (True, "")
    assert "shop.py" in shown["files"]
    assert "no commit here yet" in place.segue("check", "--since", "HEAD", code=2).stderr


@pytest.mark.thorough
@needs_sandbox
def test_repositories_inside_links_and_odd_names_do_not_matter(tmp_path: Path) -> None:
    place = project(tmp_path, {**WORK, "sub dir/ñ.txt": "x"})
    (place.repo / "link").symlink_to("/etc/hostname")
    place.git("init", "--quiet", "inner")
    before = bytes_of(place)
    done = place.segue("check", "--repo", str(place.repo / "sub dir"))
    assert "Left out: inner/ (a repository of its own)" in done.stderr
    assert "PASS (tested" in done.stdout
    assert bytes_of(place) == before


@pytest.mark.thorough
@needs_sandbox
def test_as_a_hook_before_a_push(tmp_path: Path) -> None:
    place = project(tmp_path, {})
    remote = place.root / "remote.git"
    place.git("init", "--quiet", "--bare", str(remote))
    place.git("remote", "add", "origin", str(remote))
    place.git("push", "--quiet", "origin", "main")
    hook = place.repo / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        f"#!/bin/sh\nexec {sys.executable} -m segue check --since origin/main --require checked\n"
    )
    hook.chmod(0o755)
    commit(place, {"shop.py": "def total(prices):\n    return 7\n"})
    refused = push(place)
    assert refused.returncode != 0
    assert "no longer pass" in refused.stdout + refused.stderr
    commit(place, WORK)
    assert push(place).returncode == 0, "what is right is pushed"


def push(place: Place) -> subprocess.CompletedProcess[str]:
    words = ["git", "push", "origin", "main"]
    return subprocess.run(words, cwd=place.repo, env=place.env, capture_output=True, text=True, check=False)


@pytest.mark.thorough
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


@pytest.mark.thorough
@needs_sandbox
def test_what_a_killed_check_leaves_is_cleared_by_the_next_one(tmp_path: Path) -> None:
    slow = TESTS.replace("self.assertEqual(", "import time; time.sleep(300)\n        self.assertEqual(", 1)
    place = project(tmp_path, WORK, {**BASE, "test_shop.py": slow})
    process = place.start("check")
    scratch = place.database.parent / "scratch"
    until(lambda: list(scratch.glob("check-*/runs/*")), "the check")
    process.kill()
    process.wait(DEADLINE)
    assert list(scratch.iterdir())
    place.git("stash", "--quiet", "--include-untracked")
    place.segue("check")
    assert not list(scratch.iterdir())


@pytest.mark.thorough
def test_a_check_that_takes_too_long_is_said_once(tmp_path: Path) -> None:
    slow = TESTS.replace("self.assertEqual(", "import time; time.sleep(300)\n        self.assertEqual(", 1)
    place = project(tmp_path, WORK, {**BASE, "test_shop.py": slow}, "check_timeout = 2\n")
    assert "Raise check_timeout" in place.segue("check", code=2).stderr


@pytest.mark.thorough
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


@pytest.mark.thorough
@needs_sandbox
def test_what_check_setup_made_is_used_again_until_its_inputs_change(tmp_path: Path) -> None:
    base = {
        **BASE,
        "versions.txt": "1\n",
        "install.sh": "cat versions.txt > made.txt\n",
        "test_made.py": (
            "import pathlib, unittest\n\n\nclass Made(unittest.TestCase):\n    def test_made(self):\n"
            "        self.assertTrue(pathlib.Path('made.txt').read_text())\n"
        ),
    }
    place = project(tmp_path, base=base, more='check_setup = ["sh install.sh"]\nproof.mutants = 0\n')

    def made() -> dict[str, float]:
        """The environments, and when each was used last."""
        kept = (place.database.parent / "environments").glob("*/setup/*/*/installed.json")
        return {record.parent.name: record.stat().st_mtime for record in kept}

    assert place.json("check")["passed"]
    first = made()
    assert first
    assert place.json("check")["passed"]
    assert made().keys() == first.keys()
    assert made() != first, "they were used"
    write(place, {"versions.txt": "2\n"})
    place.segue("check", code=None)
    assert first.keys() < made().keys()


def test_environments_that_nobody_uses_are_deleted(tmp_path: Path) -> None:
    now = time.time()
    ages = {"new": 60.0, "day": 86_400.0, "old": 8 * 86_400.0, "busy": 30.0, "two": 7200.0, "three": 9000.0}
    for name, age in ages.items():
        record = tmp_path / "0" / "setup" / "1" / name / "installed.json"
        record.parent.mkdir(parents=True)
        record.write_text("{}")
        os.utime(record, (now - age, now - age))
    clear_kept(tmp_path)
    left = {record.parent.name for record in tmp_path.rglob("installed.json")}
    assert left == {"new", "busy", "two", "three"}, "of many, the ones that were used last"
