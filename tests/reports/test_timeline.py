"""One run over time: lanes in order, bars where the steps were."""

from __future__ import annotations

from segue.reports.timeline import Timeline, read_timeline
from segue.store import connect
from tests.reports.dataset import Written


def found(data: Written, database: str, run: str) -> Timeline | None:
    with connect(data.write(database), read_only=True) as store:
        return read_timeline(store, run)


def test_lanes_and_bars(database: str) -> None:
    data = Written()
    run = data.run("one", "needs_human", t1="Set up", t2="Tables")
    run.on("1", "setup").passes()
    run.on("2", "schema").execute().verify(1, "FAIL", "RETRY", "no table").end(False)
    line = found(data, database, "one")
    assert line is not None
    lanes = [(lane.task, lane.title, lane.build_phase, lane.state) for lane in line.lanes]
    assert lanes == [("1", "Set up", "setup", "done"), ("2", "Tables", "schema", "needs_human")]
    bars = [(bar.phase, bar.begin, bar.end, bar.result, bar.reason) for bar in line.lanes[1].bars]
    assert bars == [("execute", 20.0, 30.0, "", ""), ("verify", 30.0, 40.0, "FAIL", "no table")]
    assert line.seconds == 40.0


def test_a_step_under_way_reaches_to_now(database: str) -> None:
    data = Written()
    data.run("one", "running").step("execute", state="started")
    line = found(data, database, "one")
    assert line is not None
    assert [(bar.begin, bar.end, bar.state) for bar in line.lanes[0].bars] == [(0.0, 900.0, "started")]


def test_a_run_without_steps(database: str) -> None:
    data = Written()
    data.run("one")
    line = found(data, database, "one")
    assert line is not None
    assert (line.seconds, line.lanes) == (0.0, ())


def test_no_such_run(database: str) -> None:
    assert found(Written(), database, "nobody") is None
