"""Values of a wrong type, which either database can hold: named, passed over, and repaired."""

from __future__ import annotations

import asyncio
import logging

import pytest

from segue.domain.errors import DamagedRecord
from segue.domain.events import NoticeGiven, UnknownEvent
from segue.domain.results import EndOutput, StepFacts, StepResult
from segue.domain.run import RunState
from segue.store import connect
from segue.store.database import open_database
from tests.store.driving import driven

EVENT = ("UPDATE orchestrator_events SET data = ? WHERE type = 'notice'", "event")
STEP = ("UPDATE orchestrator_steps SET output = ? WHERE key = 'task/1/end'", "step")
OPTIONS = ("UPDATE orchestrator_runs SET spec = ?", "options")
END = "task/1/end"


def make_run(address: str) -> str:
    async def main() -> str:
        with connect(address) as store:
            async with driven(store) as journal:
                await journal.emit(NoticeGiven("first"))
                await journal.record(END, StepResult(True, EndOutput(done=True)), StepFacts("1", "end"))
                await journal.set_state(RunState.STOPPED)
            return journal.run.id

    return asyncio.run(main())


def damage(address: str, statement: str, value: str) -> None:
    database = open_database(address)
    with database.transaction():
        assert database.change(statement, value) == 1
    database.close()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (EVENT, '{"text": 5}'),
        (EVENT, "[1, 2]"),
        (STEP, '{"done": "x"}'),
        (STEP, "5"),
        (OPTIONS, '{"source": 5}'),
        (OPTIONS, "null"),
    ],
)
def test_a_value_of_a_wrong_type_costs_one_record(
    database: str, place: tuple[str, str], value: str, caplog: pytest.LogCaptureFixture
) -> None:
    run, (statement, what) = make_run(database), place
    damage(database, statement, value)
    with caplog.at_level(logging.WARNING), connect(database, read_only=True) as store:
        assert [one.id for one in store.runs()] == ([] if what == "options" else [run])
        unreadable = [one for one in store.events(run) if isinstance(one.event, UnknownEvent)]
        assert len(unreadable) == (what == "event")
        assert len(store.steps(run)) == (what != "step")
        [found] = store.damage()
        assert found.name.startswith({"options": "the options"}.get(what, what))
    assert f"of run {run} is damaged" in caplog.text
    with connect(database) as store:
        store.repair([found])
        assert store.damage() == []
        assert [one.id for one in store.runs()] == [run]


def test_what_a_damaged_step_said_is_never_guessed(database: str) -> None:
    run = make_run(database)
    damage(database, STEP[0], '{"done": "x"}')

    async def main() -> None:
        with connect(database) as store:
            async with driven(store, run) as journal:
                assert journal.state(END) is not None, "that it has ended is known"
                with pytest.raises(DamagedRecord, match="task/1/end"):
                    journal.recorded(END, EndOutput)

    asyncio.run(main())
