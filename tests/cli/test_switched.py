"""Somebody switches, rebases or deletes branches during a run: no agent is blamed, and none is paid twice."""

from __future__ import annotations

from tests.cli.place import Place, until

WAITS = """[[on]]
task = 2
wait_for = "GATE"
write = { "f{task}" = "x" }
[[on]]
write = { "f{task}" = "x" }
"""
ALL = ["Task 1: Write one.", "Task 2: Write two.", "Task 3: Write three."]


def launches(place: Place) -> int:
    return len(place.rows("select 1 from orchestrator_steps where phase = 'execute'"))


def meanwhile(place: Place, *gits: tuple[str, ...], code: int = 3) -> str:
    """Run the plan; while the agent works on task 2, give commands to git. Return what was said."""
    place.script(WAITS)
    process = place.start("run", "plan.md")
    until(lambda: place.jobs_at_work() and place.started("task/2/execute/1"), "the agent of task 2")
    for args in gits:
        place.git(*args)
    place.gate.touch()
    assert process.wait() == code
    return max(place.root.glob("out-*")).read_text()


def test_a_branch_switched_while_an_agent_works(place: Place) -> None:
    said = meanwhile(place, ("switch", "--quiet", "-c", "mine", "HEAD~1"))
    assert "The branch was switched from main to mine while the agent worked" in said
    assert "git does not tell by whom" in said
    assert "The agent switched" not in said
    assert "git switch main, then: segue resume" in said

    again = place.segue("resume", code=3).stderr
    assert "Task 2 began on branch main, and branch mine is checked out now." in again
    assert "No agent was launched" in again
    assert launches(place) == 2
    place.git("switch", "--quiet", "main")
    place.segue("resume")
    assert place.subjects() == ALL
    assert launches(place) == 3, "what the agent of task 2 had done was looked at again"


def test_a_branch_without_the_work_before_is_not_worked_on(place: Place) -> None:
    place.script('[[on]]\nwrite = { "f{task}" = "x" }\n')
    place.segue("run", "plan.md", "--pause-after-task", code=3)
    place.git("switch", "--quiet", "-c", "mine", "HEAD~1")
    said = place.segue("resume", code=3).stderr
    assert "What task 1 did is on branch main, and branch mine is checked out now." in said
    assert launches(place) == 1
    # A branch that has it is as good.
    place.git("switch", "--quiet", "-C", "mine", "main")
    place.segue("resume", code=3)
    assert place.subjects() == ALL[:2]


def test_an_agent_that_amends_is_not_paid_again(place: Place) -> None:
    amends = "echo x > f$SEGUE_TASK; git add --all; git commit --quiet --amend --message mine"
    place.config(f'agent = "command"\n[agents.command]\nargv = ["sh", "-c", "{amends}"]\n')
    place.segue("run", "plan.md")
    assert place.subjects() == ALL
    assert launches(place) == 3
    kept = place.git("for-each-ref", "--format=%(subject)", "refs/segue/kept/").split()
    assert kept == ["mine"] * 3, "what the agents made of the history is there"


def test_an_agent_that_resets_is_not_paid_again_and_loses_nobody_s_work(place: Place) -> None:
    resets = "echo x > f$SEGUE_TASK; [ $SEGUE_TASK = 1 ] || git reset --quiet --hard HEAD~1"
    place.config(f'agent = "command"\n[agents.command]\nargv = ["sh", "-c", "{resets}"]\n')
    place.segue("run", "plan.md")
    assert place.subjects() == ALL
    assert launches(place) == 3
    assert place.git("ls-files", "f*").split() == ["f1", "f2", "f3"]
