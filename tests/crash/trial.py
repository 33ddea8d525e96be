"""One trial: something happens to a run at one durable call; it is continued, and everything is checked."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.crash.faults import FAILURES, FAULTS, HARMLESS, LOSING_STATE
from tests.crash.flows import KilledFlow, open_place
from tests.crash.invariants import REFUSED, Problem, find_problems
from tests.crash.points import Crash, crash, resume


@dataclass(frozen=True)
class Trial:
    """What was done, and what was wrong afterwards."""

    flow: str
    store: str
    fault: str
    at: int
    crash: Crash
    problems: list[Problem]

    def __str__(self) -> str:
        found = "; ".join(f"{problem.kind}: {problem.text}" for problem in self.problems) or "nothing wrong"
        return f"{self.flow} on {self.store}, {self.fault} at call {self.at} ({self.crash.what}): {found}"


def try_fault(flow: KilledFlow, root: Path, database: str, at: int, fault: str) -> Trial:
    """Let something happen to the run of a flow, resume it, and check everything.

    `root` is deleted if all is well.
    """
    root.mkdir(parents=True)
    with open_place(flow, root, database) as place:
        ended = crash(place, flow.command, at, *FAULTS[fault])
        refusal = (root / "crashed.log").read_text() if ended.code else ""
        if ended.hit and ended.code:
            refusal = resume(place, flow.command)
        if not refusal and fault in LOSING_STATE:
            # A run that was done already is not resumed: its state file is made again by the next command.
            place.segue(*flow.command)
        if refusal:
            problems = [Problem(REFUSED, refusal)]
        else:
            once = fault in (*HARMLESS, *FAILURES)
            problems = find_problems(flow, place, database, alone=fault in HARMLESS, once=once)
    if not problems:
        shutil.rmtree(root)
    return Trial(flow.name, "postgres" if database else "sqlite", fault, at, ended, problems)


@contextmanager
def new_database(server: str, number: int) -> Iterator[str]:
    """Yield the URL of an empty database on a server; it is deleted afterwards."""
    import psycopg

    name = f"crash_{number}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield server.replace("/postgres?", f"/{name}?")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
