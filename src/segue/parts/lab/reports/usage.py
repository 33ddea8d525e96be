"""What many runs used, by the definitions of `RunView`, but counted by the database, which is fast."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct, field

from segue.domain.outcome import Usage
from segue.parts.lab.reports.selection import Dataset


class UsageRow(Struct):
    """What one run used."""

    launches: int = 0
    usage: Usage = field(default_factory=Usage)
    attempts: Counter[str] = field(default_factory=Counter)
    """Launches by task."""


def read_usage(dataset: Dataset) -> dict[str, UsageRow]:
    """Return what the selected runs used, by run."""
    found = {row["run_id"]: UsageRow() for row in dataset.ask("runs")}
    for row in dataset.ask("launches"):
        run = found[row["run_id"]]
        run.usage += Usage(row["input_tokens"] or 0, row["output_tokens"] or 0, row["cost_usd"])
        if row["launched"]:
            run.launches += 1
            parts = str(row["step"]).split("/")
            if parts[0] == "task" and len(parts) > 2:
                run.attempts[parts[1]] += 1
    return found


def read_work(dataset: Dataset) -> dict[str, int]:
    """Return for how many milliseconds the selected runs were worked on."""
    return {row["run_id"]: int(row["work_ms"]) for row in dataset.ask("work")}
