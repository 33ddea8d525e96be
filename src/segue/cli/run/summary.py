"""The end of a session: a table and a file for people, one record for programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from segue.cli.runs import run_data
from segue.cli.terminal.output import Output, clean, error_text
from segue.cli.terminal.task_table import print_tasks
from segue.runtime.plan import Prepared
from segue.runtime.session import Ended
from segue.store.projections import task_views
from segue.system.files import private_folder, write_atomic


def summarise(ready: Prepared, ended: Ended, output: Output) -> None:
    """Print how the session ended and write summary.json."""
    with ready.app.store(read_only=True) as store:
        run = store.run(ended.run)
        assert run is not None
        steps = store.steps(run.id)
        views = task_views(run, steps)
    folder = ready.app.run_folder(ended.run)
    path = folder / "summary.json"
    private_folder(folder)
    document = {"schema": 1, "data": {**run_data(run, views), **_ending_data(ended)}}
    write_atomic(path, json.dumps(document, indent=2, default=str).encode())
    if output.json:
        output.record({"type": "done", "run": ended.run, **_ending_data(ended)})
    elif not output.quiet:
        print_tasks(output, views, steps, f"Run {run.id}: {ended.state}")
        _print_final(ended, output)
        if ended.farewell:
            output.text(f"\n{clean(ended.farewell.words)}")
        output.note(f"Summary: {path}")
    if ended.error:
        output.warn(error_text(ended.error))


def _print_final(ended: Ended, output: Output) -> None:
    for report in ended.final:
        code = "could not be run" if report.exit_code is None else f"exit code {report.exit_code}"
        output.text(f"\nFinal {report.label}: {report.command} ({code})\n{clean(report.output).rstrip()}")


def _ending_data(ended: Ended) -> dict[str, Any]:
    data: dict[str, Any] = {"state": ended.state, "exit_code": ended.exit_code}
    if ended.final:
        names = ("label", "command", "exit_code", "output")
        data["final"] = [{name: getattr(report, name) for name in names} for report in ended.final]
    if ended.farewell:
        data["worktree"] = asdict(ended.farewell)
    if ended.error:
        error = ended.error
        data["error"] = {"message": error.message, "kept": error.kept, "hint": error.hint}
    return data
