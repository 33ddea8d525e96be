"""A run waits at its gates until a person lets it go on, also when it is killed there."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from segue.domain.errors import AtGate
from segue.flow.context import Policy
from tests.flow.loop import FunctionAgent, ListSource, Loop, edit


def gated(tmp_path: Path, *gates: str) -> tuple[Loop, FunctionAgent]:
    source = ListSource(*"1234")
    source.found["2"] = replace(source.found["2"], checkpoint="It starts")
    agent = FunctionAgent("one", edit())
    return Loop(tmp_path, source, [agent], policy=Policy(gates=gates)), agent


def ran(agent: FunctionAgent) -> list[str]:
    return [job.labels["task"] for job in agent.jobs]


def test_a_checkpoint_waits_for_a_person(tmp_path: Path) -> None:
    loop, agent = gated(tmp_path, "checkpoint")
    with pytest.raises(AtGate, match="waits for you after task 2: It starts") as caught:
        loop.session()
    assert "segue resume" in caught.value.hint
    assert ran(agent) == ["1", "2"]
    assert loop.view.gate == "2"
    with pytest.raises(AtGate):
        loop.session()
    assert ran(agent) == ["1", "2"], "after a kill nobody has decided"
    loop.resumed_by_person = True
    loop.session()
    assert ran(agent) == ["1", "2", "3", "4"]
    assert loop.view.passed == {"2"}


def test_a_pause_after_each_task(tmp_path: Path) -> None:
    loop, agent = gated(tmp_path, "task")
    for count in (1, 2, 3):
        with pytest.raises(AtGate, match=f"after task {count}"):
            loop.session()
        assert len(agent.jobs) == count
        loop.resumed_by_person = True
    loop.session()
    assert ran(agent) == ["1", "2", "3", "4"]


def test_checkpoints_that_the_run_did_not_work_up_to_do_not_stop_it(tmp_path: Path) -> None:
    loop, agent = gated(tmp_path, "checkpoint")
    loop.session(["3", "4"])
    assert ran(agent) == ["3", "4"]
