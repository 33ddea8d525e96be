"""Measure Segue and print one table: `python -m bench [--quick] [--only NAME]`."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from statistics import median

from bench.table import Figure, table

GROUPS = (
    *("house", "startup", "loop", "events", "postgres", "journal", "memory", "growth", "cloud", "reports"),
    *(
        "replay",
        "export",
        "coverage",
        "provider",
        "page",
        "seal",
        "proving",
        "merging",
        "lanes",
        "fleet",
        "fleet-sizes",
    ),
)
_MODULES = {"postgres": "events_postgres", "fleet-sizes": "fleet_sizes"}
"""Groups whose module has another name."""


def measure(group: str, quick: bool) -> Iterator[Figure]:
    """Measure a group; its module is imported only now, because some need a part."""
    module = importlib.import_module(f"bench.{_MODULES.get(group, group)}")
    found: Iterator[Figure] = module.figures(quick)
    return found


def main() -> None:
    """Measure the chosen groups."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure what Segue costs.")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions and smaller sizes")
    parser.add_argument("--only", action="append", choices=GROUPS, help="only this group (repeatable)")
    options = parser.parse_args()
    machine = _machine()
    figures: list[Figure] = []
    for name in options.only or GROUPS:
        print(f"measuring: {name}", file=sys.stderr, flush=True)
        figures += measure(name, options.quick)
    print(f"{machine}\n{_company()}\n\n{table(figures)}")


def _machine() -> str:
    """What the figures hold for, as it is before anything is measured."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    load = f"load {os.getloadavg()[0]:.1f}, one fsync {fsync_cost():.2f} ms"
    return f"{os.cpu_count()} cores, {platform.machine()}, {python}; {load}"


def _company() -> str:
    """The same once more at the end: who shares the machine with others cannot trust the times."""
    return f"at the end: load {os.getloadavg()[0]:.1f}, one fsync {fsync_cost():.2f} ms"


def fsync_cost(repeats: int = 50) -> float:
    """Milliseconds until a small write is safe on this disk; the journal needs several per task."""
    times = []
    with tempfile.TemporaryFile() as file:
        for _ in range(repeats):
            before = time.perf_counter()
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - before)
    return median(times) * 1000


if __name__ == "__main__":
    main()
