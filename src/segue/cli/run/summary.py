"""The end of a session: a table and a file for people, one record for programs."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from segue.cli.terminal.output import Printer, clean, error_text, terminal_width
from segue.cli.terminal.task_table import format_cost, print_tasks
from segue.domain.amounts import format_count, list_some
from segue.domain.statement import name_level
from segue.runtime.open import OpenRun
from segue.runtime.session import SessionEnd
from segue.system.files import write_atomic
from segue.view.data import run_data
from segue.view.load import load_view
from segue.view.run import RunView
from segue.view.task import is_pass

if TYPE_CHECKING:
    pass


def summarise(opened: OpenRun, ended: SessionEnd, output: Printer) -> None:
    """Print how the session ended and write summary.json."""
    with opened.app.store(read_only=True) as store:
        run = store.run(ended.run)
        assert run is not None
        view = load_view(store, run)
    path = opened.app.run_folder(ended.run) / "summary.json"
    document = {"schema": 1, "data": {**run_data(run, view), **_ending_data(ended)}}
    write_atomic(path, json.dumps(document, indent=2, default=str).encode())
    if output.json:
        output.record({"type": "done", "run": ended.run, **_ending_data(ended)})
    elif not output.quiet:
        print_tasks(output, view, f"Run {run.id}: {ended.state.replace('_', ' ')}", brief=True)
        output.text(_fit(describe_result(view)))
        _print_final(ended, output)
        if ended.worktree:
            output.text(f"\n{clean(ended.worktree.words)}")
        if ended.error is None:
            is_proposed = not opened.feedback and view.delivery is not None and view.delivery.url
            follow = f"Work on what comes back: segue follow {run.id}" if is_proposed else ""
            proof = f"Proof of each task: segue proof {run.id}"
            output.note(f"Next: {follow or opened.source.next_step or proof}")
    if ended.error:
        output.warn(error_text(ended.error))


def _fit(words: str) -> str:
    """Return sentences on a line each where the terminal is too narrow for all of them."""
    width = terminal_width()
    return words if width is None or len(words) <= width else words.replace(". ", ".\n")


def describe_result(view: RunView) -> str:
    """Say what was proven, what needs a person, and what it cost, in a line."""
    tasks = list(view.tasks.values())
    proofs = [task.proof for task in tasks if task.proof is not None and is_pass(task.proof)]
    levels = Counter(name_level(proof) for proof in proofs)
    inside = ", ".join(f"{count} {level}" for level, count in levels.most_common())
    people = [task.key for task in tasks if task.state == "needs_human"]
    needs = "the run itself" if view.asked else "nothing"
    needs = f"{'task' if len(people) == 1 else 'tasks'} {list_some(people, 5)}" if people else needs
    cost = view.usage.cost_usd
    over = [task.key for task in tasks if task.over_budget]
    passed = f" Over budget: {'task' if len(over) == 1 else 'tasks'} {list_some(over, 5)}." if over else ""
    return (
        f"Proven: {len(proofs)} of {format_count(len(tasks), 'task')}{f' ({inside})' if inside else ''}. "
        f"Needs you: {needs}. Cost: {'not reported' if cost is None else format_cost(cost)}.{passed}"
    )


def _print_final(ended: SessionEnd, output: Printer) -> None:
    for report in ended.final:
        code = "could not be run" if report.exit_code is None else f"exit code {report.exit_code}"
        output.text(f"\nFinal {report.label}: {report.command} ({code})\n{clean(report.output).rstrip()}")


def _ending_data(ended: SessionEnd) -> dict[str, Any]:
    data: dict[str, Any] = {"state": ended.state, "exit_code": ended.exit_code}
    if ended.final:
        names = ("label", "command", "exit_code", "output")
        data["final"] = [{name: getattr(report, name) for name in names} for report in ended.final]
    if ended.worktree:
        data["worktree"] = to_builtins(ended.worktree)
    if ended.error:
        error = ended.error
        data["error"] = {"message": error.message, "kept": error.kept, "hint": error.hint}
    return data
