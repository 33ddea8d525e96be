"""Measure Segue and print one table: `python -m bench [--quick] [--only NAME]`."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from statistics import median

from bench import (
    cloud,
    coverage,
    events,
    events_postgres,
    export,
    fleet,
    fleet_sizes,
    journal,
    lanes,
    loop,
    memory,
    merging,
    page,
    provider,
    replay,
    reports,
    seal,
    startup,
)
from bench.table import Figure, table

GROUPS: dict[str, Callable[[bool], Iterator[Figure]]] = {
    "startup": startup.figures,
    "loop": loop.figures,
    "events": events.figures,
    "postgres": events_postgres.figures,
    "journal": journal.figures,
    "memory": memory.figures,
    "cloud": cloud.figures,
    "reports": reports.figures,
    "replay": replay.figures,
    "export": export.figures,
    "coverage": coverage.figures,
    "provider": provider.figures,
    "page": page.figures,
    "seal": seal.figures,
    "merging": merging.figures,
    "lanes": lanes.figures,
    "fleet": fleet.figures,
    "fleet-sizes": fleet_sizes.figures,
}


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
        figures += GROUPS[name](options.quick)
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
