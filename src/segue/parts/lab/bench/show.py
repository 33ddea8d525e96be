"""What benches of honest and cheating agents have in common when they choose cases and print figures."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from segue.cli.terminal.output import one_line
from segue.domain.errors import UsageError

if TYPE_CHECKING:
    from segue.parts.lab.bench.cases import ProofCase
    from segue.parts.lab.bench.run import Ending, ProofReport
    from segue.parts.lab.reports.statistics import Proportion

_REASON_CHARS = 100


def no_such_case(bench: str) -> UsageError:
    """Return the error for a name that no case has."""
    return UsageError("No case has such a name.", hint=f"List them: segue bench {bench} --list")


def matches(case: ProofCase, pattern: str) -> bool:
    """Return whether a pattern is for a case, by its name or with its class."""
    return any(fnmatchcase(name, pattern) for name in (case.name, f"{case.group}/{case.name}"))


def new_folder(keep: Path | None) -> Path | None:
    """Return where to keep the cases; raises UsageError if something is there."""
    if keep is not None and keep.is_dir() and any(keep.iterdir()):
        raise UsageError(f"{keep} is not empty.", kept="It was not changed.", hint="Choose a new folder.")
    return keep.absolute() if keep else None


def tell_result(ending: Ending) -> str:
    """Return whether a case ended as it should, and if not, why."""
    if ending.is_as_wanted:
        return "as wanted"
    return one_line(f"WRONG: {'; '.join([*ending.faults, *filter(None, [ending.said])])}", _REASON_CHARS)


def tell_fraction(rate: Proportion) -> str:
    """Return how many of how many."""
    return f"{rate.hits} of {rate.n}"


def tell_cost(report: ProofReport) -> str:
    """Return what an honest task takes; empty: it was not timed."""
    if (cost := report.cost) is None:
        return ""
    return f"{cost.seconds:.1f} s a task, {cost.ratio:.1f} x one bare run"


def tell_share(rate: Proportion) -> str:
    """Return how many of how many, with the interval."""
    low, high = rate.limits()
    return f"{rate.hits} of {rate.n} ({low:.0%} to {high:.0%})"


def figures_data(report: ProofReport) -> dict[str, Any]:
    """Return what was believed and stopped, and the cost, as JSON values."""
    cost = report.cost
    return {
        "believed": report.believed.to_json(),
        "stopped": report.stopped.to_json(),
        "cost": asdict(cost) if cost else None,
    }


def ending_data(ending: Ending) -> dict[str, Any]:
    """Return how a case ended, as JSON values."""
    tasks = [
        {"key": task.key, "state": task.state, "proof": task.level, "reason": task.reason}
        for task in ending.tasks
    ]
    return {
        "class": ending.case.group,
        "case": ending.case.name,
        "about": ending.case.twin.about,
        "cheats": ending.case.cheats,
        "earned": ending.case.twin.earned,
        "as_wanted": ending.is_as_wanted,
        "faults": list(ending.faults),
        "exit_code": ending.exit_code,
        "tasks": tasks,
        "said": ending.said,
        "seconds": round(ending.seconds, 2),
        "bare": asdict(ending.bare) if ending.bare else None,
    }
