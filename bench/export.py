"""How long it takes to write events as Parquet and as a publication, and how much memory."""

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
MOST_MEMORY = 250
"""MB, for a publication."""
_CHILD = """
import resource, sys
from segue.store import connect
from segue.store.export import export
with connect(sys.argv[1], read_only=True) as store, open(sys.argv[3], "wb") as file:
    export(store, sys.argv[2], "parquet", file)
usage = resource.getrusage(resource.RUSAGE_SELF)
print(usage.ru_maxrss // 1024, usage.ru_utime + usage.ru_stime)
"""
_PUBLISH = """
import os, resource, sys
from segue.cli.main import run
os.chdir(os.path.dirname(sys.argv[1]))
sys.stdout = sys.stderr
words = ["dataset", "publish", sys.argv[2], "--no-instances", "--database-url", sys.argv[1]]
assert run(words) == 0
usage = resource.getrusage(resource.RUSAGE_SELF)
print(usage.ru_maxrss // 1024, usage.ru_utime + usage.ru_stime, file=sys.__stdout__)
"""


def figures(quick: bool) -> Iterator[Figure]:
    """Make the data set of the reports, and one that is ten times smaller to compare the memory with."""
    with tempfile.TemporaryDirectory(prefix="segue-bench-") as folder:
        small, large = Path(folder) / "small.db", Path(folder) / "large.db"
        build(small, 10 if quick else 100)
        count = build(large, 100 if quick else 1000)
        for name in ("events", "tool_calls", "recoveries"):
            _, _, before = _export(small, name)
            took, cpu, memory = _export(large, name)
            yield Figure(
                f"{name} as Parquet, {count:,} events",
                f"{seconds(took)}, CPU {seconds(cpu)}",
                f"{memory} MB; of a tenth of it {before} MB",
                f"× {memory / before:.1f} memory",
                f"≤ {seconds(TARGET)}" if name == "events" else "",
                cpu <= TARGET if name == "events" and not quick else None,
            )
        some = Path(folder) / "some.db"
        count = build(some, 30 if quick else 300)
        took, cpu, memory = _measure(_PUBLISH, str(some), str(Path(folder) / "published"))
        yield Figure(
            f"dataset publish, {count:,} events",
            f"{seconds(took)}, CPU {seconds(cpu)}",
            f"{memory} MB",
            "",
            f"CPU ≤ {seconds(TARGET)}, {MOST_MEMORY} MB",
            None if quick else cpu <= TARGET and memory <= MOST_MEMORY,
        )


def _export(database: Path, table: str) -> tuple[float, float, int]:
    return _measure(_CHILD, str(database), table, str(database.with_suffix(".parquet")))


def _measure(code: str, *args: str) -> tuple[float, float, int]:
    """Seconds on the clock and of the processor, and the most memory in MB, of a process of its own."""
    began = time.perf_counter()
    command = [sys.executable, "-c", code, *args]
    memory, cpu = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    return time.perf_counter() - began, float(cpu), int(memory)
