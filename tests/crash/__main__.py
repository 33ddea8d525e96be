"""`make torture`: kill runs at their durable system calls, let other things happen to them, print a table.

Everything is tried in every flow and on both stores. What goes wrong is printed at once, and the folder in
which it happened is kept; the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from itertools import chain, count, product
from pathlib import Path
from typing import Any

from tests.crash.faults import EVERYWHERE, FAULTS, KILLS, restart_database
from tests.crash.flows import FLOWS
from tests.crash.invariants import KINDS, RECORDS, Problem
from tests.crash.points import Crash, Fault, compiler
from tests.crash.trial import Trial, new_database, try_fault
from tests.store.cluster import Cluster, own_cluster

RESTART = "database restarted"
STORES = ("sqlite", "postgres")
_PROGRESS = 100
_HEADER = ("flow", "store", "points", "of", "faults", *KINDS)


@dataclass(frozen=True)
class Asked:
    """A trial that is to be made."""

    flow: str
    store: str
    fault: str
    at: int


def main() -> int:
    """Make all trials and print the table."""
    options = _parse()
    if compiler() is None:
        sys.exit("This needs a C compiler, for example gcc.")
    began, rng = time.monotonic(), random.Random(options.seed)
    folder = Path(tempfile.mkdtemp(prefix="segue-torture-"))
    with ProcessPoolExecutor(options.jobs, initializer=_begin, initargs=(folder,)) as pool:
        kinds = list(product(options.flows, options.stores, EVERYWHERE))
        unharmed = list(pool.map(_try, [Asked(*kind, 0) for kind in kinds]))
        calls = {kind: trial.crash.calls for kind, trial in zip(kinds, unharmed, strict=True)}
        points = [Asked(*kind, at) for kind in kinds for at in _spread(calls[kind], options.points)]
        faults = [_choose(rng, calls) for _ in range(options.faults)]
        trials = []
        for trial in chain(unharmed, pool.map(_try, [*points, *faults])):
            trials.append(trial)
            if trial.problems:
                _say(str(trial))
            if len(trials) % _PROGRESS == 0:
                _say(f"{len(trials)} of {len(unharmed) + len(points) + len(faults)}")
        list(pool.map(_end, range(options.jobs)))
    wrong = any(trial.problems for trial in trials)
    killed = trials[len(unharmed) :]
    _print_table(calls, killed[: len(points)], killed[len(points) :])
    _say(
        f"seed {options.seed}, {time.monotonic() - began:.0f} s" + (f"; look into {folder}" if wrong else "")
    )
    return int(wrong)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make torture")
    parser.add_argument("--points", type=int, default=25, help="per flow, store and kind of kill; 0: all")
    parser.add_argument("--faults", type=int, default=500, help="random faults")
    parser.add_argument("--flows", nargs="+", choices=FLOWS, default=list(FLOWS))
    parser.add_argument("--stores", nargs="+", choices=STORES, default=list(STORES))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    return parser.parse_args()


def _spread(calls: int, points: int) -> Iterator[int]:
    """Yield the numbers of calls to kill at, evenly spread."""
    if not points or points >= calls:
        yield from range(1, calls + 1)
    else:
        yield from (1 + place * calls // points for place in range(points))


def _choose(rng: random.Random, calls: dict[tuple[str, str, str], int]) -> Asked:
    flow, store, _ = rng.choice(list(calls))
    fault = rng.choice([*FAULTS, *([RESTART] if store == "postgres" else [])])
    counted = KILLS[0] if fault == KILLS[0] else KILLS[1]
    return Asked(flow, store, fault, rng.randint(1, calls[flow, store, counted]))


_folder: Path
_numbers = count(1)
_held = ExitStack()


def _begin(folder: Path) -> None:
    """Prepare a process that makes trials."""
    global _folder
    _folder = Path(tempfile.mkdtemp(dir=folder))


def _end(_number: int) -> None:
    _held.close()
    time.sleep(1)  # so that every process of the pool gets its turn


@cache
def _cluster() -> Cluster:
    cluster = _held.enter_context(own_cluster())
    FAULTS[RESTART] = (Fault.STOP, lambda run: restart_database(run, cluster))
    return cluster


def _try(asked: Asked) -> Trial:
    number = next(_numbers)
    root = _folder / f"{number}-{asked.flow}-{asked.at}"
    try:
        with ExitStack() as stack:
            database = ""
            if asked.store == "postgres":
                database = stack.enter_context(new_database(_cluster().url, number))
            return try_fault(FLOWS[asked.flow], root, database, asked.at, asked.fault)
    except Exception as error:
        problem = Problem(RECORDS, f"{type(error).__name__}: {error}")
        return Trial(asked.flow, asked.store, asked.fault, asked.at, Crash(0, 0, 0, ""), [problem])


def _print_table(
    calls: dict[tuple[str, str, str], int], points: Sequence[Trial], faults: Sequence[Trial]
) -> None:
    rows: list[list[Any]] = []
    for flow, store in dict.fromkeys(kind[:2] for kind in calls):
        here = [
            [one for one in trials if (one.flow, one.store) == (flow, store)] for trials in (points, faults)
        ]
        all_calls = sum(number for kind, number in calls.items() if kind[:2] == (flow, store))
        found = Counter(problem.kind for trials in here for one in trials for problem in one.problems)
        rows.append([flow, store, len(here[0]), all_calls, len(here[1]), *(found[kind] for kind in KINDS)])
    rows.append(["all", "", *(sum(row[column] for row in rows) for column in range(2, len(_HEADER)))])
    for row in (_HEADER, *rows):
        _say(f"{row[0]:<9} {row[1]:<9}" + "".join(f"{cell:>9}" for cell in row[2:]))
    by_fault = Counter(trial.fault for trial in faults)
    _say("faults: " + ", ".join(f"{number} {name}" for name, number in sorted(by_fault.items())))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
