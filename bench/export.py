"""How long it takes to write a million events and what they add up to as Parquet, and how much memory."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.reports import build
from bench.table import Figure, seconds

TARGET = 30.0
_CHILD = """
import resource, sys
from segue.store import connect
from segue.store.export import export
with connect(sys.argv[1], read_only=True) as store, open(sys.argv[3], "wb") as file:
    export(store, sys.argv[2], "parquet", file)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def figures(quick: bool) -> Iterator[Figure]:
    """Make the data set of the reports, and one that is ten times smaller to compare the memory with."""
    with tempfile.TemporaryDirectory(prefix="segue-bench-") as folder:
        small, large = Path(folder) / "small.db", Path(folder) / "large.db"
        build(small, 10 if quick else 100)
        count = build(large, 100 if quick else 1000)
        for name in ("events", "tool_calls", "recoveries"):
            _, before = _export(small, name)
            took, memory = _export(large, name)
            yield Figure(
                f"{name} as Parquet, {count:,} events",
                seconds(took),
                f"{memory} MB; of a tenth of it {before} MB",
                f"× {memory / before:.1f} memory",
                f"≤ {seconds(TARGET)}" if name == "events" else "",
                took <= TARGET if name == "events" and not quick else None,
            )


def _export(database: Path, table: str) -> tuple[float, int]:
    """Seconds, and the most memory in MB, of a process of its own."""
    began = time.perf_counter()
    command = [sys.executable, "-c", _CHILD, str(database), table, str(database.with_suffix(".parquet"))]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return time.perf_counter() - began, int(said)
