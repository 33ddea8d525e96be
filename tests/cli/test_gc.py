"""`segue gc` removes what ended runs have left, and nothing that somebody could still want."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.place import Place, until
from tests.cli.test_worktree import UNFINISHED, WORK, at_work, run, tree, worktrees

OLD = time.time() - 40 * 86400


def collected(place: Place, *args: str) -> dict[str, Any]:
    data: dict[str, Any] = place.json("gc", *args)
    return data


def kinds(data: dict[str, Any], which: str = "removed") -> list[str]:
    return sorted(found["kind"] for found in data[which])


def folder_of(place: Place) -> Path:
    return place.database.parent / "runs" / place.last_run()


@pytest.fixture
def kept(place: Place) -> Place:
    """A run that is done, with a work tree that holds something uncommitted."""
    place.script(WORK)
    run(place, "--commit", "never")
    return place


def test_the_rule_decides_what_is_old_enough(place: Place) -> None:
    place.script(WORK)
    place.segue("run", "plan.md")
    assert kinds(collected(place)) == []
    assert kinds(collected(place, "--older-than", "1h")) == []
    shown = collected(place, "--older-than", "0d", "--dry-run")
    assert kinds(shown) == ["run"]
    assert folder_of(place).is_dir()
    done = collected(place, "--older-than", "0d")
    assert done["removed"] == shown["removed"]
    assert done["bytes"] > 0
    assert not folder_of(place).exists()
    assert place.json("status", "last")["tasks"], "what is in the database stays"
    assert place.json("gc", SEGUE_GC__KEEP_DAYS="0")["removed"] == []


@pytest.mark.thorough
def test_uncommitted_work_goes_only_by_force(kept: Place) -> None:
    folder = tree(kept)
    said = collected(kept, "--older-than", "0")
    assert [found["why"] for found in said["kept"]] == ["it has uncommitted changes"]
    assert (folder / "f3").is_file()
    assert "uncommitted" in kept.segue("gc", "--older-than", "0").stderr
    assert "worktree" in kinds(collected(kept, "--older-than", "0", "--force"))
    assert not folder.exists()
    assert kept.git("worktree", "list").count("\n") == 1, "git has forgotten it too"
    assert f"segue/{kept.last_run()}" in kept.git("branch"), "branches stay"


def test_committed_work_goes_and_its_branch_stays(kept: Place) -> None:
    folder = tree(kept)
    git = ["-C", str(folder)]
    kept.git(*git, "add", "--all")
    kept.git(*git, "commit", "--quiet", "-m", "by hand")
    assert "worktree" in kinds(collected(kept, "--older-than", "0"))
    assert not folder.exists()
    assert kept.git("log", "-1", "--format=%s", f"segue/{kept.last_run()}") == "by hand\n"


@pytest.mark.thorough
def test_commits_on_no_branch_and_locked_work_trees_stay(kept: Place) -> None:
    folder = tree(kept)
    git = ["-C", str(folder)]
    kept.git(*git, "add", "--all")
    kept.git(*git, "switch", "--quiet", "--detach")
    kept.git(*git, "commit", "--quiet", "-m", "by hand")
    said = collected(kept, "--older-than", "0")
    assert [found["why"] for found in said["kept"]] == ["its last commit is on no branch"]
    kept.git("worktree", "lock", str(folder))
    said = collected(kept, "--older-than", "0", "--force")
    assert [found["why"] for found in said["kept"]] == ["locked with `git worktree lock`"]
    assert folder.is_dir()


@pytest.mark.thorough
def test_without_its_repository_a_work_tree_goes_only_by_force(kept: Place) -> None:
    shutil.rmtree(kept.repo / ".git")
    args = ["gc", "--older-than", "0"]
    assert "is gone" in kept.json(*args)["kept"][0]["why"]
    assert "worktree" in kinds(kept.json(*args, "--force"))


@pytest.mark.thorough
def test_git_forgets_a_work_tree_that_was_deleted_by_hand(kept: Place) -> None:
    shutil.rmtree(tree(kept))
    assert "worktree" in kinds(collected(kept, "--older-than", "0"))
    assert kept.git("worktree", "list").count("\n") == 1


@pytest.mark.thorough
def test_lanes_of_a_run_that_is_over_go_unless_they_hold_work(kept: Place) -> None:
    folder, last = worktrees(kept), kept.last_run()
    for number in (1, 2, 3):
        kept.git("worktree", "add", "--quiet", "--detach", str(folder / f"{last}-lane-{number}"))
        (folder / f"{last}-lane-{number}.made").touch()
    (folder / f"{last}-lane-2" / "work").write_text("x")
    (folder / f"{last}-lane-4-kept").mkdir()
    shutil.rmtree(folder / f"{last}-lane-3")
    said = collected(kept, "--older-than", "0")
    stays = {Path(found["path"]).name for found in said["kept"]}
    assert stays == {last, f"{last}-lane-2", f"{last}-lane-4-kept"}
    assert not (folder / f"{last}-lane-1").exists()
    assert not (folder / f"{last}-lane-1.made").exists()
    assert "lane-3" not in kept.git("worktree", "list"), "git has forgotten it too"
    collected(kept, "--older-than", "0", "--force")
    assert [path.name for path in folder.iterdir() if not path.name.endswith(".lock")] == []


@pytest.mark.thorough
def test_a_run_that_can_go_on_keeps_everything(place: Place) -> None:
    place.script(UNFINISHED + WORK)
    run(place, code=3)
    assert collected(place, "--older-than", "0", "--force") == {
        "dry_run": False,
        "bytes": 0,
        "removed": [],
        "kept": [],
    }
    place.segue("resume", "--json", code=3)


def test_a_run_at_work_keeps_everything(place: Place) -> None:
    place.script("[[on]]\nhang = true\n")
    process = place.start("run", "plan.md", "--worktree", SEGUE_LIMITS__KILL_GRACE="0.2")
    until(lambda: at_work(place), "the agent works")
    assert kinds(collected(place, "--older-than", "0", "--force")) == []
    process.kill()
    process.wait()
    assert kinds(collected(place, "--older-than", "0", "--force")) == [], "its agent still works"
    place.segue("stop")
    assert kinds(collected(place, "--older-than", "0", "--force")) == [], "it is stopped, so it can go on"


@pytest.mark.thorough
def test_throw_away_folders_and_locks_that_guard_nothing(place: Place) -> None:
    place.script(WORK)
    place.segue("run", "plan.md")
    own = place.database.parent
    fresh, old = own / "worktrees" / "tmpabcdefgh", own / "scratch" / "pg-abcdefgh"
    others = [own / "scratch" / "mine", own / "worktrees" / "unknown", own / "runs" / "unknown"]
    for folder in (fresh, old, *others):
        folder.mkdir(parents=True)
        (folder / "file").write_text("x")
    stale = own / "plans" / "gone-123.json.lock"
    stale.touch()
    for path in (old, old / "file", stale, *others):
        os.utime(path, (OLD, OLD))
    said = collected(place)
    assert sorted(found["path"] for found in said["removed"]) == [str(stale), str(old)]
    assert all(folder.is_dir() for folder in (fresh, *others)), "too young, or nothing that we know"
    assert list((own / "plans").glob("plan-*.lock")), "this one guards a state"


@pytest.mark.thorough
def test_links_are_not_followed(place: Place) -> None:
    place.script(WORK)
    place.segue("run", "plan.md")
    folder, precious = folder_of(place), place.root / "precious"
    shutil.move(folder, precious)
    folder.symlink_to(precious)
    assert kinds(collected(place, "--older-than", "0")) == []
    assert (precious / "summary.json").is_file()
    folder.unlink()
    elsewhere = place.root / "elsewhere"
    shutil.move(folder.parent, elsewhere)
    shutil.move(precious, elsewhere / folder.name)
    folder.parent.symlink_to(elsewhere)
    assert kinds(collected(place, "--older-than", "0")) == []
    assert (elsewhere / folder.name / "summary.json").is_file()


@pytest.mark.thorough
def test_what_was_buffered_for_a_database_stays(place: Place) -> None:
    place.script(WORK)
    place.segue("run", "plan.md")
    spool = folder_of(place).with_name(f"{place.last_run()}.spool")
    spool.write_text("{}\n")
    collected(place, "--older-than", "0", "--force")
    assert spool.is_file()


def test_bad_ages_and_an_empty_place(place: Place) -> None:
    for age in ("soon", "-1d", "1y", ""):
        assert "not an age such as 30d" in place.segue("gc", "--older-than", age, code=2).stderr
    assert place.segue("gc").stdout == "Nothing to delete.\n"
    assert not worktrees(place).exists()
