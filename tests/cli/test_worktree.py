"""Runs in a work tree of their own: the user's is not touched, and several runs work side by side."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.cli.place import DEADLINE, Place, until
from tests.cli.test_spec import TASKS, feature, folder, state

__all__ = ["feature"]

WORK = '[[on]]\nwrite = { "f{task}" = "x" }\n'


def worktrees(place: Place) -> Path:
    return place.database.parent / "worktrees"


def tree(place: Place) -> Path:
    """The only work tree there is."""
    (found,) = (path for path in worktrees(place).iterdir() if path.is_dir())
    return found


def branches(place: Place) -> list[str]:
    return place.git("branch", "--format=%(refname:short)").split()


def files(place: Place, commit: str) -> list[str]:
    return place.git("ls-tree", "-r", "--name-only", commit).split()


def run(place: Place, *args: str, code: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
    return place.segue("run", "plan.md", "--worktree", *args, code=code, **env)


def merging(place: Place, code: int = 0) -> dict[str, Any]:
    """Run with the policy `merge`; what the last record says of the work tree."""
    done = run(place, "--json", code=code, SEGUE_WORKTREE_END="merge")
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])["worktree"]
    return said


def at_work(place: Place, count: int = 1) -> bool:
    return len(list((place.database.parent / "runs").glob("*/jobs/*/job.json"))) >= count


def test_the_work_is_on_a_branch_and_mine_is_untouched(place: Place) -> None:
    place.script(WORK)
    (place.repo / "mine.txt").write_text("not committed")
    head = place.git("rev-parse", "HEAD")
    done = run(place)
    branch = f"segue/{place.last_run()}"
    assert "not part of the run: mine.txt" in done.stderr
    assert f"git merge {branch}" in done.stdout
    assert files(place, branch) == ["f1", "f2", "f3", "plan.md"]
    assert (place.git("rev-parse", "HEAD"), place.git("status", "--porcelain")) == (head, "?? mine.txt\n")
    assert place.git("worktree", "list").count("\n") == 1, (
        "all is on the branch, so the work tree was removed"
    )
    assert json.loads(place.state_file().read_text())["completed_task_indices"] == [1, 2, 3]
    assert place.segue("run", "plan.md").stdout.startswith("No pending tasks")


def test_merged_at_the_end(place: Place) -> None:
    place.script(WORK)
    said = merging(place)
    assert (said["merged"], said["removed"]) == (True, True)
    assert place.subjects() == ["Task 1: Write one.", "Task 2: Write two.", "Task 3: Write three."]
    assert (place.repo / "f3").is_file()
    assert branches(place) == ["main"]


def meanwhile(place: Place, shell: str) -> None:
    """Have something happen in the user's work tree after the last task, before the end."""
    script = place.root / "mine.sh"
    script.write_text(f"cd '{place.repo}' && {shell}\n")
    with (place.root / "segue.toml").open("a") as config:
        config.write(f'[final]\nreview = [["sh", "{script}"]]\n')


def test_what_cannot_be_merged_is_kept(place: Place) -> None:
    place.script(WORK)
    meanwhile(place, "printf other > f2 && git add f2 && git commit -qm mine")
    said = merging(place)
    assert not said["merged"]
    assert "conflicts" in said["words"]
    branch = f"segue/{place.last_run()}"
    assert files(place, branch) == ["f1", "f2", "f3", "plan.md"]
    assert not (place.repo / ".git" / "MERGE_HEAD").exists()
    assert place.git("status", "--porcelain") == "", "the merge was taken back"
    assert place.json("status", "last")["state"] == "done"


def test_a_merge_that_failed_is_made_again_without_the_agent(place: Place) -> None:
    place.script(WORK)
    meanwhile(place, "printf other > mine.txt")
    assert not merging(place)["merged"]
    (place.repo / "mine.txt").unlink()
    launches = len(place.events("prompt"))
    (place.root / "mine.sh").write_text("true\n")
    place.segue("resume", "last")
    assert (place.repo / "f3").is_file()
    assert branches(place) == ["main"]
    assert len(place.events("prompt")) == launches


def test_an_agent_at_work_is_adopted_after_kill_9(place: Place) -> None:
    place.script(
        '[[on]]\nwait_for = "GATE"\nappend = { "started" = "{task}\\n" }\nwrite = { "f{task}" = "" }\n'
    )
    process = place.start("run", "plan.md", "--worktree")
    until(place.jobs_at_work, "the agent works")
    process.kill()
    process.wait(DEADLINE)
    place.gate.touch()
    place.segue("resume")
    branch = f"segue/{place.last_run()}"
    assert place.git("show", f"{branch}:started").split() == ["1", "2", "3"]
    assert place.rows("select count(*) from orchestrator_events where type = 'step.adopted'") == [(1,)]
    assert place.git("status", "--porcelain") == ""


UNFINISHED = '[[on]]\ntask = "2"\nsay = "I claim to be done."\n'


def test_a_work_tree_that_was_deleted_is_made_again(place: Place) -> None:
    place.script(UNFINISHED + WORK)
    run(place, code=3)
    shutil.rmtree(tree(place))
    place.segue("task", "accept", "2")
    shutil.rmtree(tree(place))
    done = place.segue("resume")
    assert "was created again from branch" in done.stderr
    assert files(place, f"segue/{place.last_run()}") == ["f1", "f3", "plan.md"]


def test_a_feature_is_ticked_in_the_users_files_alone(feature: Place) -> None:
    feature.script(
        '[[on]]\nwrite = { "done/{task}" = "x", "specs/001-greeting/tasks.md" = "ticked by the agent" }\n'
    )
    feature.more_config('judged_by = "checks"\nchecks = [["test", "-d", "done"]]\nworktree_end = "merge"\n')
    feature.segue("run", "specs/001-greeting", "--worktree")
    assert (folder(feature) / "tasks.md").read_text() == TASKS.replace("[ ]", "[x]")
    changed = [line[3:] for line in feature.git("status", "--porcelain").splitlines()]
    assert changed == ["specs/001-greeting/tasks.md", "specs/001-greeting/state.json"], "the score only"
    assert feature.git("show", "HEAD:specs/001-greeting/tasks.md") == TASKS
    assert (feature.repo / "done" / "T003").is_file()
    assert branches(feature) == ["main"]
    assert state(feature)["head_branch"] == f"segue/{feature.last_run()}"
