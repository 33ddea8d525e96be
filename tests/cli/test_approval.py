"""A person's word on a plan and on the work: approve, edit, reject, comment."""

from __future__ import annotations

import os
import pty
import subprocess

from tests.cli.place import DEADLINE, Place, until
from tests.cli.test_build import GOAL, plan, prompt_of, step, tasks

TWO = plan(step("a"), step("b", depends_on=["a"]))
OTHER = plan(step("c")).replace("phase = 'outline'", "phase = 'outline'\nattempt = 2")
WORK = '[[on]]\nphase = "execute"\nwrite = { "f{task}" = "attempt {attempt}, {task}" }\n'
AGAIN = '[[on]]\nphase = "execute"\ntask = "2"\nappend = { "f2" = "more" }\n'


def outlines(place: Place) -> list[str]:
    rows = place.rows("select key from orchestrator_steps where phase = 'outline' order by seq")
    return [key for (key,) in rows]


def editor(place: Place, script: str) -> None:
    """Make a program the editor that changes the file as a person would."""
    path = place.root / "editor"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    place.env["EDITOR"] = place.env["VISUAL"] = str(path)


def test_a_plan_waits_for_approval_and_resuming_is_the_word(place: Place) -> None:
    place.script(TWO)
    done = place.segue("run", GOAL, "--approve", code=3)
    assert "The run waits for you to approve the plan: the plan has 2 steps." in done.stderr
    assert "segue task say plan" in done.stderr
    assert place.subjects() == []
    assert tasks(place) == {"1": "pending", "2": "pending"}
    place.segue("resume")
    assert place.subjects() == ["Task 1: Make a", "Task 2: Make b"]
    assert outlines(place) == ["run/outline/1"]


def test_a_rejected_plan_is_made_again_with_the_words(place: Place) -> None:
    place.script(OTHER + TWO)
    place.segue("run", GOAL, "--approve", code=3)
    place.segue("task", "say", "plan", "One step is enough.")
    place.segue("task", "say", "plan", "Call it c.")
    place.segue("resume", code=3)
    assert outlines(place) == ["run/outline/1", "run/outline/2"]
    asked = prompt_of(place, "run/outline/2")
    assert "One step is enough." in asked
    assert "Call it c." in asked
    assert "There is a." in asked, "the planner sees the plan that was rejected"
    assert tasks(place) == {"3": "pending"}, "a number never means two things"
    place.segue("resume")
    assert place.subjects() == ["Task 3: Make c"]
    assert [event["reason"] for event in place.events("plan.revised")] == [
        "the first plan",
        "rejected: One step is enough. Call it c.",
    ]


def test_the_terminal_asks_about_the_plan(place: Place) -> None:
    """Reject, then edit, then approve, as a person types it."""
    place.script(OTHER + TWO)
    editor(place, 'sed -i "s/title: Make c/title: Make d/" "$1"')
    place.env |= {"TERM": "xterm", "COLUMNS": "100"}
    for name in ("AI_AGENT", "AGENT", "CLAUDECODE"):
        place.env.pop(name, None)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        place.command("run", GOAL), cwd=place.repo, env=place.env, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    for question, answer in (
        (b"reject or stop?", b"reject\n"),
        (b"What should be different?", b"One step is enough.\n"),
        (b"Make c", b""),
        (b"reject or stop?", b"edit\n"),
        (b"Make d", b""),
        (b"reject or stop?", b"approve\n"),
        (b"Make d", b""),
    ):
        while question not in shown:
            shown += os.read(ours, 65536)
        shown = shown.split(question, 1)[1]
        os.write(ours, answer)
    while _read(ours):
        pass
    assert process.wait(DEADLINE) == 0
    os.close(ours)
    assert place.subjects() == ["Task 4: Make d"]


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def test_a_comment_opens_a_task_again_and_its_agent_gets_the_words(place: Place) -> None:
    place.script(WORK)
    place.segue("run", "plan.md")
    run = place.last_run()
    place.script(AGAIN)
    place.segue("task", "say", "2", "src/a.py:3: Say it in one line.")
    assert [task["status"] for task in place.json("task", "list", "plan.md")["tasks"]] == [
        "done",
        "pending",
        "done",
    ]
    assert place.json("status", run)["state"] == "needs_human"
    place.segue("resume")
    assert place.last_run() == run, "it is the same run"
    assert place.json("status", run)["state"] == "done"
    assert (place.repo / "f2").read_text() == "attempt 1, 2more"
    assert place.subjects()[3:] == ["Task 2: Write two."]
    rows = place.rows("select task from orchestrator_steps where phase = 'execute' order by seq")
    assert rows == [("1",), ("2",), ("3",), ("2",)]
    sql = (
        "select p.text from orchestrator_prompts p join orchestrator_events e "
        "on e.data->>'digest' = p.digest where e.step = 'task/2/execute/1' "
        "and e.type = 'prompt' order by e.seq desc limit 1"
    )
    ((asked,),) = place.rows(sql)
    assert "What the user says about it" in asked
    assert "src/a.py:3: Say it in one line." in asked
    (said,) = place.events("task.commented")
    assert said["by"] == "Tester"


def test_a_question_is_shown_and_answered(place: Place) -> None:
    place.script('[[on]]\ntask = "1"\nsay = "Which database do you want, a or b?"\n' + WORK)
    failed = place.segue("run", "plan.md", "--task", "1", code=3)
    assert "The agent asks: Which database do you want, a or b?" in failed.stderr
    shown = place.segue("status", "last").stdout
    assert "The agent asks: Which database" in shown
    assert 'segue task say 1 "…"' in shown
    place.segue("task", "say", "1", "Take b.")
    place.script(WORK)
    place.segue("resume")
    (prompt,) = [text for (text,) in place.rows("select text from orchestrator_prompts") if "Take b." in text]
    assert prompt.index("Which database do you want") < prompt.index("Take b."), (
        "the answer is with its question"
    )


def test_words_about_tasks_that_have_not_begun_are_taken_while_the_run_works(place: Place) -> None:
    place.script(f"[[on]]\ntask = 1\nwait_for = '{place.gate}'\nwrite = {{ 'a' = 'x' }}\n" + WORK)
    process = place.start("run", "plan.md")
    until(lambda: place.started("task/1/execute/1"), "the agent works")
    assert "next launch" in place.segue("task", "say", "2", "Mind the gap.").stdout
    assert "it will skip" in place.segue("task", "skip", "3", "--reason", "by hand").stdout
    assert "no task '9'" in place.segue("task", "skip", "9", "--reason", "by hand", code=2).stderr
    assert place.segue("task", "skip", "1", "--reason", "too late", code=6)
    assert place.segue("task", "accept", "2", code=6)
    place.gate.touch()
    assert process.wait(DEADLINE) == 0
    told = [
        text for (text,) in place.rows("select text from orchestrator_prompts") if "Mind the gap." in text
    ]
    assert len(told) == 1
    states = {task["key"]: task["state"] for task in place.json("status", "last")["tasks"]}
    assert states == {"1": "done", "2": "done", "3": "skipped"}
    (said,) = place.events("task.commented")
    assert said["by"] == "Tester"
