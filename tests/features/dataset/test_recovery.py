"""What helps after a failed verdict: counted by hand, the same on both databases."""

from __future__ import annotations

from typing import Any

from segue.features.dataset.reports.recovery import CAVEAT, report_recovery
from segue.features.dataset.reports.report import DatasetReport
from segue.features.dataset.reports.selection import Dataset, Selection
from segue.features.dataset.reports.statistics import Proportion, single_cases
from segue.store import connect
from tests.reports.dataset import Written


def report(data: Written, database: str) -> DatasetReport:
    with connect(data.write(database), read_only=True) as store:
        return report_recovery(Dataset(store, Selection()))


def recovered(found: DatasetReport) -> dict[object, object]:
    return {row[0]: row[1] for row in found.tables[0].rows}


def test_each_action_is_counted_by_the_verdict_that_follows(database: str) -> None:
    data = Written()
    one = data.run("one")
    one.on("1").execute().verify(1, "FAIL", "RETRY").resolve().verify(2, "FAIL", "WEB_SEARCH")
    one.step("search").resolve(2).verify(3, "PASS").end()
    one.on("2").execute().verify(1, "PARTIAL", "RUN_DIAGNOSTIC").step("diagnostic")
    one.resolve().verify(2, "PASS").end()
    one.on("3").passes()
    two = data.run("two", "needs_human")
    two.on("1").execute().verify(1, "FAIL", "WEB_SEARCH").step("search")
    two.resolve().verify(2, "FAIL", "RETRY").end(False)
    found = recovered(report(data, database))
    assert found == {
        "RETRY": single_cases(0, 1),  # the last RETRY was not followed by anything
        "WEB_SEARCH": single_cases(1, 2),
        "RUN_DIAGNOSTIC": single_cases(1, 1),
        "MODIFY_PLAN": single_cases(0, 0),
    }


def test_an_attempt_that_fails_itself_has_not_helped(database: str) -> None:
    data = Written()
    run = data.run("one", "needs_human")
    crashed: Any = {"state": "failed", "failure": {"kind": "crash", "message": "boom"}}
    run.execute().verify(1, "FAIL", "RETRY").resolve(1, **crashed).end(False)
    assert recovered(report(data, database))["RETRY"] == single_cases(0, 1)


def test_failed_checks_hooks_and_agents_count_like_verdicts(database: str) -> None:
    """The one definition of a failed attempt: segue_failed_attempts."""
    data = Written()
    crashed: Any = {"verdict": {"result": "FAIL"}, "failure": {"kind": "crash", "message": "boom"}}
    limited: Any = {"verdict": {"result": "FAIL"}, "failure": {"kind": "usage_limit", "message": "wait"}}
    run = data.run("one")
    run.on("1").execute().step("check", 1, "failed").resolve().step("check", 2).verify(1, "PASS").end()
    run.on("2").execute().step("check", 1, "failed").resolve().step("check", 2, "failed")
    run.resolve(2).step("check", 3).end()  # no judge
    run.on("3").step("execute", 1, "failed", **crashed).verify(1, "FAIL", "WEB_SEARCH").step("search")
    run.resolve().step("check", 1, "failed").resolve(2).step("check", 2).verify(2, "PASS").end()
    run.event("task/3/search/1", "search", task="3", query="q", source="s", results=[])
    run.on("4").execute().verify(1, "PASS").step("hooks", 1, "failed").resolve().verify(2, "PASS").end()
    run.on("5").step("execute", 1, "failed", **limited).step("execute", 2).step("check", 1).end()
    run.on("6").execute().step("check", 1, "failed").step("contest", 1).step("check", 2).end()
    assert recovered(report(data, database)) == {
        "RETRY": Proportion(((4, 5),)),  # 1; 2 twice, of which the first fails again; 3 after the search; 4
        "WEB_SEARCH": Proportion(((0, 1),)),  # the attempt after it failed its checks
        "RUN_DIAGNOSTIC": single_cases(0, 0),
        "MODIFY_PLAN": single_cases(0, 0),
    }


def test_a_judge_that_failed_is_passed_over(database: str) -> None:
    data = Written()
    run = data.run("one").execute().verify(1, "FAIL", "RETRY").resolve()
    broken: Any = {"verdict": {"result": "FAIL", "action": "RETRY"}, "failure": {"kind": "no_result"}}
    run.step("verify", 2, "failed", **broken).verify(3, "PASS").end()
    assert recovered(report(data, database))["RETRY"] == single_cases(1, 1)


def test_starting_over_is_not_what_the_verdict_led_to(database: str) -> None:
    data = Written()
    run = data.run("one").execute().verify(1, "FAIL", "RETRY").end(False)
    passed: Any = {"verdict": {"result": "PASS", "action": "PROCEED", "reason": ""}, "failure": None}
    run.step("execute", 1, gen=2, failure=None).step("verify", 1, gen=2, **passed)
    assert recovered(report(data, database))["RETRY"] == single_cases(0, 0)


def test_after_a_new_plan_the_next_verdict_of_the_run_counts(database: str) -> None:
    data = Written()
    run = data.run("one").execute().verify(1, "FAIL", "MODIFY_PLAN").step("replan")
    run.end(False, "planned again: x").on("2").passes()
    assert recovered(report(data, database))["MODIFY_PLAN"] == single_cases(1, 1)


def test_a_difference_is_named_only_when_it_is_shown(database: str) -> None:
    data = Written()
    for number in range(20):
        searched = data.run(f"searched {number}").execute().verify(1, "FAIL", "WEB_SEARCH").step("search")
        searched.resolve().verify(2, "PASS" if number < 19 else "FAIL").end()
        retried = data.run(f"retried {number}").execute().verify(1, "FAIL", "RETRY").resolve()
        retried.verify(2, "PASS" if number < 4 else "FAIL").end()
        looked = data.run(f"looked {number}").execute().verify(1, "FAIL", "RUN_DIAGNOSTIC").step("diagnostic")
        looked.resolve().verify(2, "PASS" if number < 6 else "FAIL").end()
    found = report(data, database)
    says = {row[0]: row[3] for row in found.tables[0].rows}
    assert says == {
        "RETRY": "",
        "WEB_SEARCH": "recovers more often",
        "RUN_DIAGNOSTIC": "no significant difference",
        "MODIFY_PLAN": "",
    }
    assert found.notes[0] == CAVEAT
    assert found.notes[1].startswith("WEB_SEARCH recovers more often than RETRY: +")
    assert len(found.notes) == 2


def test_what_was_not_delivered_is_no_recovery(database: str) -> None:
    data = Written()
    run = data.run("one").execute().verify(1, "FAIL", "RUN_DIAGNOSTIC").step("diagnostic", 1, "failed")
    run.resolve().verify(2, "FAIL", "WEB_SEARCH").step("search", 1, "failed").resolve(2).verify(
        3, "PASS"
    ).end()
    run.event("task/1/search/1", "search", task="1", query="q", source="s", results=[], failure="down")
    run.on("2").execute().verify(1, "FAIL", "MODIFY_PLAN").end(False).on("3").passes()
    found = report(data, database)
    assert {row[0]: (row[1], row[4]) for row in found.tables[0].rows} == {
        "RETRY": (single_cases(0, 0), 0),
        "WEB_SEARCH": (single_cases(0, 0), 1),
        "RUN_DIAGNOSTIC": (single_cases(0, 0), 1),
        "MODIFY_PLAN": (single_cases(0, 0), 1),
    }
    assert found.tables[1].rows == ()


def test_attempts_of_one_run_are_one_cluster(database: str) -> None:
    data = Written()
    for name in ("one", "two"):
        run = data.run(name)
        for task in ("1", "2", "3"):
            run.on(task).execute().verify(1, "FAIL", "RETRY").resolve().verify(2, "PASS").end()
    assert recovered(report(data, database))["RETRY"] == Proportion(((3, 3), (3, 3)))


def test_searches_by_topic_and_by_source(database: str) -> None:
    data = Written()
    queries = ["supabase realtime subscription", "Supabase realtime subscriptions", "nextjs cookies"]
    urls = ["https://www.a.org/x", "https://a.org/y", "http://b.org:8080/z"]
    for number, (query, passes) in enumerate(zip(queries, (False, False, True), strict=True)):
        run = data.run(f"run {number}").execute().verify(1, "FAIL", "WEB_SEARCH")
        results = [{"title": "t", "url": url} for url in (urls if passes else urls[:2])]
        results += [{"title": "broken", "url": "http://[::"}]
        run.event("task/1/search/1", "search", task="1", query=query, source="agent", results=results)
        run.resolve().verify(2, "PASS" if passes else "FAIL").end(passes)
    unfinished = data.run("running", "running").execute().verify(1, "FAIL", "WEB_SEARCH")
    unfinished.event(
        "task/1/search/1", "search", task="1", query="nextjs cookies", source="agent", results=[]
    )
    found = report(data, database)
    assert found.tables[1].rows == (
        ("Supabase realtime subscriptions", single_cases(0, 2)),
        ("nextjs cookies", single_cases(1, 1)),
    )
    assert found.tables[2].rows == (("a.org", single_cases(1, 3)), ("b.org", single_cases(1, 1)))
