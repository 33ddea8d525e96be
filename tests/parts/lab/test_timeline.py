"""One run over time: lanes in order, bars where the steps were."""

from __future__ import annotations

from segue.parts.lab.reports.build import build_run_report
from segue.reports.timeline import Timeline
from segue.store import connect
from tests.reports.dataset import Written


def found(data: Written, database: str, run: str) -> Timeline | None:
    with connect(data.write(database), read_only=True) as store:
        report = build_run_report(store, run)
    return report.timeline if report else None


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


def test_lanes_have_a_table_of_their_own(database: str) -> None:
    data = Written()
    run = data.run("one", t1="Set up", t2="Tables", t3="Pages")
    run.event(None, "task.started", task="1", title="Set up", lane=1)
    run.event(None, "task.started", task="2", title="Tables", lane=2)
    run.clock += 9_500
    run.event("task/1/merge/1", "step.started", gen=1, token="t", task="1", phase="merge")
    run.clock += 500
    run.event("task/1/merge/1", "task.merged", task="1", commit="a" * 40, before="b" * 40)
    run.event("task/1/merge/1", "step.ended", gen=1, ok=True)
    run.event(None, "task.ended", task="1", done=True)
    run.event(None, "task.started", task="3", title="Pages", lane=1, after="1", why="both name a.py")
    run.clock += 10_000
    collided = {"tasks": ["1"], "files": ["a.py"], "reason": "both changed it", "then": "human"}
    run.event(None, "task.collided", task="3", **collided)
    run.event(None, "task.ended", task="3", done=False)
    run.event(None, "task.ended", task="2", done=True)
    with connect(data.write(database), read_only=True) as store:
        report = build_run_report(store, "one")
    assert report is not None
    [lanes] = [table for table in report.tables if table.name == "lanes"]
    assert [tuple(row[name] for name in ("lane", "task", "begin", "seconds")) for row in lanes.records()] == [
        (1, "1", 0, 10),
        (2, "2", 0, 20),
        (1, "3", 10, 10),
    ]
    assert [row["merge_seconds"] for row in lanes.records()] == [0.5, None, None]
    assert [row["collided"] for row in lanes.records()] == ["", "", "yes"]
    assert report.notes[1:] == (
        "2.0 tasks at a time; merging took 0.5s, 1 collision.",
        "What serialised them: 3 waited for 1: both name a.py.",
    )
