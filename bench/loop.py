"""What the loop costs per task, over what the agent's own process costs."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median, median_grouped

from bench.place import TRUE, Place, place
from bench.table import Figure, milliseconds, more
from segue.store import connect

LAST = 100
"""How many of the last tasks are looked at by themselves: a slope shows there."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of run that is measured."""

    name: str
    argv: tuple[str, ...]
    options: tuple[str, ...]
    target: float
    """Milliseconds per task over the bare process."""


NO_COMMIT = Kind("no-op agent, no commit", (TRUE,), ("--commit", "never", "--allow-no-change"), 5.0)
COMMIT = Kind("one file and commit per task", ("sh", "-c", 'echo done > "work-$SEGUE_TASK"'), (), 30.0)


def figures(quick: bool) -> Iterator[Figure]:
    """Measure both kinds of run, short and long."""
    many = 300 if quick else 2000
    for kind in (NO_COMMIT, COMMIT):
        yield _short(kind, repeats=3 if quick else 10)
        yield from _long(kind, many)


def _short(kind: Kind, repeats: int) -> Figure:
    """Runs of 10 tasks, all of their distances together."""
    distances: list[int] = []
    for _ in range(repeats):
        with place() as here:
            distances += _distances(here, kind, 10)
    with place() as here:
        bare = bare_cost(here, kind.argv)
    return _figure(f"{kind.name}: 10 tasks", kind, distances, bare)


def _long(kind: Kind, tasks: int) -> Iterator[Figure]:
    with place() as here:
        distances = _distances(here, kind, tasks)
        bare = bare_cost(here, kind.argv)
        git = git_cost(here) if kind is COMMIT else None
    yield _figure(f"{kind.name}: {tasks} tasks", kind, distances, bare)
    yield _figure(f"{kind.name}: the last {LAST} of {tasks}", kind, distances[-LAST:], bare)
    if git is not None:
        yield _beside_git(f"{kind.name}: the last {LAST} of {tasks}", distances[-LAST:], bare + git)


def _figure(what: str, kind: Kind, distances: Sequence[int], bare: float) -> Figure:
    # The journal's clock counts whole milliseconds; the grouped median looks between them.
    ours = median_grouped(distances)
    return Figure(
        what,
        milliseconds(ours),
        f"bare process {milliseconds(bare)}",
        more(milliseconds, ours - bare),
        f"≤ +{kind.target:g} ms",
        ours - bare <= kind.target,
    )


def _beside_git(what: str, distances: Sequence[int], bare: float) -> Figure:
    """How much is git's own: in a repository this large, with nobody watching."""
    ours = median_grouped(distances)
    yardstick = f"bare process, `git add`, `git commit` {milliseconds(bare)}"
    return Figure(what, milliseconds(ours), yardstick, more(milliseconds, ours - bare))


def _distances(here: Place, kind: Kind, tasks: int) -> list[int]:
    """Milliseconds from the end of each task to the end of the next one, as the journal has them."""
    plan = here.write_plan(tasks)
    here.run(here.command("run", str(plan), "--quiet", *kind.options, argv=kind.argv))
    with connect(here.database, read_only=True) as store:
        [run] = store.runs()
        ends = [step.ended for step in store.steps(run.id) if step.phase == "end"]
    instants = [instant for instant in ends if instant is not None]
    assert len(instants) == tasks, f"{len(instants)} of {tasks} tasks ended"
    return [after - before for before, after in pairwise(instants)]


def bare_cost(here: Place, argv: Sequence[str], repeats: int = 200) -> float:
    """Milliseconds that the agent's process takes when nobody looks after it."""
    return median(_run(here, argv) for _ in range(repeats)) * 1000


def git_cost(here: Place, repeats: int = 50) -> float:
    """Milliseconds that adding and committing one more small file takes."""
    times = []
    for number in range(repeats):
        (here.repo / f"bare-{number}").write_text("done\n")
        add = _run(here, ["git", "add", "--all"])
        times.append(add + _run(here, ["git", "commit", "--quiet", "--message=Bare"]))
    return median(times) * 1000


def _run(here: Place, argv: Sequence[str]) -> float:
    environment = {**here.environment, "SEGUE_TASK": "0"}
    before = time.perf_counter()
    subprocess.run(argv, cwd=here.repo, env=environment, stdin=subprocess.DEVNULL, check=True)
    return time.perf_counter() - before
