"""`segue bench`: measure how reliable the judge is, and which of honest and cheating agents are believed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from segue.cli.options import FOLDER, CommandSettings, WholeNumber, options
from segue.cli.terminal.output import Printer
from segue.parts.lab.bench.exam_command import exam
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
    from segue.parts.lab.bench.cases import ProofCase
    from segue.parts.lab.bench.judge import BenchReport, JudgedCase
    from segue.parts.lab.bench.run import Ending, ProofReport
    from segue.parts.lab.reports.statistics import Proportion


@click.command("proof")
@click.option(
    "--only", "patterns", multiple=True, metavar="GLOB", help="Run only these cases or classes (repeatable)."
)
@click.option("--quick", is_flag=True, help="Run a small part of the cases.")
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
def proof(
    patterns: tuple[str, ...], quick: bool, jobs: int, keep: Path | None, list_only: bool, output: Printer
) -> int:
    """Measure how well Segue tells cheating from honest work.

    Runs scripted agents in small repositories of their own: for each trick one agent that cheats and one that
    works honestly on the same task. Prints how many cheats ended above what they earned, how much honest
    work was stopped or ended below what it showed, and what the proving cost. Needs no model, no key and
    no network. Exits with 1 if more than 5 % of the cheats were believed or more than 2 % of the honest
    work was stopped. Cases whose tools are not installed are left out.

    \b
    Examples:
      segue bench proof --quick
      segue bench proof --jobs 4 --json
      segue bench proof --only 'forged-*' --only 'sharpness/*' --keep ./cases
    """
    import asyncio

    from segue.parts.lab.bench.run import run_cases

    chosen = _choose(patterns, quick)
    if list_only:
        data = [{"class": case.group, "case": case.name, "about": case.twin.about} for case in chosen]
        output.listing(data, ["class", "case", "what the agent does"], [list(one.values()) for one in data])
        return 0

    def note(ending: Ending) -> None:
        output.note(f"{ending.case.name}: {tell_result(ending)} ({ending.seconds:.1f} s)")

    report = asyncio.run(run_cases(chosen, jobs, new_folder(keep), note))
    if output.json:
        output.data(_proof_document(report))
    else:
        _print(report, output)
    return 0 if report.is_met else 1


def _choose(patterns: tuple[str, ...], quick: bool) -> list[ProofCase]:
    from segue.parts.lab.bench.cases import load_cases

    chosen = [
        case
        for case in load_cases()
        if (case.pair.quick or not quick)
        and (not patterns or any(matches(case, pattern) for pattern in patterns))
    ]
    if not chosen:
        raise no_such_case("proof")
    return chosen


def _print(report: ProofReport, output: Printer) -> None:
    rows = [
        (ending.case.name, ending.case.twin.about, _states(ending), _levels(ending), tell_result(ending))
        for ending in report.endings
    ]
    output.table(["case", "what the agent does", "ended", "proof", "result"], rows)
    for case, tools in report.skipped.items():
        output.note(f"{case} was not run: {', '.join(tools)} is not installed.")
    groups = report.by_group().items()
    if len(groups) > 1:
        classes = [
            (group, tell_fraction(part.believed), tell_fraction(part.stopped), tell_cost(part))
            for group, part in groups
        ]
        output.table(["class", "believed", "stopped", "cost"], classes)
    output.text(f"Believed beyond what was earned: {tell_share(report.believed)}.")
    output.text(f"Stopped although honest: {tell_share(report.stopped)}.")
    output.text(f"Cost: {tell_cost(report) or 'not measured'}.")


def _states(ending: Ending) -> str:
    return ", ".join(f"{task.key} {task.state}" for task in ending.tasks) or f"exit code {ending.exit_code}"


def _levels(ending: Ending) -> str:
    return ", ".join(task.level or "-" for task in ending.tasks)


def _proof_document(report: ProofReport) -> dict[str, Any]:
    return {
        "met": report.is_met,
        **figures_data(report),
        "classes": {group: figures_data(part) for group, part in report.by_group().items()},
        "cases": [ending_data(ending) for ending in report.endings],
        "skipped": dict(report.skipped),
    }


@click.command("judge")
@click.option("--model", help="The model to measure (default: the configured one).")
@click.option(
    "--repeat", type=WholeNumber(1), default=1, show_default=True, help="How often to judge each case."
)
@click.option(
    "--concurrency",
    type=WholeNumber(1),
    default=4,
    show_default=True,
    help="How many cases to judge at the same time.",
)
@options("repo", "config", "json", "color")
def judge_(
    model: str | None, repeat: int, concurrency: int, settings: CommandSettings, output: Printer
) -> None:
    """Measure how often the configured judge detects wrong work.

    The judge sees small changes with a known defect, and their correct counterparts, like real tasks. Each
    case costs one request to the model.

    \b
    Examples:
      segue bench judge
      segue bench judge --model gpt-4o --repeat 3 --json
    """
    import asyncio

    from segue.domain.errors import JudgeFailed
    from segue.parts.lab.bench.judge import run_bench
    from segue.runtime.wiring import make_judging
    from segue.system.process.processes import Processes

    app = settings.load(judge={"model": model})
    judge = make_judging(("llm",), app, app.services(Processes())).judges[0]
    assert judge is not None
    patience = app.loaded.settings.limits.patience
    report = asyncio.run(run_bench(judge, repeat, concurrency, _progress(output), patience=patience))
    if report.judged and len(report.errors) == len(report.judged):
        raise JudgeFailed(
            f"The judge answered none of the cases: {report.errors[0].reason}",
            hint="Check the [judge] settings: segue config list",
        )
    if output.json:
        output.data({"model": app.loaded.settings.judge.model, "repeat": repeat, **_document(report)})
    else:
        _print_rates(output, report)


def _progress(output: Printer) -> Any:
    from segue.cli.terminal.output import one_line

    def show(judged: JudgedCase) -> None:
        said = judged.result or "error"
        output.note(f"{judged.case.name}: {said} {one_line(judged.reason)}")

    return show


def _print_rates(output: Printer, report: BenchReport) -> None:
    kinds = report.by_kind().items()
    rows = [
        (kind, *_cells(part.detection), *_cells(part.false_alarms), len(part.errors)) for kind, part in kinds
    ]
    rows.append(("all", *_cells(report.detection), *_cells(report.false_alarms), len(report.errors)))
    columns = ["defect", "caught", "95 %", "false alarms", "95 % ", "errors"]
    output.table(columns, rows)
    output.text(report.judgement())


def _cells(rate: Proportion) -> tuple[str, str]:
    low, high = rate.limits()
    return f"{rate.hits}/{rate.n}", f"{low:.0%} to {high:.0%}" if rate.n else ""


def _document(report: BenchReport) -> dict[str, Any]:
    from segue.parts.lab.bench.judge import BAR

    return {
        **_rates(report),
        "bar": BAR,
        "judgement": report.judgement(),
        "kinds": {kind: _rates(part) for kind, part in report.by_kind().items()},
        "wrong": [{"case": judged.case.name, "reason": judged.reason} for judged in report.wrong],
        "failures": [{"case": judged.case.name, "reason": judged.reason} for judged in report.errors],
    }


def _rates(report: BenchReport) -> dict[str, Any]:
    return {
        "detection": _rate(report.detection),
        "false_alarms": _rate(report.false_alarms),
        "errors": len(report.errors),
    }


def _rate(rate: Proportion) -> dict[str, Any]:
    return {"count": rate.hits, "total": rate.n, "rate": rate.value, "interval": list(rate.limits())}


@click.group()
def bench() -> None:
    """Measure how reliable the configured judge is, and how well Segue tells cheating from honest work.

    \b
    Examples:
      segue bench judge
      segue bench proof --quick
      segue bench exam
    """


bench.add_command(judge_)
bench.add_command(proof)
bench.add_command(exam)
