"""Replay says of every decision what the run did, in every flow, whatever else happened in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.run import Run, RunSpec, RunState, Step, StepState
from segue.domain.verdict import Action
from segue.flow.phase import PHASES, PRESETS
from segue.parts.lab.replay.decide import OtherPolicy, redecide
from segue.parts.lab.replay.points import RunRecord, read_record
from tests.cli.place import Place
from tests.cli.test_build import GOAL, plan, step
from tests.parts.lab.test_replay import EXISTS, FINAL, SCRIPT

SILENT = [
    *(name for name, phase in PHASES.items() if not phase.in_flows and not phase.edits),
    *("revise", "commit", "sleep", "park", "hooks", "base"),
]
"""Steps that may lie between a decision and what follows; `base` begins a task anew and is never there."""
BETWEEN = st.lists(
    st.sampled_from(sorted({*SILENT} - {"base", "search", "diagnostic", "resolve"})), max_size=3
)
LIMIT = 3
CHOSEN = (
    Action.RETRY,
    Action.WEB_SEARCH,
    Action.RUN_DIAGNOSTIC,
    Action.SKIP,
    Action.MODIFY_PLAN,
    Action.STOP,
)


class Recorder:
    """Writes the steps of a task as its flow makes them, and what each decision was."""

    def __init__(self, flow: tuple[str, ...], draw: Callable[[Any], Any]) -> None:
        self.steps: list[Step] = []
        self.decisions: list[Action] = []
        self.flow, self._draw, self._spent = flow, draw, 0

    def add(self, phase: str, *, between: bool = False, **output: Any) -> None:
        for name in self._draw(BETWEEN) if between else ():
            self.add(name)
        number = len(self.steps)
        state = StepState.DONE
        key = f"task/1/{phase}/{number}"
        self.steps.append(
            Step("r", key, 1, state, "t", "1", phase, number, {}, output, number, number + 1, agent="judge")
        )

    def run(self) -> None:
        self.add("base")
        for phase in self.flow:
            if phase in ("check", "verify"):
                if not self._judge(phase):
                    return
            elif phase == "replan":
                self.add("replan")
                self.add("revise")
            else:
                self.add(phase, verdict=verdict("PASS", "PROCEED"))
        self.add("end", between=True, done=True)

    def _judge(self, phase: str) -> bool:
        """Return whether the task proceeds."""
        while True:
            passed = self._draw(st.booleans())
            action = Action.RETRY if phase == "check" else self._draw(st.sampled_from(CHOSEN))
            if action in (Action.RETRY, Action.WEB_SEARCH, Action.RUN_DIAGNOSTIC) and self._spent >= LIMIT:
                action = Action.STOP
            self._say(phase, passed, action)
            self.decisions.append(Action.PROCEED if passed else action)
            if passed:
                return True
            match action:
                case Action.SKIP:
                    self.add("end", between=True, done=True, skipped=True)
                    return False
                case Action.STOP:
                    self.add("end", between=True, done=False)
                    return False
                case Action.MODIFY_PLAN:
                    self.add("replan", between=True)
                    self.add("revise")
                    self.add("end", between=True, done=False, replanned=True)
                    return False
            self._spent += 1
            if action is not Action.RETRY:
                self.add("search" if action is Action.WEB_SEARCH else "diagnostic", between=True)
            self.add("resolve", between=True, verdict=verdict("PASS", "PROCEED"))

    def _say(self, phase: str, passed: bool, action: Action) -> None:
        if phase == "check":
            checks = [{"command": "pytest", "exit_code": 0 if passed else 1, "output": ""}]
            self.add("check", checks=checks)
        else:
            said = verdict("PASS", "PROCEED") if passed else verdict("FAIL", action)
            self.add("verify", verdict=said)


def verdict(result: str, action: str) -> dict[str, Any]:
    return {"result": result, "action": action, "reason": "because", "criteria": []}


def record(flow: tuple[str, ...], draw: Callable[[Any], Any]) -> tuple[RunRecord, list[Action]]:
    recorder = Recorder(flow, draw)
    recorder.run()
    spec = RunSpec("prompt", "x", "/r", "claude", "build", phases=flow)
    return read_record(Run("r", "x", spec, RunState.DONE, None, 0, 0), recorder.steps, ()), recorder.decisions


@given(st.sampled_from(sorted(PRESETS.values())), st.data())
def test_every_recorded_decision_is_read_as_it_was(flow: tuple[str, ...], data: st.DataObject) -> None:
    found, decisions = record(flow, data.draw)
    points = [point for point in found.points if point.phase != "end"]
    assert [point.decision for point in points] == decisions
    for point in points:
        again = redecide(point, found, OtherPolicy(resolutions=LIMIT), lambda: LIMIT)
        assert (again.decision, again.lacks) == (point.decision, "")


ASKS = (
    '[[on]]\nphase = "verify"\nattempt = 1\n'
    'verdict = { unmet = "all", action = "RUN_DIAGNOSTIC", request = "pytest --version" }\n'
)
TWICE = ["RETRY", "RETRY", "PROCEED"]
DECIDED = {
    "execute": TWICE,
    "review": TWICE,
    "plan": TWICE,
    "spec": [*TWICE, "RETRY", "PROCEED", "PROCEED"],
    "build": ["PROCEED", "RUN_DIAGNOSTIC", "PROCEED", "PROCEED"],
}
"""What each flow does with work that fails its checks twice, and once before a judge who asks for a command:
only a build from a prompt runs it, others take it for another attempt."""


@pytest.mark.thorough
@pytest.mark.parametrize("flow", sorted(PRESETS))
def test_the_same_policy_decides_the_same_about_a_real_run(place: Place, flow: str) -> None:
    is_build = flow == "build"
    place.env["SEGUE_LIMITS__RESOLUTIONS"] = "3"
    place.script((plan(step("a")) if is_build else "") + ASKS + SCRIPT)
    if not is_build:
        place.more_config(f'checks = ["{EXISTS}", "{FINAL}"]\n')
    place.segue("run", *([GOAL] if is_build else ["plan.md", "--task", "1", "--flow", flow]))
    found = place.json("replay", "last", "--policy", "limits.resolutions=3")
    assert [row["recorded"]["decision"] for row in found["rows"]] == DECIDED[flow]
    assert (found["differ"], found["undecided"], found["less"]["launches"]) == (0, 0, 0)


def test_replay_says_what_a_real_run_did_for_every_action(place: Place) -> None:
    """The run's own verdicts say what the judge chose; a limit turns its last wish into STOP."""
    asked = (
        ("1", 1, "WEB_SEARCH"),
        ("1", 2, "RUN_DIAGNOSTIC"),
        ("2", 1, "MODIFY_PLAN"),
        ("3", 1, "SKIP"),
        ("4", 1, "RETRY"),
        ("4", 2, "RETRY"),
        ("4", 3, "RETRY"),
    )
    asks = "".join(
        f'[[on]]\nphase = "verify"\ntask = {task}\nattempt = {attempt}\n'
        f'verdict = {{ unmet = "all", action = "{action}", request = "pytest --version" }}\n'
        for task, attempt, action in asked
    )
    kept = '{"steps": [{"keep": "3"}, {"keep": "4"}]}'
    place.script(
        plan(*(step(name) for name in "abcd"))
        + asks
        + f"[[on]]\nphase = 'replan'\nattempt = 1\nplan = '''{kept}'''\n"
        + SCRIPT
    )
    place.env["SEGUE_LIMITS__RESOLUTIONS"] = "2"
    place.segue("run", GOAL, code=3)
    done = [event["action"] for event in place.events("verdict") if event["criteria"]]
    assert done[-1] == "RETRY", "but the limit was reached"
    found = place.json("replay", "last", "--policy", "limits.resolutions=2")
    judged = [row["recorded"]["decision"] for row in found["rows"] if row["phase"] == "verify"]
    assert judged == [*done[:-1], "STOP"]
    assert set(judged) == {action for _, _, action in asked} | {"PROCEED", "STOP"}
    assert (found["differ"], found["undecided"], found["less"]["launches"]) == (0, 0, 0)
