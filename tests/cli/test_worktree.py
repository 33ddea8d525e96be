"""Runs in a work tree of their own: the user's is not touched, and several runs work side by side."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.cli.cloud_place import Cloud
from tests.cli.place import DEADLINE, Place, until
from tests.cli.test_build import GOAL, TWO
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


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_merged_with_what_came_meanwhile(place: Place) -> None:
    place.script(WORK)
    meanwhile(place, "git commit --quiet --allow-empty -m mine")
    assert merging(place)["merged"]
    assert place.git("log", "-1", "--format=%s").startswith("Merge branch 'segue/")
    assert (place.repo / "f3").is_file()


@pytest.mark.quick("detached")
@pytest.mark.parametrize("obstacle", ["conflict", "dirty", "elsewhere", "detached"])
def test_what_cannot_be_merged_is_kept(place: Place, obstacle: str) -> None:
    place.script(WORK)
    mine = {
        "conflict": "printf other > f2 && git add f2 && git commit -qm mine",
        "dirty": "printf other > mine.txt",
        "elsewhere": "git switch -qc other",
        "detached": "git switch -q --detach",
    }[obstacle]
    meanwhile(place, mine)
    said = merging(place)
    words = {"conflict": "conflicts", "dirty": "mine.txt", "elsewhere": "other", "detached": "no branch"}
    assert not said["merged"]
    assert words[obstacle] in said["words"]
    branch = f"segue/{place.last_run()}"
    assert files(place, branch) == ["f1", "f2", "f3", "plan.md"]
    assert not (place.repo / ".git" / "MERGE_HEAD").exists()
    left = {"dirty": "?? mine.txt\n"}.get(obstacle, "")
    assert place.git("status", "--porcelain") == left, "the merge was taken back"
    assert place.json("status", "last")["state"] == "done"


@pytest.mark.thorough
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


def killed_once(place: Place, verb: str) -> str:
    """Put a git in front of the real one that is killed at its first `verb`, with locks; return the PATH."""
    script = place.root / "killed" / "git"
    script.parent.mkdir()
    script.write_text(
        f"""#!/bin/sh
case " $* " in *" {verb} "*)
    if mkdir "{place.root}/was-killed" 2>/dev/null; then
        [ {verb} = --delete ] || printf half > f1
        for name in index packed-refs config objects/maintenance; do
            touch "{place.repo}/.git/$name.lock"
        done
        kill -9 $$
    fi
esac
exec "{shutil.which("git")}" "$@"
"""
    )
    script.chmod(0o755)
    return f"{script.parent}:{place.env['PATH']}"


@pytest.mark.thorough
@pytest.mark.parametrize("verb", ["merge", "--delete"])
def test_a_git_that_is_killed_at_the_end_leaves_nothing_behind(place: Place, verb: str) -> None:
    place.script('[[on]]\nwrite = { "f{task}" = "half of it\\n" }\n')
    done = run(place, SEGUE_WORKTREE_END="merge", PATH=killed_once(place, verb))
    assert "was merged into main" in done.stdout
    assert (place.root / "was-killed").is_dir()
    assert [path.name for path in (place.repo / ".git").rglob("*.lock")] == ["segue.lock"]
    assert not place.git("status", "--porcelain")


@pytest.mark.thorough
def test_a_run_whose_merge_could_not_be_tried_is_not_done(place: Place) -> None:
    place.script(WORK)
    meanwhile(place, "rm -f .git/segue.lock && mkdir .git/segue.lock")
    done = place.segue("run", "plan.md", "--worktree", code=3, SEGUE_WORKTREE_END="merge")
    assert "Cannot write to the repository" in done.stderr
    assert "segue resume" in done.stderr
    (place.repo / ".git" / "segue.lock").rmdir()
    (place.root / "mine.sh").write_text("true\n")
    place.segue("resume")
    assert (place.repo / "f3").is_file()
    assert branches(place) == ["main"]


@pytest.mark.thorough
def test_a_later_run_builds_on_work_that_is_not_merged(place: Place) -> None:
    place.script(WORK)
    run(place)
    first = f"segue/{place.last_run()}"
    with (place.repo / "plan.md").open("a") as plan:
        plan.write("\n## Task 4\nWrite four.\n")
    done = run(place)
    assert f"starts from {first}" in done.stderr
    assert files(place, f"segue/{place.last_run()}") == ["f1", "f2", "f3", "f4", "plan.md"]


@pytest.mark.thorough
def test_a_run_in_place_is_told_of_work_that_is_not_merged(place: Place) -> None:
    place.script(WORK)
    run(place)
    first = f"segue/{place.last_run()}"
    with (place.repo / "plan.md").open("a") as plan:
        plan.write("\n## Task 4\nWrite four.\n")
    assert f"not here but on branch {first}" in place.segue("run", "plan.md", "--allow-dirty").stderr
    assert (place.repo / "f4").is_file()


@pytest.mark.thorough
def test_runs_of_different_plans_work_side_by_side(place: Place) -> None:
    place.script("[[on]]\nhang = true\n")
    other = place.root / "other.md"
    other.write_text("## Task 1\nOther.\n")
    grace = {"SEGUE_LIMITS__KILL_GRACE": "0.2"}
    processes = [place.start("run", plan, "--worktree", **grace) for plan in ("plan.md", str(other))]
    until(lambda: at_work(place, 2), "both agents work at the same time")
    assert len([path for path in worktrees(place).iterdir() if path.is_dir()]) == 2
    assert "Another process works on" in run(place, code=6).stderr, "the same plan is one run"
    for listed in place.json("status"):
        place.segue("stop", listed["id"])
    assert [process.wait(DEADLINE) for process in processes] == [130, 130]
    assert place.git("status", "--porcelain") == ""


@pytest.mark.thorough
def test_the_same_plan_started_twice_at_once_is_one_run(place: Place) -> None:
    place.script("[[on]]\nhang = true\n")
    grace = {"SEGUE_LIMITS__KILL_GRACE": "0.2"}
    processes = [place.start("run", "plan.md", "--worktree", **grace) for _ in range(3)]
    until(lambda: [p.poll() for p in processes].count(6) == 2, "two of them are refused")
    until(lambda: at_work(place), "one of them works")
    assert len(place.json("status")) == 1
    place.segue("stop")
    assert sorted(process.wait(DEADLINE) for process in processes) == [6, 6, 130]


@pytest.mark.thorough
def test_a_run_in_place_is_not_disturbed_by_a_merge(place: Place) -> None:
    place.script('[[on]]\ntask = "99"\nhang = true\n' + WORK)
    other = place.root / "other.md"
    other.write_text("## Task 99\nOther.\n")
    process = place.start("run", str(other), SEGUE_LIMITS__KILL_GRACE="0.2")
    until(lambda: at_work(place), "the run in place works")
    said = merging(place)
    assert not said["merged"]
    assert "another run works in your work tree" in said["words"]
    assert place.subjects() == []
    (running,) = (listed["id"] for listed in place.json("status") if listed["state"] == "running")
    place.segue("stop", running)
    assert process.wait(DEADLINE) == 130


@pytest.mark.thorough
def test_in_the_background(place: Place) -> None:
    place.script(WORK)
    run(place, "--detach")
    until(lambda: place.json("status", "last")["state"] == "done", "the run is done")
    assert files(place, f"segue/{place.last_run()}") == ["f1", "f2", "f3", "plan.md"]
    assert place.git("status", "--porcelain") == ""


@pytest.mark.thorough
def test_a_run_whose_work_tree_could_not_be_made_never_was(place: Place) -> None:
    place.script(WORK)
    run(place)
    first = f"segue/{place.last_run()}"
    place.git("branch", "--move", first, "done")
    place.git("branch", "segue")
    with (place.repo / "plan.md").open("a") as plan:
        plan.write("\n## Task 4\nWrite four.\n")
    assert "git branch failed" in run(place, code=2).stderr
    assert first == f"segue/{place.last_run()}"
    place.git("branch", "--delete", "segue")
    place.git("branch", "--move", "done", first)
    run(place)
    assert files(place, f"segue/{place.last_run()}") == ["f1", "f2", "f3", "f4", "plan.md"]
    assert len(place.json("status")) == 2


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


@pytest.mark.thorough
@pytest.mark.torture
@pytest.mark.parametrize("seed", range(3))
def test_random_kills_lose_and_double_nothing(tmp_path: Path, seed: int) -> None:
    place = Place.make(tmp_path, "".join(f"## Task {n}\nDo {n}.\n\n" for n in range(1, 7)))
    place.script('[[on]]\nappend = { "started" = "{task}\\n" }\ndelay = 0.05\nwrite = { "f{task}" = "x" }\n')
    dice = random.Random(seed)
    for _ in range(60):
        process = place.start("run", "plan.md", "--worktree", SEGUE_WORKTREE_END="merge")
        killer = threading.Timer(dice.uniform(0.1, 1.2), process.kill)
        killer.start()
        code = process.wait(DEADLINE)
        killer.cancel()
        assert code in (0, -signal.SIGKILL), f"exit {code}"
        if code == 0:
            break
    run(place, SEGUE_WORKTREE_END="merge")
    assert (place.repo / "started").read_text().split() == [str(n) for n in range(1, 7)]
    assert place.subjects() == [f"Task {n}: Do {n}." for n in range(1, 7)]
    assert place.git("status", "--porcelain") == ""
    assert place.git("worktree", "list").count("\n") == 1
    assert len(place.json("status")) == 1


UNFINISHED = '[[on]]\ntask = "2"\nsay = "I claim to be done."\n'


@pytest.mark.thorough
def test_a_decision_and_the_rest_of_the_run(place: Place) -> None:
    place.script(UNFINISHED + WORK)
    done = run(place, code=3)
    assert str(tree(place)) in done.stderr
    assert place.json("status", "last")["worktree"] == str(tree(place))
    place.segue("task", "skip", "2", "--reason", "not needed")
    place.segue("run", "plan.md")
    assert files(place, f"segue/{place.last_run()}") == ["f1", "f3", "plan.md"]
    assert place.git("status", "--porcelain") == ""
    assert len(place.json("status")) == 1, "without --worktree the same run went on"


@pytest.mark.thorough
def test_a_work_tree_that_was_deleted_is_made_again(place: Place) -> None:
    place.script(UNFINISHED + WORK)
    run(place, code=3)
    shutil.rmtree(tree(place))
    place.segue("task", "accept", "2")
    shutil.rmtree(tree(place))
    done = place.segue("resume")
    assert "was created again from branch" in done.stderr
    assert files(place, f"segue/{place.last_run()}") == ["f1", "f3", "plan.md"]


@pytest.mark.thorough
def test_a_branch_that_was_deleted_is_missed(place: Place) -> None:
    place.script(UNFINISHED + WORK)
    run(place, code=3)
    shutil.rmtree(tree(place))
    place.git("worktree", "prune")
    place.git("branch", "--delete", "--force", f"segue/{place.last_run()}")
    done = place.segue("resume", code=2)
    assert "is missing" in done.stderr
    assert "Next: Restore it" in done.stderr


@pytest.mark.thorough
def test_a_run_that_began_in_place_stays_there(place: Place) -> None:
    place.script(UNFINISHED + WORK)
    place.segue("run", "plan.md", code=3)
    done = run(place, "--allow-no-change")
    assert "began in your own work tree" in done.stderr
    assert (place.repo / "f3").is_file()


@pytest.mark.thorough
def test_uncommitted_work_keeps_the_work_tree(place: Place) -> None:
    place.script(WORK)
    done = run(place, "--commit", "never")
    assert "uncommitted changes" in done.stdout
    assert (tree(place) / "f3").is_file()


def test_a_repository_without_commits_is_refused(place: Place) -> None:
    place.script(WORK)
    shutil.rmtree(place.repo / ".git")
    place.git("init", "--quiet", "--initial-branch=main")
    assert "no commit yet" in run(place, code=2).stderr
    assert place.json("status") == []


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_a_prompt_is_built_in_a_work_tree(place: Place) -> None:
    place.script(TWO)
    place.segue("run", GOAL, "--worktree")
    branch = f"segue/{place.last_run()}"
    assert place.git("status", "--porcelain") == ""
    assert int(place.git("rev-list", "--count", f"main..{branch}")) == 2


def test_cloud_agents_need_no_work_tree(cloud: Cloud) -> None:
    done = cloud.place.segue("run", "specs/001-greeting", "--worktree", code=2)
    assert "worktree has no effect: cursor-cloud never touches your work tree" in done.stderr
    assert cloud.launches() == []


@pytest.mark.thorough
def test_a_repository_that_is_gone_is_not_replaced_by_one_around_it(place: Place) -> None:
    place.segue("run", "plan.md", "--agent", "scripted", "--task", "1")
    place.git("init", "--quiet", str(place.root))
    (place.repo / ".git").rename(place.root / "taken-away")
    again = ("run", "plan.md", "--agent", "scripted", "--task", "2")
    assert "was a repository when run" in place.segue(*again, code=2).stderr
    (place.root / "taken-away").rename(place.repo / ".git")
    place.segue(*again)
