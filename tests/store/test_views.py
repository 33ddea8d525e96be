"""What people ask of the dataset in SQL."""

from __future__ import annotations

import asyncio

from segue.domain.events import AgentTool, CheckRun, DiagnosticRun, Event, VerdictGiven, read_event
from segue.domain.verdict import Action, CriterionVerdict, Result
from segue.store import connect
from segue.store.database import open_database
from segue.store.rows import TABLES
from tests.store.driving import SPEC, driven

ERROR = {"kind": "EXIT_ERROR", "failure": "crash", "message": "no such table", "signature": "no such table"}
ERROR |= {"task": "1", "phase": "execute", "build_phase": "schema", "stderr_tail": "boom"}
CRITERION = {"key": "AC1", "met": True, "evidence": "seen"}


def store_events(address: str, *events: Event) -> str:
    async def main() -> str:
        with connect(address) as store:
            async with driven(store) as journal:
                for event in events:
                    await journal.emit(event, "task/1/execute/1")
            return journal.run.id

    return asyncio.run(main())


def bash(command: str, id_: str, state: str, **more: object) -> Event:
    data = {"name": "Bash", "id": id_, "state": state, "input": {"command": command}}
    return read_event("agent.tool", {**data, **more})


def test_errors_are_listed_with_what_was_run(database: str) -> None:
    commands = ["npm test", "npx tsc"]
    store_events(database, read_event("error", {**ERROR, "exit_code": 3, "commands_run": commands}))
    with connect(database, read_only=True) as store:
        [row] = store.query("SELECT * FROM segue_errors")
    assert {name: row[name] for name in ERROR} == ERROR
    assert (row["exit_code"], row["commands_run"], row["step"]) == (3, commands, "task/1/execute/1")
    assert row["at"].startswith("20")
    assert row["at"].endswith("Z")


def test_a_command_is_listed_once_with_its_exit_code_and_its_time(database: str) -> None:
    store_events(
        database,
        bash("npm test", "a", "started"),
        bash("npm test", "a", "completed", status="failure", result={"exit_code": 1, "output": "no"}),
        bash("sleep 9", "b", "started"),
        bash("ls", "c", "completed", status="success", result={"exitCode": 0}),
        AgentTool("Bash", {"command": "one"}),
        AgentTool("Bash", {"command": "two"}),
        AgentTool("Read", {"path": "x"}),
        DiagnosticRun("1", "npx tsc", allowed=True, exit_code=2, seconds=1.5),
        CheckRun("1", "pytest", 0),
        DiagnosticRun("1", "rm -rf /", allowed=False),
    )
    with connect(database, read_only=True) as store:
        rows = store.query("SELECT * FROM segue_commands ORDER BY seq")
        tools = store.query("SELECT * FROM segue_tool_calls WHERE name = ?", ["Read"])
    assert [(row["origin"], row["command"], row["exit_code"]) for row in rows] == [
        ("agent", "npm test", 1),
        ("agent", "sleep 9", None),
        ("agent", "ls", 0),
        ("agent", "one", None),
        ("agent", "two", None),
        ("diagnostic", "npx tsc", 2),
        ("check", "pytest", 0),
        ("diagnostic", "rm -rf /", None),
    ]
    assert [row["status"] for row in rows] == ["failure", None, "success", None, None, None, None, "refused"]
    assert rows[0]["seconds"] >= 0
    assert [row["seconds"] for row in rows[1:]] == [None] * 4 + [1.5, 0.0, 0.0]
    assert [tool["input"] for tool in tools] == [{"path": "x"}]


def test_verdicts_are_listed(database: str) -> None:
    verdict = {"result": "FAIL", "action": "RETRY", "reason": "why", "criteria": [CRITERION]}
    store_events(
        database,
        VerdictGiven("1", Result.FAIL, Action.RETRY, "why", (CriterionVerdict("AC1", True, "seen"),)),
    )
    with connect(database, read_only=True) as store:
        [row] = store.query("SELECT * FROM orchestrator_verdicts")
    assert {name: row[name] for name in verdict} == verdict


def test_whatever_an_agent_writes_the_views_can_be_read(database: str) -> None:
    values: list[object] = ["text", [1], {"a": 1}, 1e300, 10**40, True, None, -0.0, "\x00"]
    with connect(database) as reader:
        for number, value in enumerate(values, 1):
            store_events(
                database,
                bash("x", "a", "completed", result={"exit_code": value}, status=value),
                bash("x", "b", "completed", result=value),
                read_event("agent.tool", {"name": value, "input": value, "result": value}),
                read_event("error", {"exit_code": value, "message": value, "commands_run": value}),
                read_event("check", {"seconds": value, "command": value}),
                read_event("verdict", {"criteria": value, "result": value}),
            )
            for view in ("errors", "tool_calls", "commands", "verdicts"):
                assert len(reader.query(f"SELECT * FROM segue_{view}")) >= number, (view, value)


def test_every_column_of_a_table_is_exported(database: str) -> None:
    with connect(database) as store:
        store.create("key", SPEC)
        for name, columns in TABLES.items():
            database_ = open_database(database, read_only=True)
            sql = f"SELECT t.* FROM (SELECT 1) one LEFT JOIN orchestrator_{name} t ON 1 = 1"
            names, _ = database_.read(sql, [])
            database_.close()
            assert set(names) == set(columns.split()), name
