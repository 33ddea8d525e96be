"""`segue gc` removes what ended runs have left, and nothing that somebody could still want."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.place import Place, until
from tests.cli.test_worktree import WORK, at_work, run, tree


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


def test_committed_work_goes_and_its_branch_stays(kept: Place) -> None:
    folder = tree(kept)
    git = ["-C", str(folder)]
    kept.git(*git, "add", "--all")
    kept.git(*git, "commit", "--quiet", "-m", "by hand")
    assert "worktree" in kinds(collected(kept, "--older-than", "0"))
    assert not folder.exists()
    assert kept.git("log", "-1", "--format=%s", f"segue/{kept.last_run()}") == "by hand\n"


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
