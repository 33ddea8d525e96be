"""`--jobs`: several tasks at once, as users see it."""

from __future__ import annotations

import json
import random
import shutil
import signal
import threading
from pathlib import Path

import pytest

from tests.cli.cloud_place import Cloud
from tests.cli.place import DEADLINE, Place, processes_with, until
from tests.cli.test_build import GOAL, plan, step
from tests.cli.test_spec import TASKS, folder
from tests.cli.test_spec import feature as feature
from tests.patience import seeds

GATED = '[[on]]\nwait_for = "GATE"\nwrite = { "f{task}" = "x" }\n'
WORK = '[[on]]\nphase = "execute"\nwrite = { "f{task}" = "the work of {task}" }\n'


def meet(place: Place, number: int, work: str) -> None:
    """Let agents work only when so many of them are there at once; `work` is a shell script."""
    folder = place.root / "meeting"
    folder.mkdir()
    wait = f"touch {folder}/$SEGUE_TASK; until [ $(ls {folder} | wc -l) -ge {number} ]; do sleep 0.05; done"
    argv = json.dumps(["sh", "-c", f"{wait}; {work}"])
    place.config(f'agent = "command"\nagents.command.argv = {argv}\n')


def test_tasks_are_done_at_once_and_end_up_on_my_branch(place: Place) -> None:
    meet(place, 3, "echo x > f$SEGUE_TASK")
    done = place.segue("run", "plan.md", "--jobs", "3")
    assert "The work was merged into main." in done.stdout + done.stderr
    assert sorted(path.name for path in place.repo.glob("f*")) == ["f1", "f2", "f3"]
    begun = place.events("task.started")
    assert sorted(event["lane"] for event in begun) == [1, 2, 3]
    rows = place.rows("select type from orchestrator_events where type in ('task.started', 'task.ended')")
    assert [kind for (kind,) in rows] == ["task.started"] * 3 + ["task.ended"] * 3
    assert place.git("status", "--porcelain") == ""
    assert place.git("branch", "--format=%(refname:short)").split() == ["main"]
    assert place.git("worktree", "list").count("\n") == 1
    assert not list((place.database.parent / "worktrees").glob("*-lane-*"))


@pytest.mark.thorough
def test_one_task_at_a_time_has_no_lanes(place: Place) -> None:
    place.script(WORK)
    place.segue("run", "plan.md", "--jobs", "1")
    assert {event["lane"] for event in place.events("task.started")} == {0}
    assert place.subjects() == ["Task 1: Write one.", "Task 2: Write two.", "Task 3: Write three."]


@pytest.mark.thorough
def test_checks_decide_about_what_is_merged(place: Place) -> None:
    """Each of two tasks alone is fine; the second has to live with what the first did."""
    meet(place, 2, "touch q$SEGUE_TASK; if [ $SEGUE_TASK/$SEGUE_ATTEMPT = 2/1 ]; then touch q3; fi")
    place.more_config('checks = [["sh", "-c", "test $(ls | grep -c q) -lt 3"]]\n')
    place.segue("run", "plan.md", "--jobs", "2", "--task", "1", "--task", "2")
    (collided,) = place.events("task.collided")
    assert (collided["task"], collided["tasks"], collided["then"]) == ("2", ["1"], "again")
    assert "together they fail" in collided["reason"]
    assert sorted(path.name for path in place.repo.glob("q*")) == ["q1", "q2"]


@pytest.mark.thorough
def test_what_i_commit_meanwhile_is_part_of_the_result_and_checked(place: Place) -> None:
    place.script(GATED)
    place.more_config('checks = [["test", "-e", "plan.md"]]\n')
    process = place.start("run", "plan.md", "--jobs", "3")
    until(lambda: place.started("task/1/execute/1"), "the agent works")
    (place.repo / "mine").write_text("mine")
    place.git("add", "mine")
    place.git("commit", "--quiet", "-m", "Mine")
    place.gate.touch()
    assert process.wait(DEADLINE) == 0
    assert sorted(path.name for path in place.repo.glob("[fm]*")) == ["f1", "f2", "f3", "mine"]
    assert place.git("status", "--porcelain") == ""
    place.git("merge-base", "--is-ancestor", "HEAD^{/Mine}", "HEAD")


@pytest.mark.thorough
def test_my_branch_is_never_advanced_with_red_checks(place: Place) -> None:
    place.script(GATED)
    place.more_config('checks = [["sh", "-c", "test $(ls | wc -l) -lt 5"]]\n')
    process = place.start("run", "plan.md", "--jobs", "3")
    until(lambda: place.started("task/1/execute/1"), "the agent works")
    (place.repo / "mine").write_text("mine")
    place.git("add", "mine")
    place.git("commit", "--quiet", "-m", "Mine")
    place.gate.touch()
    assert process.wait(DEADLINE) == 3
    assert not list(place.repo.glob("f*"))
    assert place.subjects() == ["Mine"]
    note = place.json("status", "last")["note"]
    assert "You committed to main meanwhile, and together with that a check fails" in note
    place.git("rm", "--quiet", "mine")
    place.git("commit", "--quiet", "-m", "Take it back")
    place.segue("resume")
    assert len(list(place.repo.glob("f*"))) == 3


def test_uncommitted_changes_are_refused_as_with_one_task(place: Place) -> None:
    place.script(WORK)
    (place.repo / "mine").write_text("mine")
    assert "uncommitted changes: mine" in place.segue("run", "plan.md", "--jobs", "2", code=None).stderr
    assert place.json("status") == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [('commit = "never"\n', "merged as commits"), ('gates = ["task"]\n', "jobs = 2 has no effect")],
)
def test_what_cannot_be_with_several_at_once_is_refused(place: Place, settings: str, said: str) -> None:
    place.script(WORK)
    place.more_config(settings)
    assert said in place.segue("run", "plan.md", "--jobs", "2", code=2).stderr


@pytest.mark.thorough
def test_a_git_that_cannot_merge_is_named_before_anybody_works(place: Place) -> None:
    place.script(WORK)
    old = place.root / "old" / "git"
    old.parent.mkdir()
    real = shutil.which("git")
    old.write_text(f'#!/bin/sh\ncase "$*" in *merge-tree*) exit 129;; esac\nexec {real} "$@"\n')
    old.chmod(0o755)
    path = f"{old.parent}:{place.env['PATH']}"
    assert "Install git 2.38" in place.segue("run", "plan.md", "--jobs", "2", code=None, PATH=path).stderr
    assert place.events("agent.started") == []
    place.segue("resume")
    assert len(list(place.repo.glob("f*"))) == 3


@pytest.mark.thorough
def test_stop_ends_all_lanes_and_resume_continues_in_them(place: Place) -> None:
    place.script('[[on]]\nattempt = 1\nwrite = { "half{task}" = "x" }\ndelay = 300\n' + WORK)
    process = place.start("run", "plan.md", "--jobs", "3")
    until(lambda: all(place.started(f"task/{n}/execute/1") for n in (1, 2, 3)), "all are at work")
    place.segue("stop")
    assert process.wait(DEADLINE) == 130
    assert list(processes_with(str(place.repo))) == []
    assert [task["state"] for task in place.json("status", "last")["tasks"]] == ["stopped"] * 3
    place.segue("resume")
    assert len(list(place.repo.glob("f*"))) == 3


BROKEN = '[[on]]\ntask = "2"\nwrite = { "f2" = "half" }\nexit_code = 1\n'


@pytest.mark.thorough
def test_work_that_i_accept_is_part_of_the_result(place: Place) -> None:
    place.script(BROKEN + WORK)
    done = place.segue("run", "plan.md", "--jobs", "3", code=3)
    assert "-lane-2" in done.stderr
    place.segue("task", "accept", "2")
    place.segue("resume")
    assert (place.repo / "f2").read_text() == "half"
    assert len(list(place.repo.glob("f*"))) == 3
    assert place.git("status", "--porcelain") == ""
    assert place.git("worktree", "list").count("\n") == 1


@pytest.mark.thorough
def test_work_that_does_not_fit_is_accepted_when_i_have_merged_it(place: Place) -> None:
    fails = "if [ $SEGUE_TASK = 2 ]; then echo half > f1; exit 1; fi"
    meet(place, 3, f"{fails}; echo $SEGUE_TASK > f$SEGUE_TASK")
    place.segue("run", "plan.md", "--jobs", "3", code=3)
    done = place.segue("task", "accept", "2", code=2)
    assert "does not fit what was merged meanwhile: both changed f1" in done.stderr
    (lane,) = (place.database.parent / "worktrees").glob("*-lane-2")
    branch = f"segue/{place.last_run()}"
    place.git("-C", str(lane), "merge", "--quiet", "-X", "ours", "--no-edit", branch)
    place.segue("task", "accept", "2")
    place.segue("resume")
    assert (place.repo / "f1").read_text() == "half\n"


@pytest.mark.thorough
def test_work_that_i_skip_is_left_out_and_kept(place: Place) -> None:
    place.script(BROKEN + WORK)
    place.segue("run", "plan.md", "--jobs", "3", code=3)
    place.segue("task", "skip", "2", "--reason", "not needed")
    place.segue("resume")
    assert sorted(path.name for path in place.repo.glob("f*")) == ["f1", "f3"]
    kept = place.git("for-each-ref", "--format=%(refname)", "refs/segue/kept").split()
    assert [place.git("show", f"{ref}:f2") for ref in kept] == ["half"]


@pytest.mark.thorough
def test_all_agents_at_work_are_adopted_after_kill_9(place: Place) -> None:
    place.script(GATED + 'append = { "started{task}" = "x\\n" }\n')
    process = place.start("run", "plan.md", "--jobs", "3")
    until(lambda: place.jobs_at_work() == 3, "all are at work")
    process.kill()
    process.wait(DEADLINE)
    place.gate.touch()
    place.segue("resume")
    assert [(place.repo / f"started{n}").read_text() for n in (1, 2, 3)] == ["x\n"] * 3
    assert place.rows("select count(*) from orchestrator_events where type = 'step.adopted'") == [(3,)]


@pytest.mark.thorough
@pytest.mark.torture
@pytest.mark.parametrize("seed", seeds(2))
def test_random_kills_with_eight_lanes_lose_and_double_nothing(tmp_path: Path, seed: int) -> None:
    count = 16
    place = Place.make(tmp_path, "".join(f"## Task {n}\nDo {n}.\n\n" for n in range(1, count + 1)))
    place.script('[[on]]\nappend = { "started{task}" = "x\\n" }\ndelay = 0.1\nwrite = { "f{task}" = "x" }\n')
    place.more_config("jobs = 8\n")
    dice = random.Random(seed)
    for _ in range(60):
        process = place.start("run", "plan.md")
        killer = threading.Timer(dice.uniform(0.3, 3), process.kill)
        killer.start()
        code = process.wait(DEADLINE)
        killer.cancel()
        assert code in (0, -signal.SIGKILL), f"exit {code}"
        if code == 0:
            break
    place.segue("run", "plan.md")
    assert [(place.repo / f"started{n}").read_text() for n in range(1, count + 1)] == ["x\n"] * count
    subjects = place.git("log", "--no-merges", "--format=%s").splitlines()
    assert sorted(subjects) == sorted(["plan", *(f"Task {n}: Do {n}." for n in range(1, count + 1))])
    assert place.git("status", "--porcelain") == ""
    assert place.git("worktree", "list").count("\n") == 1
    assert len(place.json("status")) == 1


@pytest.mark.thorough
def test_a_feature_keeps_its_phases(feature: Place) -> None:
    feature.script('[[on]]\nwrite = { "done/{task}" = "x" }\n')
    feature.more_config('judged_by = "checks"\nchecks = [["test", "-f", "plan.md"]]\njobs = 3\n')
    feature.segue("run", "specs/001-greeting")
    assert (folder(feature) / "tasks.md").read_text() == TASKS.replace("[ ]", "[x]")
    assert sorted(path.name for path in (feature.repo / "done").iterdir()) == ["T001", "T002", "T003"]


@pytest.mark.thorough
def test_steps_that_an_agent_planned_are_built_at_once(place: Place) -> None:
    steps = [step(name, depends_on=[]) for name in "abc"]
    place.script(plan(*steps) + WORK)
    place.segue("run", GOAL, "--jobs", "3")
    assert {event["lane"] for event in place.events("task.started")} == {1, 2, 3}
    assert len(list(place.repo.glob("f*"))) == 3


@pytest.mark.thorough
def test_cloud_agents_start_from_what_all_have_done(cloud: Cloud) -> None:
    cloud.script(*({"prompt": f"Write {name}", "write": {name: name}} for name in ("one", "two", "three")))
    done = cloud.place.segue("run", "plan.md", "--flow", "execute", "--jobs", "2")
    run = cloud.place.last_run()
    assert f"The work of all tasks is on branch segue/{run} of origin." in done.stdout + done.stderr
    refs = {launch["body"]["repos"][0]["startingRef"] for launch in cloud.launches()}
    assert refs <= {f"segue/{run}-lane-{number}" for number in (1, 2, 3, 4)}
    assert cloud.place.git("status", "--porcelain") == ""
    cloud.place.git("fetch", "--quiet", "origin")
    merged = cloud.place.git("log", "--format=%s", f"origin/segue/{run}")
    assert all(event["commit"] for event in cloud.place.events("task.merged"))
    ended = [event["commit"] for event in cloud.place.events("task.ended")]
    assert len(ended) == 3
    for commit in ended:
        cloud.place.git("merge-base", "--is-ancestor", commit, f"origin/segue/{run}")
    assert "Merge task" in merged


@pytest.mark.parametrize("agent", ["cursor", "gemini"])
@pytest.mark.thorough
def test_any_agent_works_in_lanes(place: Place, agent: str) -> None:
    place.segue("sim", "bin", str(place.root / "bin"))
    place.env |= {"PATH": f"{place.root / 'bin'}:{place.env['PATH']}", "SEGUE_SIM_LOGGED_IN": "1"}
    place.env |= {"GEMINI_API_KEY": "x", "CURSOR_API_KEY": "x"}
    place.config(f'agent = "{agent}"\nflow = "execute"\nallow_no_change = true\n')
    place.segue("run", "plan.md", "--jobs", "3")
    assert {event["lane"] for event in place.events("task.started")} == {1, 2, 3}
    assert place.rows("select count(*) from orchestrator_steps where agent is not null") == [(3,)]
    assert place.git("status", "--porcelain") == ""
    assert [task["state"] for task in place.json("status", "last")["tasks"]] == ["done"] * 3


def test_a_dry_run_tells_how_much_faster_it_can_be(place: Place) -> None:
    place.script(WORK)
    lines = place.segue("run", "plan.md", "--jobs", "3", "--dry-run", "--json").stdout.splitlines()
    forecast = [json.loads(line) for line in lines if '"forecast"' in line]
    assert forecast
    assert not place.database.exists()
