"""Write the dataset as a folder that is ready to be published: tables, trajectories, a card, a report."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from segue.dataset.atif import to_atif
from segue.dataset.card import write_card
from segue.dataset.clean import Cleaner
from segue.dataset.hub import to_lines
from segue.dataset.instances import read_instances, to_prediction
from segue.dataset.trajectory import Trajectory, read_trajectories
from segue.domain.errors import UsageError
from segue.domain.run import TASK_RUNS, Run
from segue.store.export import write_rows
from segue.store.flat import FLAT_TABLES
from segue.system.files import check_way, write_atomic

if TYPE_CHECKING:
    from segue.store.store import Store


CARD = "README.md"
REPORT = "redaction.json"
_INSTANCE = (
    *("repo", "instance_id", "base_commit", "patch", "test_patch", "problem_statement", "hints_text"),
    *("created_at", "version", "FAIL_TO_PASS", "PASS_TO_PASS", "environment_setup_commit", "test_commands"),
    *("prompt", "proof_level", "model_name_or_path"),
)


class Publication(Struct):
    """What was written, for the card and for whoever asked."""

    name: str
    licence: str
    tables: dict[str, int] = field(default_factory=dict)
    runs: int = 0
    trajectories: int = 0
    instances: int = 0
    redaction: dict[str, Any] = field(default_factory=dict)


def choose_runs(store: Store, names: Sequence[str]) -> list[Run]:
    """Return the runs that are meant: those named, or all that work on tasks."""
    if not names:
        return sorted(store.runs(kinds=TASK_RUNS), key=lambda run: run.id)
    found = {name: store.run(name) for name in names}
    missing = [name for name, run in found.items() if run is None]
    if missing:
        raise UsageError(f"There is no run {', '.join(missing)}.", hint="`segue status` lists the runs.")
    return sorted({run.id: run for run in found.values() if run is not None}.values(), key=lambda run: run.id)


def publish(
    store: Store, runs: Sequence[Run], folder: Path, made: Publication, cleaner: Cleaner
) -> Publication:
    """Write everything; a folder that was published before is written again, another one is refused."""
    _prepare(folder)
    ids = [run.id for run in runs]
    made.runs = len(ids)
    for name, table in FLAT_TABLES.items():
        place = f"data/{name}.parquet"
        columns = [(column.name, column.type) for column in table.columns]
        batches = (cleaner.clean(place, batch) for batch in store.table(table.view, as_text=True, runs=ids))
        made.tables[name] = write_file(folder / place, columns, batches)
    rows = [
        cleaner.clean("data/instances.parquet", row) for run in runs for row in read_instances(store, run)
    ]
    made.tables["instances"] = write_file(
        folder / "data/instances.parquet", [(name, "text") for name in _INSTANCE], [rows] if rows else []
    )
    made.instances = len(rows)
    _write_lines(folder / "predictions.jsonl", map(to_prediction, rows))
    for found in (found for run in runs for found in read_trajectories(store, run.id)):
        write_trajectory(folder, found, cleaner)
        made.trajectories += 1
    made.redaction = cleaner.report()
    write_atomic(folder / REPORT, (json.dumps(made.redaction, indent=2) + "\n").encode())
    write_card(folder / CARD, made)
    return made


def write_trajectory(folder: Path, found: Trajectory, cleaner: Cleaner) -> None:
    """Write one attempt in both formats."""
    name = found.name.replace("/", "_").replace(" ", "-")
    document = cleaner.clean("trajectories", to_atif(found))
    place = folder / "trajectories" / f"{name}.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(place, (json.dumps(document, indent=1) + "\n").encode())
    _write_lines(
        folder / "traces" / f"{name}.jsonl", (cleaner.clean("traces", line) for line in to_lines(found))
    )


def write_file(place: Path, columns: Any, batches: Any) -> int:
    """Write a Parquet file and return its rows."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("wb") as file:
        return write_rows("parquet", columns, batches, file)


def _write_lines(place: Path, lines: Iterator[dict[str, Any]]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(place, "".join(json.dumps(line) + "\n" for line in lines).encode())


def _prepare(folder: Path) -> None:
    """Make the folder; what an earlier call wrote is removed, so that nothing old is published."""
    if folder.exists() and (
        not folder.is_dir() or (any(folder.iterdir()) and not (folder / REPORT).exists())
    ):
        raise UsageError(
            f"{folder} is not empty, and was not written by this command.", hint="Name a new folder."
        )
    folder.mkdir(parents=True, exist_ok=True)
    for place in (folder, *folder.iterdir()):
        check_way(place)
    write_atomic(folder / REPORT, b"{}\n")  # so that a call after an interrupted one knows the folder
    for part, pattern in (("data", "*.parquet"), ("trajectories", "*.json"), ("traces", "*.jsonl")):
        for old in (folder / part).glob(pattern):
            old.unlink()
