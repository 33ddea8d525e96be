"""`segue bench exam`: measure what independent tests catch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from segue.cli.options import FOLDER, WholeNumber, options
from segue.cli.terminal.output import Printer
from segue.parts.lab.bench.show import (
    ending_data,
    figures_data,
    matches,
    new_folder,
    no_such_case,
    tell_cost,
    tell_fraction,
    tell_result,
    tell_share,
)

if TYPE_CHECKING:
    from segue.parts.lab.bench.exam import ExamReport
    from segue.parts.lab.bench.run import Ending


@click.command("exam")
@click.option("--only", "patterns", multiple=True, metavar="GLOB", help="Run only these cases (repeatable).")
@click.option(
    "-j",
    "--jobs",
    type=WholeNumber(1),
    default=2,
    show_default=True,
    help="How many cases to run side by side.",
)
@click.option("--keep", type=FOLDER, help="Keep the repositories and Segue's state in this folder.")
@click.option("--list", "list_only", is_flag=True, help="List the cases and run nothing.")
@options("json", "quiet", "color")
def exam(patterns: tuple[str, ...], jobs: int, keep: Path | None, list_only: bool, output: Printer) -> int:
    """Measure what independent tests catch that nothing else does.

    Runs scripted agents with and without `[proof] independent = true`: for each trick one that cheats and one
    that works honestly, and a scripted writer of tests, who is sometimes wrong. Prints how many cheats ended
    above what they earned, how much honest work was stopped, how often agents were sent back and launched.
    Needs no model, no key and no network. Exits with 1 if, with the exam, more than 5 % of the cheats were
    believed or more than 2 % of the honest work was stopped.

    \b
    Examples:
      segue bench exam
      segue bench exam --only 'table-*' --json
    """
    import asyncio

    from segue.parts.lab.bench.exam import load_exam_cases, run_exam_cases

    chosen = [
        case
        for case in load_exam_cases()
        if not patterns or any(matches(case.proof_case, pattern) for pattern in patterns)
    ]
    if not chosen:
        raise no_such_case("exam")
    if list_only:
        rows = {f"{one.name}/{one.twin.about}": one for one in chosen}.values()
        data = [{"class": one.pair.group, "case": one.name, "about": one.twin.about} for one in rows]
        output.listing(data, ["class", "case", "what the agent does"], [list(one.values()) for one in data])
        return 0

    def note(ending: Ending) -> None:
        output.note(f"{ending.case.name}: {tell_result(ending)} ({ending.seconds:.1f} s)")

    report = asyncio.run(run_exam_cases(chosen, jobs, new_folder(keep), note))
    if output.json:
        output.data(_exam_document(report))
    else:
        _print_exam(report, output)
    return 0 if report.part(with_exam=True).is_met else 1


def _print_exam(report: ExamReport, output: Printer) -> None:
    rows = []
    for group, part in report.groups.items():
        plain, examined = part.part(with_exam=False), part.part(with_exam=True)
        believed = (tell_fraction(plain.believed), tell_fraction(examined.believed))
        stopped = (tell_fraction(plain.stopped), tell_fraction(examined.stopped))
        rows.append((group, *believed, *stopped, f"{part.mean('sent_back', with_exam=True):.1f}"))
    columns = ["class", "believed", "with exam", "stopped", "with exam ", "sent back"]
    output.table(columns, rows)
    for case, tools in report.skipped.items():
        output.note(f"{case} was not run: {', '.join(tools)} is not installed.")
    for with_exam, label in ((False, "Without the exam"), (True, "With the exam")):
        figures = report.part(with_exam=with_exam)
        back, launches = (report.mean(name, with_exam=with_exam) for name in ("sent_back", "launches"))
        output.text(
            f"{label}: believed {tell_share(figures.believed)}, stopped {tell_share(figures.stopped)}; "
            f"a task was sent back {back:.1f} times, {launches:.1f} launches; "
            f"{tell_cost(figures) or 'not timed'}."
        )
    if report.only_by_exam:
        output.text(f"Caught by the exam alone: {', '.join(report.only_by_exam)}.")


def _exam_document(report: ExamReport) -> dict[str, Any]:
    return {
        "met": report.part(with_exam=True).is_met,
        **_exam_figures(report),
        "only_by_exam": report.only_by_exam,
        "classes": {group: _exam_figures(part) for group, part in report.groups.items()},
        "cases": [
            {
                **ending_data(one.ending),
                "exam": one.with_exam,
                "sent_back": one.sent_back,
                "launches": one.launches,
            }
            for one in report.examined
        ],
        "skipped": dict(report.skipped),
    }


def _exam_figures(report: ExamReport) -> dict[str, Any]:
    return {
        name: {
            **figures_data(report.part(with_exam=with_exam)),
            "sent_back": report.mean("sent_back", with_exam=with_exam),
            "launches": report.mean("launches", with_exam=with_exam),
        }
        for name, with_exam in (("plain", False), ("exam", True))
    }
