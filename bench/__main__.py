"""Measure Segue and print one table: `python -m bench [--quick] [--only NAME]`."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Iterator

from bench import events, journal, loop, memory, startup
from bench.table import Figure, table

GROUPS: dict[str, Callable[[bool], Iterator[Figure]]] = {
    "startup": startup.figures,
    "loop": loop.figures,
    "events": events.figures,
    "journal": journal.figures,
    "memory": memory.figures,
}


def main() -> None:
    """Measure the chosen groups."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure what Segue costs.")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions and smaller sizes")
    parser.add_argument("--only", action="append", choices=GROUPS, help="only this group (repeatable)")
    options = parser.parse_args()
    figures: list[Figure] = []
    for name in options.only or GROUPS:
        print(f"measuring: {name}", file=sys.stderr, flush=True)
        figures += GROUPS[name](options.quick)
    print(f"{_machine()}\n\n{table(figures)}")


def _machine() -> str:
    """What the figures hold for."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{os.cpu_count()} cores, {platform.machine()}, {python}"


if __name__ == "__main__":
    main()
