"""The exit codes of runs that end in the middle, and the state that `status` then shows."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.cli.place import DEADLINE, Place, until

AGENT = """
import pathlib, sys, time
prompt = sys.stdin.read()
here, second = pathlib.Path(sys.argv[1]), "Write two" in prompt
behaviour = (here / "behaviour").read_text() if second else ""
if behaviour == "denied":
    sys.exit("Invalid API key · Please run /login")
if behaviour == "fails":
    sys.exit("I cannot do that")
if behaviour == "waits":
    (here / "waiting").touch()
    time.sleep(100)
number = next(word for word in ("one", "two", "three") if f"Write {word}" in prompt)
pathlib.Path(f"{number}.txt").write_text(number)
"""
"""Writes a file for each task; what it does in the second is in a file."""


class Stage:
    """A place with that agent."""

    def __init__(self, place: Place) -> None:
        self.place = place
        (place.root / "agent.py").write_text(AGENT)
        self.behave("")
        argv = f'["{sys.executable}", "{place.root}/agent.py", "{place.root}"]'
        place.config(f'agent = "command"\n[agents.command]\nargv = {argv}\n')

    def behave(self, how: str) -> None:
        (self.place.root / "behaviour").write_text(how)

    def run(self, how: str = "", *args: str, **env: str) -> int:
        self.behave(how)
        return self.place.segue("run", "plan.md", *args, code=None, **env).returncode

    def interrupt(self) -> int:
        self.behave("waits")
        process = self.place.start("run", "plan.md")
        until((self.place.root / "waiting").exists, "the second task")
        process.send_signal(signal.SIGINT)
        return process.wait(DEADLINE)

    def use_at_once(self) -> int:
        self.behave("waits")
        process = self.place.start("run", "plan.md")
        until((self.place.root / "waiting").exists, "the second task")
        code = self.place.segue("run", "plan.md", code=None).returncode
        process.send_signal(signal.SIGINT)
        process.wait(DEADLINE)
        return code

    def without_judge(self) -> int:
        self.place.more_config('judged_by = "llm"\njudge = { base_url = "http://127.0.0.1:1/v1" }\n')
        return self.run(OPENAI_API_KEY="sk-test", SEGUE_LIMITS__PATIENCE="0.5")


@dataclass(frozen=True)
class Case:
    """What a user does, what the exit code means, and the states of run and tasks afterwards."""

    do: Callable[[Stage], int]
    state: str | None = None
    tasks: tuple[str, ...] = ()


CASES = {
    0: Case(lambda stage: stage.run(), "done", ("done", "done", "done")),
    3: Case(lambda stage: stage.run("fails"), "needs_human", ("done", "needs_human", "done")),
    4: Case(lambda stage: stage.run("denied"), "needs_human", ("done", "needs_human", "pending")),
    6: Case(lambda stage: stage.use_at_once(), "stopped", ("done", "stopped", "pending")),
    7: Case(lambda stage: stage.without_judge(), "parked", ("parked", "pending", "pending")),
    130: Case(lambda stage: stage.interrupt(), "stopped", ("done", "stopped", "pending")),
}


@pytest.fixture
def stage(place: Place) -> Stage:
    return Stage(place)


@pytest.mark.parametrize("code", CASES)
def test_the_exit_code_is_as_documented(stage: Stage, code: int) -> None:
    case = CASES[code]
    assert case.do(stage) == code
    if case.state is not None:
        shown = stage.place.json("status", "last")
        assert (shown["state"], shown["lost"]) == (case.state, False)
        assert tuple(task["state"] for task in shown["tasks"]) == case.tasks


def test_a_run_whose_process_was_killed_is_lost(stage: Stage) -> None:
    stage.behave("waits")
    process = stage.place.start("run", "plan.md")
    until((stage.place.root / "waiting").exists, "the second task")
    process.kill()
    process.wait(DEADLINE)
    shown = stage.place.json("status", "last")
    assert (shown["state"], shown["lost"]) == ("stopped", True)
    stage.place.segue("stop")
    shown = stage.place.json("status", "last")
    assert (shown["state"], shown["lost"]) == ("stopped", False)
