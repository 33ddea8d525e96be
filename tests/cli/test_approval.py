"""A person's word on a plan and on the work: approve, edit, reject, comment."""

from __future__ import annotations

import os
import pty
import subprocess

import pytest

from tests.cli.place import DEADLINE, Place, until
from tests.cli.test_build import GOAL, plan, prompt_of, step, tasks
from tests.cli.test_spec import feature as feature
from tests.cli.test_spec import folder

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
    assert "segue task comment plan" in done.stderr
    assert place.subjects() == []
    assert tasks(place) == {"1": "pending", "2": "pending"}
    place.segue("resume")
    assert place.subjects() == ["Task 1: Make a", "Task 2: Make b"]
    assert outlines(place) == ["run/outline/1"]


@pytest.mark.thorough
def test_nobody_is_asked_without_a_terminal(place: Place) -> None:
    place.script(TWO)
    place.segue("run", GOAL)
    assert len(place.subjects()) == 2


@pytest.mark.thorough
def test_the_setting_can_be_overruled(place: Place) -> None:
    place.script(TWO)
    place.more_config('gates = ["plan"]\n')
    place.segue("run", GOAL, code=3)
    other = place.root / "other"
    place.env |= {"GIT_CONFIG_COUNT": "2"}
    place.env |= {"GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "T"}
    place.env |= {"GIT_CONFIG_KEY_1": "user.email", "GIT_CONFIG_VALUE_1": "t@localhost"}
    (place.root / "home" / ".gitconfig").write_text("[user]\nname = T\nemail = t@localhost\n")
    place.segue("run", GOAL, "--repo", str(other), "--no-approve")
    assert (other / "notes" / "task-1.md").exists()


@pytest.mark.thorough
def test_a_rejected_plan_is_made_again_with_the_words(place: Place) -> None:
    place.script(OTHER + TWO)
    place.segue("run", GOAL, "--approve", code=3)
    place.segue("task", "comment", "plan", "One step is enough.")
    place.segue("task", "comment", "plan", "Call it c.")
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


@pytest.mark.thorough
def test_a_kill_while_the_plan_is_made_again_launches_nobody_twice(place: Place) -> None:
    place.script(OTHER.replace("attempt = 2", "attempt = 2\ndelay = 1") + TWO)
    place.segue("run", GOAL, "--approve", code=3)
    place.segue("task", "comment", "plan", "One step is enough.")
    process = place.start("resume")
    until(lambda: place.started("run/outline/2"), "the planner works")
    process.kill()
    process.wait()
    place.segue("resume", code=3)
    assert outlines(place) == ["run/outline/1", "run/outline/2"]
    assert tasks(place) == {"3": "pending"}
    place.segue("resume")
    assert place.subjects() == ["Task 3: Make c"]


@pytest.mark.thorough
def test_a_plan_is_edited_in_the_editor(place: Place) -> None:
    place.script(TWO)
    place.segue("run", GOAL, "--approve", code=3)
    editor(place, 'sed -i "s/title: Make b/title: Make it better/; s/There is b/There is much/" "$1"')
    assert place.json("task", "edit")["changed"]
    assert tasks(place) == {"1": "pending", "3": "pending"}, "a step that stays keeps its number"
    place.segue("resume")
    assert place.subjects() == ["Task 1: Make a", "Task 3: Make it better"]
    assert "There is much." in prompt_of(place, "task/3/execute/1")
    assert "edited by Tester" in place.events("plan.revised")[-1]["reason"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("sed -i 's/build_phase: backend/build_phase: cellar/' $1", "cellar"),
        ("echo '- [' > $1", "cannot be used"),
        ("echo '[]' > $1", "list of steps"),
        ("echo 'title: x' > $1", "list of steps"),
    ],
)
def test_an_edited_plan_that_cannot_be_used_changes_nothing(place: Place, script: str, said: str) -> None:
    place.script(TWO)
    place.segue("run", GOAL, "--approve", code=3)
    editor(place, script)
    assert said in place.segue("task", "edit", code=2).stderr
    assert tasks(place) == {"1": "pending", "2": "pending"}
    editor(place, "true")
    assert not place.json("task", "edit")["changed"]


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_a_comment_opens_a_task_again_and_its_agent_gets_the_words(place: Place) -> None:
    place.script(WORK)
    place.segue("run", "plan.md")
    run = place.last_run()
    place.script(AGAIN)
    place.segue("task", "comment", "2", "src/a.py:3: Say it in one line.")
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


@pytest.mark.thorough
def test_a_task_that_needs_a_person_is_tried_again_with_the_words(place: Place) -> None:
    place.script('[[on]]\ntask = "2"\nsay = "I could not."\n' + WORK)
    place.segue("run", "plan.md", code=3)
    place.segue("task", "comment", "2", "The file is called f2.")
    place.script(WORK)
    place.segue("resume")
    assert place.json("status", "last")["state"] == "done"
    rows = place.rows("select p.text from orchestrator_prompts p order by p.created")
    told = [text for (text,) in rows if "The file is called f2." in text]
    assert len(told) == 1, "once the task is done, the words are no longer sent"


def test_a_question_is_shown_and_answered(place: Place) -> None:
    place.script('[[on]]\ntask = "1"\nsay = "Which database do you want, a or b?"\n' + WORK)
    failed = place.segue("run", "plan.md", "--task", "1", code=3)
    assert "The agent asks: Which database do you want, a or b?" in failed.stderr
    shown = place.segue("status", "last").stdout
    assert "The agent asks: Which database" in shown
    assert 'segue task answer 1 "…"' in shown
    place.segue("task", "answer", "1", "Take b.")
    place.script(WORK)
    place.segue("resume")
    (prompt,) = [text for (text,) in place.rows("select text from orchestrator_prompts") if "Take b." in text]
    assert prompt.index("Which database do you want") < prompt.index("Take b."), (
        "the answer is with its question"
    )


@pytest.mark.thorough
def test_what_cannot_be_done_is_shown_with_its_evidence_and_answered(place: Place) -> None:
    way_out = '{"cannot": "the plan names no file", "evidence": [{"file": "plan.md", "quote": "Task 1"}]}'
    place.script(f"[[on]]\ntask = \"1\"\nsay = 'I read it.\\n{way_out}'\n".replace("\\n", " ") + WORK)
    failed = place.segue("run", "plan.md", "--task", "1", code=3)
    assert "The agent says that this cannot be done: the plan names no file" in failed.stderr
    shown = ("status", "last"), ("proof", "last", "--markdown")  # the second is in a pull request
    for words in shown:
        assert "plan.md “Task 1”" in place.segue(*words).stdout
    place.segue("task", "answer", "1", "Take any file.")
    place.script(WORK)
    place.segue("resume")
    prompts = [text for (text,) in place.rows("select text from orchestrator_prompts")]
    assert any("the plan names no file" in text and "Take any file." in text for text in prompts)


@pytest.mark.thorough
def test_a_tick_of_a_feature_is_taken_back(feature: Place) -> None:
    feature.segue("run", str(folder(feature)))
    feature.segue("task", "comment", "T002", "Greet more warmly.")
    text = (folder(feature) / "tasks.md").read_text()
    assert "- [ ] T002" in text
    assert "- [X] T003" in text or "- [x] T003" in text
    feature.script('[[on]]\nphase = "execute"\nwrite = { "done/again" = "x" }\n')
    feature.more_config('judged_by = "checks"\nchecks = [["test", "-d", "done"]]\n')
    feature.segue("resume")
    assert "- [ ]" not in (folder(feature) / "tasks.md").read_text()


@pytest.mark.thorough
def test_comments_that_nobody_would_read_are_refused(place: Place) -> None:
    place.script(WORK)
    place.segue("run", "plan.md", "--task", "1")
    assert "asks nothing" in place.segue("task", "answer", "1", "Yes", code=2).stderr
    assert "no task '9'" in place.segue("task", "comment", "9", "Hello", code=2).stderr
    assert "needs words" in place.segue("task", "comment", "2", "  ", code=2).stderr
    assert "is not waiting for you" in place.segue("task", "comment", "plan", "Hello", code=2).stderr
    assert "not from a plan" in place.segue("task", "edit", code=2).stderr
    assert "no effect" in place.segue("run", "plan.md", "--approve", code=2).stderr
    assert place.events("task.commented") == []


def test_words_about_tasks_that_have_not_begun_are_taken_while_the_run_works(place: Place) -> None:
    place.script(f"[[on]]\ntask = 1\nwait_for = '{place.gate}'\nwrite = {{ 'a' = 'x' }}\n" + WORK)
    process = place.start("run", "plan.md")
    until(lambda: place.started("task/1/execute/1"), "the agent works")
    assert "next launch" in place.segue("task", "comment", "2", "Mind the gap.").stderr
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


@pytest.mark.thorough
def test_words_that_were_sent_survive_a_kill(place: Place) -> None:
    place.script(f"[[on]]\ntask = 1\nwait_for = '{place.gate}'\nwrite = {{ 'a' = 'x' }}\n" + WORK)
    process = place.start("run", "plan.md", "--jobs", "1")
    until(lambda: place.started("task/1/execute/1"), "the agent works")
    place.segue("task", "skip", "2", "--reason", "by hand")
    place.segue("task", "comment", "3", "Mind the gap.")
    process.kill()
    process.wait(DEADLINE)
    place.gate.touch()
    place.segue("resume")
    states = {task["key"]: task["state"] for task in place.json("status", "last")["tasks"]}
    assert states == {"1": "done", "2": "skipped", "3": "done"}
    assert len(place.events("task.commented")) == 1


def test_a_comment_while_an_agent_works_is_taken_and_sent_to_it_next(place: Place) -> None:
    place.script(f"[[on]]\ntask = 1\nwait_for = '{place.gate}'\nwrite = {{ 'a' = 'x' }}\n" + WORK)
    process = place.start("run", "plan.md", "--task", "1")
    until(lambda: place.started("task/1/execute/1"), "the agent works")
    assert "next launch" in place.segue("task", "comment", "1", "Hurry.").stderr
    place.gate.touch()
    assert process.wait(DEADLINE) == 0
    assert "Hurry." in prompt_of(place, "task/1/execute/2")
