"""What the loop costs per task, over what the agent's own process costs."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median, median_grouped

from bench.place import OUTSIDE, TRUE, Place, place
from bench.table import Figure, milliseconds, more
from segue.store import connect

LAST = 100
"""How many of the last tasks are also looked at on their own: a slope shows there."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One kind of run that is measured."""

    name: str
    argv: tuple[str, ...]
    options: tuple[str, ...]
    target: float | None
    """Milliseconds per task over the yardstick; None: it is only reported."""
    commits: bool = False
    """True if each task ends with a commit: then `git add` and `git commit` belong to the yardstick."""

    @property
    def yardstick(self) -> str:
        """The name of what it is compared with."""
        return "bare process, `git add`, `git commit`" if self.commits else "bare process"


NOTHING = ("--commit", "never", "--allow-no-change")
NO_COMMIT = Workload("no-op agent, no commit", (TRUE,), (*NOTHING, *OUTSIDE), 5.0)
COMMIT = Workload(
    "one file and commit per task",
    ("sh", "-c", 'echo done > "work-$SEGUE_TASK"'),
    OUTSIDE,
    10.0,
    commits=True,
)
SANDBOXED = Workload("no-op agent in the sandbox, no commit", (TRUE,), NOTHING, None)


def figures(quick: bool) -> Iterator[Figure]:
    """Measure both workloads with few tasks and with many."""
    for workload, most in ((NO_COMMIT, 10_000), (COMMIT, 2000)):
        yield _measure(workload, 10, repeats=3 if quick else 10)[0]
        yield from _measure(workload, 300)
        if not quick:
            yield from _measure(workload, most)
    yield _measure(SANDBOXED, 10, repeats=3)[0]


def _measure(workload: Workload, tasks: int, repeats: int = 1) -> list[Figure]:
    """Compare all tasks, then the last ones, with the yardstick in the same place.

    It is taken before and after: where each task leaves a file, git itself takes longer at the end.
    """
    distances: list[int] = []
    before: list[float] = []
    after: list[float] = []
    for _ in range(repeats):
        with place() as here:
            before += _bare_costs(here, workload)
            distances += _distances(here, workload, tasks)
            after += _bare_costs(here, workload)
    last = f"{workload.name}: the last {LAST} of {tasks:,}"
    return [
        _figure(f"{workload.name}: {tasks:,} tasks", workload, distances, median(before + after)),
        _figure(last, workload, distances[-LAST:], median(after)),
    ]


def _figure(what: str, workload: Workload, distances: Sequence[int], bare: float) -> Figure:
    # The journal's clock counts whole milliseconds; the grouped median looks between them.
    ours = median_grouped(distances)
    return Figure(
        what,
        milliseconds(ours),
        f"{workload.yardstick} {milliseconds(bare)}",
        more(milliseconds, ours - bare),
        "" if workload.target is None else f"≤ +{workload.target:g} ms",
        None if workload.target is None else ours - bare <= workload.target,
    )


def _distances(here: Place, workload: Workload, tasks: int) -> list[int]:
    """Milliseconds from the end of each task to the end of the next one, as the journal has them."""
    plan = here.write_plan(tasks)
    here.run(here.command("run", str(plan), "--quiet", *workload.options, argv=workload.argv))
    with connect(here.database, read_only=True) as store:
        [run] = store.runs()
        ends = [step.ended for step in store.steps(run.id) if step.phase == "end"]
    instants = [instant for instant in ends if instant is not None]
    assert len(instants) == tasks, f"{len(instants)} of {tasks} tasks ended"
    return [after - before for before, after in pairwise(instants)]


def _bare_costs(here: Place, workload: Workload, repeats: int = 40) -> list[float]:
    """Milliseconds that the agent's process, and git where it commits, take with nobody watching."""
    return [_bare_task(here, workload, number) * 1000 for number in range(repeats)]


def _bare_task(here: Place, workload: Workload, number: int) -> float:
    took = _run(here, workload.argv, f"bare-{number}-{time.time_ns()}")
    if workload.commits:
        took += _run(here, ["git", "add", "--all"])
        took += _run(here, ["git", "commit", "--quiet", "--message=Bare"])
    return took


def _run(here: Place, argv: Sequence[str], task: str = "") -> float:
    environment = {**here.environment, "SEGUE_TASK": task}
    before = time.perf_counter()
    subprocess.run(argv, cwd=here.repo, env=environment, stdin=subprocess.DEVNULL, check=True)
    return time.perf_counter() - before
