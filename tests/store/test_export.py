"""The dataset as files: complete, in order, readable by others, without holding it all in memory."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from segue.domain.errors import UsageError
from segue.domain.events import NoticeGiven, PromptSent
from segue.store import connect
from segue.store.export import export
from segue.store.store import Store
from tests.later import Later
from tests.store.driving import Given, driven, giving

parquet: Any = Later("pyarrow.parquet")
TEXT = 'comma, "quote"\nline \x00 \ud800 é'


def fill(store: Store) -> str:
    async def main() -> str:
        async with driven(store) as journal:
            await journal.emit(PromptSent("d", len(TEXT), TEXT))
            for number in range(2500):
                await journal.emit(NoticeGiven(TEXT, number), "a")
            store.send(journal.run.id, "news", {"x": [1]})
            await journal.step("a", Given, giving(text=TEXT))
            return journal.run.id

    return asyncio.run(main())


def written(store: Store, table: str, kind: str) -> bytes:
    file = io.BytesIO()
    count = export(store, table, kind, file)
    assert count == (2503 if table == "events" else 1)
    return file.getvalue()


def test_json_lines_hold_everything(database: str) -> None:
    with connect(database) as store:
        run_id = fill(store)

        def read(table: str) -> list[dict[str, Any]]:
            return [json.loads(line) for line in written(store, table, "jsonl").splitlines()]

        events = read("events")
        assert [event["seq"] for event in events] == list(range(1, 2504))
        assert events[1]["data"] == {"text": TEXT, "line": 0}
        assert read("orchestrator_runs")[0]["id"] == run_id
        assert read("steps")[0]["output"] == {"text": TEXT}
        assert read("signals")[0]["payload"] == {"x": [1]}
        assert read("orchestrator_prompts")[0]["text"] == TEXT


def test_csv_has_a_header_and_json_in_its_cells(database: str) -> None:
    with connect(database) as store:
        fill(store)
        text = written(store, "events", "csv").decode()
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
        assert [int(row["seq"]) for row in rows] == list(range(1, 2504))
        assert json.loads(rows[1]["data"]) == {"text": TEXT, "line": 0}
        assert rows[0]["step"] == ""
        written(store, "orchestrator_prompts", "csv")


def test_parquet_can_be_read_back(database: str) -> None:
    with connect(database) as store:
        fill(store)
        for table in ("runs", "orchestrator_runs", "steps", "signals", "prompts"):
            read = parquet.read_table(io.BytesIO(written(store, table, "parquet")))
            assert read.num_rows == 1
        events = parquet.read_table(io.BytesIO(written(store, "events", "parquet")))
        assert events["seq"].to_pylist() == list(range(1, 2504))
        assert json.loads(events["data"][1].as_py()) == {"text": TEXT, "line": 0}


def test_parquet_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import io, sys\n"
        "sys.modules['pyarrow'] = None\n"
        "from segue.store import connect\n"
        "from segue.store.export import export\n"
        "try: export(connect(sys.argv[1]), 'runs', 'parquet', io.BytesIO())\n"
        "except Exception as error: print(type(error).__name__, error.hint)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "segue.db")], stdout=subprocess.PIPE, text=True
    )
    assert re.match(r"ToolMissing .*extra\.py'? parquet \| .* -m pip install ", ran.stdout)


def test_unknown_tables_and_formats_are_refused(tmp_path: Path) -> None:
    with connect(tmp_path / "segue.db") as store:
        with pytest.raises(UsageError, match="no table 'secrets'"):
            export(store, "secrets", "csv", io.BytesIO())
        with pytest.raises(UsageError, match="no format 'xls'"):
            export(store, "runs", "xls", io.BytesIO())


def test_no_cell_of_a_csv_is_a_formula(database: str) -> None:
    async def main(store: Store) -> None:
        async with driven(store) as journal:
            for number, text in enumerate(("=1+1", "+1", "-1", "@SUM(A1)", "\tx", "fine")):
                await journal.emit(PromptSent(str(number), 1, text))

    with connect(database) as store:
        asyncio.run(main(store))
        file = io.BytesIO()
        export(store, "orchestrator_prompts", "csv", file)
        rows = list(csv.DictReader(io.StringIO(file.getvalue().decode(), newline="")))
    assert {row["text"] for row in rows} == {"'=1+1", "'+1", "'-1", "'@SUM(A1)", "'\tx", "fine"}
    assert all(row["created"].isdigit() for row in rows)
