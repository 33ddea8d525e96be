"""`segue bench judge`: measure how reliable the judge is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from segue.cli.options import CommandSettings, WholeNumber, options
from segue.cli.terminal.output import Printer

if TYPE_CHECKING:
    from segue.parts.lab.bench.judging.report import BenchReport, CaseRate, JudgedCase


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
    from segue.parts.lab.bench.judging.run import run_bench
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
            hint="Check the [judge] settings: segue config show",
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


def _cells(rate: CaseRate) -> tuple[str, str]:
    low, high = rate.interval
    return f"{rate.count}/{rate.total}", f"{low:.0%} to {high:.0%}" if rate.total else ""


def _document(report: BenchReport) -> dict[str, Any]:
    from segue.parts.lab.bench.judging.report import BAR

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


def _rate(rate: CaseRate) -> dict[str, Any]:
    return {"count": rate.count, "total": rate.total, "rate": rate.share, "interval": list(rate.interval)}
