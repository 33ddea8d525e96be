"""What each run took and how it ended, by the definitions of `RunView`, but counted fast by the database."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from msgspec import Struct, field

from segue.domain.outcome import Usage
from segue.features.dataset.reports.report import Cell, ReportTable, make_table
from segue.features.dataset.reports.selection import Dataset, name_setting
from segue.features.dataset.reports.statistics import FEWEST_PROMPTS, generalize, mean
from segue.flow.phase import PHASES
from segue.store.rows import Rows

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
    """Whether the first attempt passed, by run and task; it did not at a task that the run never reached."""
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
        for run, task in _list_unreached(dataset, planned):
            first[run][task] = False
        tasks = [task for task in dataset.ask("tasks") if task["ended"]]
        incomplete = {task["run_id"] for task in tasks if not (task["done"] or task["replaced"])}
        return cls(incomplete, _count_tools(dataset.ask("tools")), attempts, first, planned)


def _list_unreached(dataset: Dataset, planned: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the tasks that runs were to do and never began: weighted by reach, nobody gains by giving up."""
    begun: dict[str, set[str]] = defaultdict(set)
    for row in dataset.ask("tasks"):
        begun[row["run_id"]].add(str(row["task"]))
    titles: dict[str, set[str]] = {}
    for row in dataset.ask("titles"):  # the newest plan is the last
        titles[row["run_id"]] = set(row["data"]) if isinstance(row["data"], dict) else set()
    runs = [run for run in dataset.ask("runs") if run["state"] in _COUNTED]
    known: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        if run["run_id"] not in planned:
            known[run["source"]] |= begun[run["run_id"]]
    for run in runs:
        name = str(run["run_id"])
        wanted = titles.get(name) or (set() if name in planned else known[run["source"]])
        yield from ((name, task) for task in sorted(wanted - begun[name]))


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


class UsageRow(Struct):
    """What one run used."""

    launches: int = 0
    usage: Usage = field(default_factory=Usage)
    attempts: Counter[str] = field(default_factory=Counter)
    """Launches by task."""


def read_usage(dataset: Dataset) -> dict[str, UsageRow]:
    """Return what the selected runs used, by run."""
    found = {row["run_id"]: UsageRow() for row in dataset.ask("runs")}
    for row in dataset.ask("launches"):
        run = found[row["run_id"]]
        run.usage += Usage(row["input_tokens"] or 0, row["output_tokens"] or 0, row["cost_usd"])
        if row["launched"]:
            run.launches += 1
            parts = str(row["step"]).split("/")
            if parts[0] == "task" and len(parts) > 2:
                run.attempts[parts[1]] += 1
    return found


def read_work(dataset: Dataset) -> dict[str, int]:
    """Return for how many milliseconds the selected runs were worked on."""
    return {row["run_id"]: int(row["work_ms"]) for row in dataset.ask("work")}


SCOPE = (
    f"Intervals are for prompts like these where there are {FEWEST_PROMPTS} of them,"
    " for new runs of the same prompts where there are fewer."
)


class RunOutcome(Struct, frozen=True):
    """How one run ended, and what it cost."""

    run: str
    created: int
    source: str
    setting: str
    passed: bool
    cost_usd: float | None


def tabulate_by_setting(outcomes: Sequence[RunOutcome]) -> ReportTable:
    """Tabulate pass rate and cost of every setting, all its sources together."""
    groups: dict[str, list[RunOutcome]] = defaultdict(list)
    for one in outcomes:
        groups[one.setting].append(one)
    rows = [(name, *_summarize(found)) for name, found in sorted(groups.items())]
    sources = [{one.source for one in found} for found in groups.values()]
    note = f"All sources together. {SCOPE}"
    if any(other != sources[0] for other in sources):
        note += " The settings did not work on the same sources: a difference may come from that."
    return make_table("by_setting", rows, note=note)


def _summarize(runs: Sequence[RunOutcome]) -> tuple[Cell, Cell]:
    costs = [one.cost_usd for one in runs if one.cost_usd is not None]
    sources = {one.run: one.source for one in runs}
    return generalize([(one.run, one.passed) for one in runs], sources), mean(costs)
