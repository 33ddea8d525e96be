"""The flat tables: typed, the same on both databases, and as the documentation says."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from segue.domain import events as e
from segue.domain.outcome import Failure, FailureKind, Usage
from segue.domain.proof import CheckResult, CheckState, Level, Proof
from segue.domain.results import (
    DiagnosticOutput,
    EndOutput,
    JudgeOutput,
    LaunchInput,
    LaunchOutput,
    Output,
    ReviewOutput,
    SnapshotOutput,
    StepFacts,
    StepResult,
)
from segue.domain.run import RunKind
from segue.domain.verdict import (
    Action,
    CriterionVerdict,
    Finding,
    Hit,
    Result,
    Severity,
    Verdict,
)
from segue.store import connect
from segue.store.database import QueryLimits
from segue.store.flat import FLAT_TABLES
from segue.store.journal import Journal
from segue.store.rows import TABLES
from segue.store.store import Store
from tests.store.driving import SPEC, driven

ROOT = Path(__file__).parents[2]
PASS = Verdict(Result.PASS, Action.PROCEED, "fine")
LIMITS = QueryLimits(1000, 60)


async def step(
    journal: Journal, key: str, facts: StepFacts, ok: bool, output: Output, *seen: e.Event
) -> None:
    """One step, with what is seen in it."""

    async def work(_token: str) -> StepResult[Output]:
        for event in seen:
            await journal.emit(event, key)
        return StepResult(ok, output)

    await journal.step(key, Output, work, facts=facts)


def launch(task: str, phase: str, attempt: int, model: str | None = "opus") -> StepFacts:
    return StepFacts(task, phase, attempt, "claude", model, "schema", LaunchInput(prompt=f"p{attempt}"))


def patch(task: str, diff: str) -> e.PatchMade:
    return e.PatchMade(task, "b" * 40, "c" * 40, "d" * 40, diff, files=1)


async def attempt_and_fail(journal: Journal, task: str, action: Action, between: str) -> None:
    """A task that a judge sends back, with something between its two verdicts."""
    folder = f"task/{task}"
    await journal.emit(e.TaskStarted(task, f"Task {task}"))
    await journal.record(f"{folder}/base", StepResult(True, SnapshotOutput()), StepFacts(task, "base"))
    tools = (
        e.AgentTool("Bash", {"command": "make"}, "t1", "started"),
        e.AgentTool("Bash", {"command": "make"}, "t1", "completed", "failure", {"exit_code": 2}),
        e.AgentTool("Read", {"path": "a"}, "t2", "started"),
    )
    output = LaunchOutput(
        verdict=PASS, changed=True, files_changed=1, usage=Usage(100, 7, None), duration=1.5, exit_code=0
    )
    prompt = e.PromptSent("p1", 5, "Do it")
    await step(
        *(journal, f"{folder}/execute/1", launch(task, "execute", 1), True, output, prompt),
        *(patch(task, "before the crash"), prompt, e.AgentThought("Hm."), *tools),
        patch(task, "diff --git a/x b/x"),
        e.ErrorSeen("TOOL_ERROR", "no rule 12", "no rule <n>", task, "execute", "schema", tool="Bash"),
        e.VerdictGiven.of(task, PASS),
    )
    check = CheckResult("pytest", 1, "", CheckState.FAILED, "1 failed", "pytest", 3, failing=("t",))
    await journal.emit(e.CheckRun(task, "pytest", 1, "x", 2.5, "schema", result=check), f"{folder}/check/1")
    criteria = (CriterionVerdict("AC1", True, "seen"), CriterionVerdict("AC2", False, "missing"))
    failed = Verdict(Result.PARTIAL, action, "AC2 is missing", criteria, "supabase rls")
    judge = StepFacts(task, "verify", 1, "llm", None, "schema")
    await step(
        *(journal, f"{folder}/verify/1", judge, False, JudgeOutput(verdict=failed)),
        e.VerdictGiven.of(task, failed),
    )
    if between in ("found", "away"):
        failure = "" if between == "found" else "the model is away"
        hits = (Hit("t", "https://x", "y"),) if between == "found" else ()
        ended = LaunchOutput(verdict=PASS, failure=Failure(FailureKind.CRASH, failure) if failure else None)
        await step(
            *(journal, f"{folder}/search/1", StepFacts(task, "search", 1, "web"), not failure, ended),
            e.SearchDone(task, "supabase rls", "web", hits, 1, failure, "schema"),
        )
    elif between == "refused":
        said = ("rm -rf /", False, "not on the list")
        await step(
            *(journal, f"{folder}/diagnostic/1", StepFacts(task, "diagnostic", 1), False),
            DiagnosticOutput(*said),
            e.DiagnosticRun(task, *said),
        )
    crash = Failure(FailureKind.CRASH, "it crashed")
    if between == "crash":
        output = LaunchOutput(verdict=Verdict(Result.FAIL, Action.RETRY, "it crashed"), failure=crash)
        await step(journal, f"{folder}/resolve/1", launch(task, "resolve", 1, None), False, output)
        return
    await step(journal, f"{folder}/resolve/1", launch(task, "resolve", 1), True, output)
    await step(
        *(journal, f"{folder}/verify/2", replace(judge, attempt=2), True, JudgeOutput(verdict=PASS)),
        e.VerdictGiven.of(task, PASS),
    )
    ending = EndOutput(done=True, reason="done", commit="e" * 40, proof=Proof(level=Level.TESTED))
    await journal.record(f"{folder}/end", StepResult(True, ending), StepFacts(task, "end"))
    await journal.emit(e.TaskEnded(task, True, "done", 2, "e" * 40, proof=Proof(level=Level.TESTED)))


async def fill(store: Store) -> str:
    """A run in which something of every table happens."""
    run = store.create("key", replace(SPEC, kind=RunKind.BUILD, agent="claude", model="opus"))
    async with driven(store, run.id) as journal:
        await attempt_and_fail(journal, "1", Action.WEB_SEARCH, "found")
        await attempt_and_fail(journal, "2", Action.WEB_SEARCH, "away")
        await attempt_and_fail(journal, "3", Action.RUN_DIAGNOSTIC, "refused")
        await attempt_and_fail(journal, "4", Action.RETRY, "crash")
        finding = Finding("f1", "a.py", 3, Severity.WARNING, "naming", "odd name")
        review = ReviewOutput((finding,))
        await step(journal, "task/1/review/1", StepFacts("1", "review", 1, "stet"), True, review)
        await journal.emit(e.TaskEnded("4", False, "it crashed", 2))
        await journal.emit(e.TaskMarked("4", True, by="ada"))
    return run.id


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store that tests only read."""
    if request.param == "sqlite":
        address = str(tmp_path_factory.mktemp("filled") / "segue.db")
    else:
        address = request.getfixturevalue("make_postgres")()
    with connect(address) as store:
        asyncio.run(fill(store))
        yield store


def rows(store: Store, table: str) -> list[dict[str, Any]]:
    return [row for batch in store.table(f"segue_{table}") for row in batch]


def test_recovery_is_what_was_delivered(filled: Store) -> None:
    found = rows(filled, "recoveries")
    names = ("task", "asked", "action", "delivered", "delivered_action", "problem", "recovered")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("1", "WEB_SEARCH", "WEB_SEARCH", True, "WEB_SEARCH", None, True),
        ("2", "WEB_SEARCH", "WEB_SEARCH", False, "RETRY", "the model is away", True),
        ("3", "RUN_DIAGNOSTIC", "RUN_DIAGNOSTIC", False, "RETRY", "not on the list", True),
        ("4", "RETRY", "RETRY", True, "RETRY", None, False),
    ]
    assert [(row["delivered"], row["next_result"]) for row in rows(filled, "searches")] == [
        (True, "PASS"),
        (False, "PASS"),
    ]


def test_an_attempt_has_its_patch_prompt_and_calls_once(filled: Store) -> None:
    [patch] = [row for row in rows(filled, "patches") if row["task"] == "1"]
    assert (patch["diff"], patch["base"], patch["agent"], patch["cut"]) == (
        "diff --git a/x b/x",
        "b" * 40,
        "claude",
        0,
    )
    [prompt] = [row for row in rows(filled, "prompts") if row["task"] == "1"]
    assert (prompt["text"], prompt["length"], prompt["gen"]) == ("Do it", 5, 1)
    calls = [row for row in rows(filled, "tool_calls") if row["task"] == "1"]
    assert [(row["name"], row["is_ended"], row["exit_code"], row["input"]) for row in calls] == [
        ("Bash", True, 2, {"command": "make"}),
        ("Read", False, None, {"path": "a"}),
    ]
    assert calls[0]["seconds"] is not None
    assert calls[0]["started_at"] <= calls[0]["ended_at"]


def test_a_redo_keeps_what_each_generation_left(database: str) -> None:
    async def main(store: Store) -> None:
        async with driven(store) as journal:
            for diff in ("one", "two"):
                output = LaunchOutput(verdict=PASS)
                key = "task/1/execute/1"
                await step(journal, key, launch("1", "execute", 1), True, output, patch("1", diff))
                await journal.redo("task/1/execute")

    with connect(database) as store:
        asyncio.run(main(store))
        assert [(row["gen"], row["diff"]) for row in rows(store, "patches")] == [(1, "one"), (2, "two")]
        assert [row["is_current"] for row in rows(store, "attempts")] == [False, False]


def test_what_is_not_known_is_null(filled: Store) -> None:
    first = rows(filled, "attempts")[0]
    assert (first["input_tokens"], first["output_tokens"], first["cost_usd"]) == (100, 7, None)
    last = next(row for row in rows(filled, "attempts") if row["failure"] == "crash")
    assert (last["input_tokens"], last["model"], last["proof_level"]) == (None, None, None)
    [run] = rows(filled, "runs")
    assert (run["cost_usd"], run["attempts"], run["attempts_unpriced"]) == (None, 8, 8)
    assert (run["tasks"], run["tasks_done"]) == (4, 3)


def test_tasks_say_how_they_ended_and_who_decided(filled: Store) -> None:
    found = {row["task"]: row for row in rows(filled, "tasks")}
    assert [found[key]["state"] for key in "1234"] == ["done"] * 4
    assert [found[key]["proof_level"] for key in "14"] == ["tested", "changed"]
    assert (found["4"]["decided_by"], found["4"]["first_verdict"]) == ("ada", "PARTIAL")
    assert found["1"]["build_phase"] == "schema"


def test_every_column_has_the_type_that_is_told(filled: Store) -> None:
    kinds = {"text": str, "integer": int, "real": float, "boolean": bool, "instant": datetime, "json": object}
    for name, table in FLAT_TABLES.items():
        found = rows(filled, name)
        assert found, name
        for column in table.columns:
            for value in (row[column.name] for row in found):
                if value is not None:
                    assert isinstance(value, kinds[column.type]), (name, column.name, value)
                    assert not isinstance(value, bool) or column.type in ("boolean", "json")


def test_the_events_of_one_run_are_found_by_an_index(tmp_path: Path) -> None:
    with connect(tmp_path / "segue.db") as store:
        asyncio.run(fill(store))
    with closing(sqlite3.connect(tmp_path / "segue.db")) as connection:
        for name in FLAT_TABLES:
            sql = f"EXPLAIN QUERY PLAN SELECT * FROM segue_{name} WHERE run_id = 'x'"
            plan = [row[3] for row in connection.execute(sql)]
            assert not [line for line in plan if re.match(r"SCAN [befglmnsvx]$", line)], (name, plan)


def test_names_do_not_collide() -> None:
    assert not {table.view for table in FLAT_TABLES.values()} & {f"orchestrator_{name}" for name in TABLES}
