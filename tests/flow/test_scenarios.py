"""Scenarios in the loop: who does not do what they say is sent back, and so is who breaks them later."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from segue.domain.errors import NeedsHuman
from segue.domain.events import CheckRun
from segue.domain.job import Job
from segue.domain.options import read_options
from segue.domain.outcome import Outcome
from segue.domain.proof import Level
from segue.domain.scenario import Scenario
from segue.domain.task import TaskKind
from segue.flow.context import Policy
from tests.flow.loop import Behaviour, FunctionAgent, ListSource, Loop, in_turn
from tests.proof.projects import needs_sandbox

pytestmark = needs_sandbox

HELLO = "print('Hello')\n"


def write(**files: str) -> Behaviour:
    """An agent that writes files, by their names without `.py`."""

    def behave(job: Job) -> Outcome:
        for name, text in files.items():
            (job.workspace / f"{name}.py").write_text(text)
        return Outcome("Done.")

    return behave


def scenario(task: str | None, name: str, stdout: str) -> Scenario:
    return read_options(Scenario, {"task": task, "run": [sys.executable, f"{name}.py"], "stdout": stdout})


def test_task_is_sent_back_with_what_was_expected_and_what_came(tmp_path: Path) -> None:
    agent = FunctionAgent("one", in_turn(write(greet="print('Hi')\n"), write(greet=HELLO)))
    loop = Loop(tmp_path, ListSource("1"), [agent], sealed=True, scenarios=(scenario("1", "greet", "Hello"),))
    loop.session()
    assert "Expected the output `Hello`. Got `Hi`." in agent.jobs[1].prompt.text
    proof = loop.view.tasks["1"].proof
    assert proof is not None
    assert proof.level is Level.TESTED, "the agent could read the scenario"
    assert len(agent.jobs) == 2


def test_scenario_in_the_text_of_a_task_counts(tmp_path: Path) -> None:
    source = ListSource("1")
    text = f"Greet.\n\n```scenario\nrun = ['{sys.executable}', 'greet.py']\nstdout = 'Hello'\n```\n"
    source.found["1"] = replace(source.found["1"], text=text)
    loop = Loop(tmp_path, source, [FunctionAgent("one", write(greet="print('No')\n"))], sealed=True)
    with pytest.raises(NeedsHuman, match="Expected the output `Hello`"):
        loop.session()


def test_scenario_of_no_task_is_asked_of_the_last_one(tmp_path: Path) -> None:
    agent = FunctionAgent("one", in_turn(write(other="1\n"), write(greet=HELLO)))
    shown = (scenario(None, "greet", "Hello"),)
    loop = Loop(tmp_path, ListSource("1", "2"), [agent], sealed=True, scenarios=shown)
    loop.session()
    levels = [task.proof.level for task in loop.view.tasks.values() if task.proof]
    assert levels == [Level.CHANGED, Level.TESTED]


def test_scenario_that_passed_before_the_task_proves_nothing(tmp_path: Path) -> None:
    loop = Loop(tmp_path, ListSource("1"), [FunctionAgent("one", write(other="1\n"))], sealed=True)
    (loop.repo / "greet.py").write_text(HELLO)
    loop.git("add", ".")
    loop.git("commit", "-qm", "Greet")
    loop.scenarios = (scenario("1", "greet", "Hello"),)
    loop.session()
    proof = loop.view.tasks["1"].proof
    assert proof is not None
    assert proof.level is Level.CHANGED


def test_what_a_task_has_verified_must_stay_true(tmp_path: Path) -> None:
    agent = FunctionAgent(
        "one",
        in_turn(write(greet="x = 1\n"), write(note="1\n"), write(greet="x = 2\n"), write(greet="x = 1\n")),
    )
    source = ListSource("1", "2", "3")
    source.found["2"] = replace(source.found["2"], text="Run `python3 look.py` and see that it passes.")
    loop = Loop(tmp_path, source, [agent], sealed=True, policy=Policy(kinds={"2": TaskKind.VERIFY_ONLY}))
    (loop.repo / "look.py").write_text("import greet\nassert greet.x == 1\n")
    loop.git("add", ".")
    loop.git("commit", "-qm", "Look")
    loop.session()
    assert "This breaks Task 2." in agent.jobs[3].prompt.text
    proof = loop.view.tasks["3"].proof
    assert proof is not None
    assert proof.held == (1, 1)


class Killed(BaseException):
    """The process ends here."""


def test_kill_repeats_no_scenario_that_was_run(tmp_path: Path) -> None:
    def killed(job: Job) -> Outcome:
        raise Killed

    agent = FunctionAgent("one", in_turn(write(greet="print('Hi')\n"), killed, write(greet=HELLO)))
    loop = Loop(tmp_path, ListSource("1"), [agent], sealed=True, scenarios=(scenario("1", "greet", "Hello"),))
    with pytest.raises(Killed):
        loop.session()
    loop.session()
    ran = [one.event.exit_code for one in loop.events if isinstance(one.event, CheckRun)]
    assert len(ran) == 2
