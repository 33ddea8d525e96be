"""`--jobs`: several tasks at once, as users see it."""

from __future__ import annotations

import json

from tests.cli.place import DEADLINE, Place, processes_with, until

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


def test_checks_decide_about_what_is_merged(place: Place) -> None:
    """Each of two tasks alone is fine; the second has to live with what the first did."""
    meet(place, 2, "touch q$SEGUE_TASK; if [ $SEGUE_TASK/$SEGUE_ATTEMPT = 2/1 ]; then touch q3; fi")
    place.more_config('checks = [["sh", "-c", "test $(ls | grep -c q) -lt 3"]]\n')
    place.segue("run", "plan.md", "--jobs", "2", "--task", "1", "--task", "2")
    (collided,) = place.events("task.collided")
    assert (collided["task"], collided["tasks"], collided["then"]) == ("2", ["1"], "again")
    assert "together they fail" in collided["reason"]
    assert sorted(path.name for path in place.repo.glob("q*")) == ["q1", "q2"]


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
