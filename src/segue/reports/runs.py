"""What is known of each run besides its row: how it ended, what it took, and what happened in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from msgspec import Struct

from segue.flow.phase import PHASES
from segue.reports.overview import RunOutcome
from segue.reports.selection import Dataset, Rows, name_setting
from segue.reports.usage import UsageRow, read_usage, read_work

_COUNTED = ("done", "failed", "needs_human")


def measure_runs(dataset: Dataset) -> Rows:
    """Return the runs that count in comparisons, with what each took."""
    used, work = dataset.compute(read_usage), read_work(dataset)
    return [
        {**run, **_measure(used[run["run_id"]], work.get(run["run_id"], 0))}
        for run in dataset.ask("runs")
        if run["state"] in _COUNTED
    ]


def make_outcome(run: Mapping[str, Any], details: RunDetails) -> RunOutcome:
    """Return how a run ended, and what it cost."""
    passed = run["state"] == "done" and run["run_id"] not in details.incomplete
    return RunOutcome(
        run["run_id"], run["created"], str(run["source"]), name_setting(run), passed, run["cost_usd"]
    )


class RunDetails(Struct, frozen=True):
    """What is known of the runs besides their own rows."""

    incomplete: set[str]
    """Runs with a task that the agents did not finish, whatever the state of the run."""
    tools: Mapping[str, Mapping[str, float]]
    attempts: Mapping[str, Sequence[bool]]
    """For each failed verdict: True if the next one was PASS."""
    first: Mapping[str, Mapping[str, bool]]
    """Whether the first attempt passed, by run and task."""
    planned: set[str]
    """Runs whose tasks were planned by an agent."""

    @classmethod
    def read(cls, dataset: Dataset) -> RunDetails:
        """Read the details of all selected runs."""
        attempts: dict[str, list[bool]] = defaultdict(list)
        for row in dataset.ask("recovery"):
            if row["delivered"]:
                attempts[row["run_id"]].append(bool(row["recovered"]))
        first: dict[str, dict[str, bool]] = defaultdict(dict)
        for row in dataset.ask("first_verdicts"):
            first[row["run_id"]][row["task"]] = bool(row["passed"])
        planned = {row["run_id"] for row in dataset.ask("titles") if row["seq"]}
        tasks = [task for task in dataset.ask("tasks") if task["ended"]]
        incomplete = {task["run_id"] for task in tasks if not (task["done"] or task["replaced"])}
        return cls(incomplete, _count_tools(dataset.ask("tools")), attempts, first, planned)


def _measure(used: UsageRow, work_ms: int) -> dict[str, float | None]:
    """Return the measures of a run; None where the agents report nothing."""
    usage = used.usage
    return {
        "launches": used.launches,
        "seconds": work_ms / 1000,
        "tokens": usage.tokens or None,
        "cost_usd": usage.cost_usd or None,
    }


def _count_tools(launches: Rows) -> dict[str, dict[str, float]]:
    """Count per run: Bash calls, and files read before the first edit, averaged over its launches."""
    bash: dict[str, int] = defaultdict(int)
    reads: dict[str, list[int]] = defaultdict(list)
    for launch in launches:
        parts = str(launch["step"]).split("/")
        phase = PHASES.get(parts[-2]) if len(parts) > 1 else None
        if phase is None or not phase.edits:
            continue
        bash[launch["run_id"]] += launch["bash"]
        if launch["reads_before_edit"] is not None:
            reads[launch["run_id"]].append(launch["reads_before_edit"])
    found: dict[str, dict[str, float]] = {run: {"bash_calls": float(count)} for run, count in bash.items()}
    for run, counts in reads.items():
        found[run]["reads_before_edit"] = fmean(counts)
    return found
