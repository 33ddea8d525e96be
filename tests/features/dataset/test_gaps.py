"""What fails across runs: counted by hand, the same on both databases."""

from __future__ import annotations

from typing import Any

from segue.domain.run import RunKind
from segue.features.dataset.reports.build import build_reports
from segue.features.dataset.reports.gaps import report_gaps
from segue.features.dataset.reports.report import DatasetReport, RunIds
from segue.features.dataset.reports.selection import Dataset, Selection
from segue.features.dataset.reports.statistics import Proportion, single_cases
from segue.store import connect
from tests.reports.dataset import Written


def report(data: Written, database: str) -> DatasetReport:
    with connect(data.write(database), read_only=True) as store:
        return report_gaps(Dataset(store, Selection()))


def rows(found: DatasetReport, name: str) -> list[dict[str, Any]]:
    table = next(table for table in found.tables if table.name == name)
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def example() -> Written:
    """Row level security fails in two of three runs, and is never finished in one of them."""
    data = Written()
    wordings = (
        "Row level security policies",
        "Row-level security policies",
        "Add row level security policies",
    )
    for number, title in enumerate(wordings):
        run = data.run(f"r{number}", "needs_human" if number == 2 else "done", t1="Set up", t2=title)
        run.on("1", "setup").passes()
        run.on("2", "schema").execute()
        if number == 0:
            run.verify(1, "PASS").end()
            continue
        run.verify(1, "FAIL", "RETRY", "no policy")
        message = f'permission denied for table "t{number}" at line {number}'
        run.event(
            "task/2/verify/1", "error", kind="CHECK_ERROR", message=message, task="2", build_phase="schema",
            signature="permission denied for table <name> at line <n>", exit_code=1,
        )  # fmt: skip
        run.resolve().verify(2, "PASS" if number == 1 else "FAIL", "RETRY", "still no policy").end(
            number == 1
        )
    return data


def test_by_build_phase(database: str) -> None:
    found = rows(report(example(), database), "build_phases")
    assert [(row["build_phase"], row["failed"], row["unfinished"]) for row in found] == [
        ("setup", single_cases(0, 3), single_cases(0, 3)),
        ("schema", single_cases(2, 3), single_cases(1, 3)),
    ]
    assert found[1]["launches"].value == 5 / 3


def test_tasks_are_brought_together_by_their_titles(database: str) -> None:
    found = rows(report(example(), database), "tasks")
    assert [(row["build_phase"], row["failed"], row["unfinished"], row["runs"]) for row in found] == [
        ("schema", single_cases(2, 3), single_cases(1, 3), RunIds(("r2", "r1"))),
    ]
    assert "security policies" in found[0]["task"]


def test_errors_are_clustered_and_lead_to_their_runs(database: str) -> None:
    found = rows(report(example(), database), "errors")
    assert [(row["signature"], row["kind"], row["times"], row["seen_in"], row["runs"]) for row in found] == [
        (
            "permission denied for table <name> at line <n>",
            "CHECK_ERROR",
            2,
            single_cases(2, 3),
            RunIds(("r2", "r1")),
        ),
        ("still no policy", "VERDICT", 1, single_cases(1, 3), RunIds(("r2",))),
    ]
    assert found[0]["build_phases"] == "schema 2"
    assert found[0]["example"] == 'permission denied for table "t1" at line 1'


def test_a_failed_step_speaks_for_itself_when_it_has_no_error(database: str) -> None:
    data = Written()
    for number in range(2):
        crashed: Any = {"kind": "crash", "message": f"exit code 1 in /tmp/x{number}.py"}
        data.run(f"r{number}", "needs_human").execute(1, state="failed", failure=crashed).end(False)
    found = rows(report(data, database), "errors")
    assert [(row["kind"], row["times"], row["seen_in"]) for row in found] == [
        ("CRASH", 2, single_cases(2, 2))
    ]


def test_limits_and_stops_are_no_gaps(database: str) -> None:
    data = Written()
    run = data.run("one")
    for attempt, kind in enumerate(("usage_limit", "interrupted", "outage"), 1):
        failure: Any = {"kind": kind, "message": f"{kind} happened"}
        run.execute(attempt, state="failed", failure=failure)
    run.event(
        "task/1/execute/1",
        "error",
        kind="PARSED_ERROR",
        failure="usage_limit",
        message="limit",
        signature="limit",
    )
    run.execute(4).verify(1, "PASS").end()
    found = report(data, database)
    assert rows(found, "errors") == []
    assert rows(found, "tasks") == []
    assert rows(found, "build_phases")[0]["failed"] == single_cases(0, 1)


def test_what_is_still_under_way_is_not_unfinished_work(database: str) -> None:
    data = Written()
    data.run("one", "running").on("1").passes().on("2").execute()
    found = rows(report(data, database), "build_phases")
    assert [(row["build_phase"], row["unfinished"]) for row in found] == [("(none)", single_cases(0, 1))]


def test_replaced_by_a_new_plan_is_not_unfinished_but_accepted_by_a_person_is(database: str) -> None:
    data = Written()
    run = data.run("one").on("1", "setup").execute().verify(1, "FAIL", "MODIFY_PLAN")
    run.end(False, "planned again: x", replanned=True)
    run.on("2", "schema").execute().verify(1, "FAIL", "STOP").end(True, "accepted by a person")
    found = {row["build_phase"]: row["unfinished"] for row in rows(report(data, database), "build_phases")}
    assert found == {"setup": single_cases(0, 1), "schema": single_cases(1, 1)}


def test_filters_choose_runs(database: str) -> None:
    data = Written()
    data.run("old", agent="codex", source="Build A").on("1", "setup").passes()
    run = data.run("new", "needs_human", source="Build b", model="sonnet").on("1", "schema")
    run.execute().verify(1, "FAIL", "RETRY").end(False)
    since = data.runs[1][5]
    data.write(database)
    with connect(database, read_only=True) as store:

        def phases(**chosen: Any) -> list[str]:
            return [
                str(row["build_phase"])
                for row in rows(report_gaps(Dataset(store, Selection(**chosen))), "build_phases")
            ]

        assert phases() == ["setup", "schema"]
        assert phases(since=since) == ["schema"]
        assert phases(agent="codex") == ["setup"]
        assert phases(model="sonnet", agent="claude") == ["schema"]
        assert phases(sources=("Build A", "x")) == ["setup"]
        assert phases(sources=()) == []


def test_the_first_verdict_by_build_phase_and_agent(database: str) -> None:
    """What fixes achieve later does not count."""
    data = Written()
    for number in range(3):
        opus = data.run(f"opus-{number}").on("1", "setup").passes()
        opus.on("2", "schema").execute().verify(1, "FAIL", "RETRY").resolve().verify(2, "PASS").end()
        codex = data.run(f"codex-{number}", agent="codex", model=None).on("1", "setup").passes()
        codex.on("2", "schema").passes().on("3", "schema").passes()
    found = rows(report(data, database), "first_verdicts")
    assert [tuple(row.values()) for row in found] == [
        ("setup", "claude opus", single_cases(3, 3)),
        ("setup", "codex", single_cases(3, 3)),
        ("schema", "claude opus", single_cases(0, 3)),
        ("schema", "codex", Proportion(((2, 2),) * 3)),
    ]


def test_a_gap_is_named_when_it_is_sure_in_spite_of_many_cells(database: str) -> None:
    data = Written()
    for number in range(12):
        run = data.run(f"r{number}")
        for task, phase in enumerate(("setup", "backend", "frontend"), 1):
            run.on(str(task), phase).passes()
        run.on("4", "schema").execute().verify(1, "PASS" if number < 2 else "FAIL", "STOP").end(number < 2)
    (note,) = report(data, database).notes
    assert note == (
        "Gap: first attempts at schema with claude opus pass in 2/12 runs 17% [4–44],"
        " of all first attempts 79% do."
    )


def test_kinds_of_runs_are_never_mixed(database: str) -> None:
    data = Written()
    for number in range(2):
        data.run(f"build-{number}").on("1", "setup").passes()
    data.run("plan", kind="plan").on("1", "schema").passes()
    data.run("chat", kind="conversation").on("1", "schema").passes()
    with connect(data.write(database), read_only=True) as store:
        [found] = build_reports(store, ("gaps",), Selection())
        [plans] = build_reports(store, ("gaps",), Selection(kind=RunKind.PLAN))
        [none] = build_reports(store, ("gaps",), Selection(kind=RunKind.TRIAL))
    assert (found.kind, found.runs) == ("build", 2)
    assert found.notes == ("Kinds of runs are never mixed. Not included: 1 of kind plan (--kind plan).",)
    assert (plans.kind, plans.runs, plans.notes) == ("plan", 1, ())
    assert none.runs == 0


def hand_counted() -> tuple[Written, dict[str, int]]:
    """Every way in which an attempt can fail, or seem to: how often each task failed, counted by hand."""
    data = Written()
    run = data.run("one", **{f"t{n}": f"Task {n}" for n in range(1, 13)})
    retry: Any = {"result": "FAIL", "action": "RETRY", "reason": "no"}
    crash: Any = {"kind": "crash", "message": "exit 1"}
    limit: Any = {"kind": "usage_limit", "message": "later"}
    run.on("1", "schema").passes()
    run.on("2", "schema").execute().step("check", 1, "failed").resolve().step("check", 2).verify(
        1, "PASS"
    ).end()
    run.on("3", "schema").execute(1, state="failed", failure=crash).execute(2).verify(1, "PASS").end()
    run.on("4", "schema").execute(1, state="failed", failure=limit).execute(2).verify(1, "PASS").end()
    run.on("5", "schema").execute().verify(1, "FAIL", "RETRY").resolve().verify(2, "FAIL", "RETRY").end(False)
    run.on("6", "schema").execute().step("check", 1, "failed").step("contest", 1, verdict=retry).verify(
        1, "PASS"
    ).end()
    run.on("7", "schema").execute().step("check", 1, "failed").step("contest", 1, "failed", verdict=retry)
    run.resolve().step("check", 2).verify(1, "PASS").end()
    run.on("8", "schema").execute().step("hooks", 1, "failed").resolve().step("hooks", 2).verify(
        1, "PASS"
    ).end()
    run.on("9", "schema").execute().step("verify", 1, "failed", verdict=retry, failure=crash).verify(
        2, "PASS"
    ).end()
    run.on("10", "schema").execute().step("search", 1, "failed", verdict=retry).verify(1, "PASS").end()
    run.on("11", "schema").execute().step("check", 1)  # it passes, and names a test that is skipped now
    run.event("task/11/check/1", "verdict", task="11", result="PARTIAL", reason="skipped", action="RETRY")
    run.resolve().step("check", 2).end()
    run.on("12", "schema").execute().step("check", 1)  # the same, and nobody may be sent back any more
    run.event("task/12/check/1", "verdict", task="12", result="PARTIAL", reason="skipped", action="RETRY")
    run.step("commit", 1).end()
    times = (0, 1, 1, 0, 2, 0, 1, 1, 0, 0, 1, 0)
    return data, {str(task): failed for task, failed in enumerate(times, 1)}


def test_one_definition_of_a_failed_attempt_feeds_every_table(database: str) -> None:
    data, counted = hand_counted()
    failed = sum(1 for times in counted.values() if times)
    found = report(data, database)
    assert rows(found, "build_phases")[0]["failed"].hits == failed
    assert sum(row["failed"].hits for row in rows(found, "tasks")) == failed
    assert rows(found, "first_verdicts")[0]["passed_first"].hits == len(counted) - failed
    with connect(database, read_only=True) as store:
        tasks = store.query("SELECT task, failed_attempts FROM segue_tasks")
        assert {row["task"]: row["failed_attempts"] for row in tasks} == counted
        listed = store.query("SELECT task FROM segue_failed_attempts")
        assert {task: [row["task"] for row in listed].count(task) for task in counted} == counted
        first = store.query("SELECT task, passed FROM segue_first_attempts")
        assert {row["task"]: bool(row["passed"]) for row in first} == {
            task: not times for task, times in counted.items()
        }
