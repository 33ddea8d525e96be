"""Write the dataset as a folder that is ready to be published: tables, trajectories, a card, a report.

Secrets are masked once more before others see it, and what was found is counted.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from segue import __version__
from segue.domain.errors import UsageError
from segue.domain.run import TASK_RUNS, Run
from segue.parts.lab.dataset.atif import to_atif, to_lines
from segue.parts.lab.dataset.instances import read_instances, to_prediction
from segue.parts.lab.dataset.trajectory import Trajectory, read_trajectories
from segue.store.export import write_rows
from segue.store.flat import FLAT_TABLES
from segue.system.files import check_way, write_atomic
from segue.system.redact import MARK, Redactor

if TYPE_CHECKING:
    from segue.store.store import Store


_UNSTATED = "Not stated. Until one is, others may not use it: `segue dataset publish --licence …`"
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def write_card(place: Path, made: Publication) -> None:
    """Write README.md: a YAML header that the Hub reads, and a text for people."""
    rows = sum(made.tables.values())
    size = next((name for most, name in _SIZES if rows < most), "n>1M")
    configs = [
        f"- config_name: {name}\n  data_files: data/{name}.parquet"
        + ("\n  default: true" if name == "attempts" else "")
        for name, count in made.tables.items()
        if count
    ]
    header = [
        *("---", f"pretty_name: {json.dumps(made.name)}", f"license: {made.licence}"),
        *("tags:", "- code", "- agent", "- traces", "- segue", "size_categories:", f"- {size}"),
        *(("configs:", *configs) if configs else ()),
        "---",
    ]
    tables = [f"| `{name}` | {made.tables[name]} | {FLAT_TABLES[name].about} |" for name in FLAT_TABLES]
    total = made.redaction.get("total", {})
    body = (
        (files("segue.parts.lab.dataset") / "card.md")
        .read_text("utf-8")
        .format(
            name=made.name,
            tasks=made.tables["tasks"],
            runs=made.runs,
            version=__version__,
            tables="\n".join(tables),
            instances=made.instances,
            repository=place.absolute().parent.name,
            masked=total.get("secrets_masked_now", 0),
            kept=total.get("mail_addresses_kept", 0),
            licence=_UNSTATED if made.licence == "unknown" else f"`{made.licence}`",
        )
    )
    write_atomic(place, ("\n".join(header) + "\n\n" + body).encode())


_MAIL = re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{2,63}){1,4}\b")


class Cleaner:
    """Cleans values and counts what it found, by the place they are written to."""

    def __init__(self, redactor: Redactor, home: Path | None = None) -> None:
        self._redactor = redactor
        home = home or Path.home()
        self._home = str(home) if len(home.parts) > 2 else ""
        self.found: dict[str, Counter[str]] = {}

    def clean(self, place: str, value: Any) -> Any:
        """Return a value as it may be published; lists and objects with all that is in them."""
        if isinstance(value, str):
            return self._text(self.found.setdefault(place, Counter()), value)
        if isinstance(value, dict):
            return {name: self.clean(place, one) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.clean(place, one) for one in value]
        return value

    def _text(self, counts: Counter[str], text: str) -> str:
        masked = self._redactor.text(text)
        counts["secrets_masked_now"] += masked != text
        counts["masked_before"] += text.count(MARK)
        if self._home and self._home in masked:
            counts["home_folders"] += masked.count(self._home)
            masked = masked.replace(self._home, "~")
        counts["mail_addresses_kept"] += len(_MAIL.findall(masked)) if "@" in masked else 0
        return masked

    def report(self) -> dict[str, Any]:
        """Return what was found, by place and in total."""
        total = sum(self.found.values(), Counter[str]())
        places = {place: dict(counts) for place, counts in self.found.items() if any(counts.values())}
        return {"total": dict(total), "places": places}


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
