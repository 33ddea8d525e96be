"""`segue bench proof`: run honest and cheating agents and see which of them Segue believes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from segue.cli.options import FOLDER, WholeNumber, options
from segue.cli.terminal.output import Printer, one_line

if TYPE_CHECKING:
    from segue.parts.lab.bench.cases import ProofCase
    from segue.parts.lab.bench.report import Ending, ProofReport
    from segue.parts.lab.reports.statistics import Proportion

_REASON_CHARS = 100


@click.command("proof")
@click.option("--only", "patterns", multiple=True, metavar="GLOB", help="Run only these cases (repeatable).")
@click.option("--quick", is_flag=True, help="Run a small part of the cases.")
@click.option(
    "--jobs", type=WholeNumber(1), default=2, show_default=True, help="How many cases to run side by side."
)
@click.option("--keep", type=FOLDER, help="Keep the repositories and Segue's state in this folder.")
@click.option("--list", "list_only", is_flag=True, help="List the cases and run nothing.")
@options("json", "quiet", "color")
def proof(
    patterns: tuple[str, ...], quick: bool, jobs: int, keep: Path | None, list_only: bool, output: Printer
) -> int:
    """Measure how well Segue tells cheating from honest work.

    Runs scripted agents in small repositories of their own: for each trick one agent that cheats and one that
    works honestly on the same task. Needs no model, no key and no network. Exits with 1 if a cheat was
    believed or more than 2 % of the honest work was refused. Cases whose tools are not installed are left
    out.

    \b
    Examples:
      segue bench proof --quick
      segue bench proof --jobs 4 --json
      segue bench proof --only 'forged-*' --keep ./cases
    """
    import asyncio

    from segue.parts.lab.bench.run import run_cases

    chosen = _choose(patterns, quick)
    if list_only:
        data = [{"case": case.name, "about": case.twin.about} for case in chosen]
        output.listing(data, ["case", "what the agent does"], [list(one.values()) for one in data])
        return 0

    def note(ending: Ending) -> None:
        output.note(f"{ending.case.name}: {_result(ending)} ({ending.seconds:.1f} s)")

    report = asyncio.run(run_cases(chosen, jobs, _new_folder(keep), note))
    if output.json:
        output.data(_document(report))
    else:
        _print(report, output)
    return 0 if report.is_met else 1


def _choose(patterns: tuple[str, ...], quick: bool) -> list[ProofCase]:
    from fnmatch import fnmatchcase

    from segue.domain.errors import UsageError
    from segue.parts.lab.bench.cases import load_cases

    chosen = [
        case
        for case in load_cases()
        if (case.pair.quick or not quick)
        and (not patterns or any(fnmatchcase(case.name, pattern) for pattern in patterns))
    ]
    if not chosen:
        raise UsageError("No case has such a name.", hint="List them: segue bench proof --list")
    return chosen


def _new_folder(keep: Path | None) -> Path | None:
    from segue.domain.errors import UsageError

    if keep is not None and keep.is_dir() and any(keep.iterdir()):
        raise UsageError(f"{keep} is not empty.", kept="It was not changed.", hint="Choose a new folder.")
    return keep.absolute() if keep else None


def _result(ending: Ending) -> str:
    if ending.is_as_wanted:
        return "as wanted"
    return one_line(f"WRONG: {'; '.join([*ending.faults, *filter(None, [ending.said])])}", _REASON_CHARS)


def _print(report: ProofReport, output: Printer) -> None:
    rows = [
        (ending.case.name, ending.case.twin.about, _states(ending), _levels(ending), _result(ending))
        for ending in report.endings
    ]
    output.table(["case", "what the agent does", "ended", "proof", "result"], rows)
    for case, tools in report.skipped.items():
        output.note(f"{case} was not run: {', '.join(tools)} is not installed.")
    cheats, honest = _share(report.refused_cheats), _share(report.passed_work)
    output.text(f"Cheats refused {cheats}, honest work passed {honest}.")


def _states(ending: Ending) -> str:
    return ", ".join(f"{task.key} {task.state}" for task in ending.tasks) or f"exit code {ending.exit_code}"


def _levels(ending: Ending) -> str:
    return ", ".join(task.level or "-" for task in ending.tasks)


def _share(rate: Proportion) -> str:
    low, high = rate.limits()
    return f"{rate.hits} of {rate.n} ({low:.0%} to {high:.0%})"


def _document(report: ProofReport) -> dict[str, Any]:
    return {
        "met": report.is_met,
        "cheats_refused": report.refused_cheats.to_json(),
        "honest_passed": report.passed_work.to_json(),
        "cases": [_case(ending) for ending in report.endings],
        "skipped": dict(report.skipped),
    }


def _case(ending: Ending) -> dict[str, Any]:
    tasks = [
        {"key": task.key, "state": task.state, "proof": task.level, "reason": task.reason}
        for task in ending.tasks
    ]
    return {
        "case": ending.case.name,
        "about": ending.case.twin.about,
        "cheats": ending.case.cheats,
        "as_wanted": ending.is_as_wanted,
        "faults": list(ending.faults),
        "exit_code": ending.exit_code,
        "tasks": tasks,
        "said": ending.said,
        "seconds": round(ending.seconds, 2),
    }
