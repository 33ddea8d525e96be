"""What `segue run --jobs N --dry-run` says about the whole run: how much several tasks at once can save."""

from __future__ import annotations

from collections.abc import Sequence

from segue.cli.runs import read_past
from segue.cli.terminal.output import Printer
from segue.domain.amounts import format_count, format_duration
from segue.domain.graph import refuse_cycles
from segue.domain.schedule import Forecast, make_forecast
from segue.domain.task import Task, TaskKind, TaskList, TaskStatus
from segue.domain.waits import plan_waits
from segue.flow.earlier import read_durations, read_touched
from segue.ports import Source
from segue.runtime.app import App

_MOST_OF_CHAIN = 8
_MOST_HOLDUPS = 2


def show_forecast(
    app: App, source: Source, listing: TaskList, tasks: Sequence[Task], output: Printer
) -> None:
    """Print how these tasks would be run at once; raises UsageError if some wait for each other."""
    settings = app.loaded.settings
    touched = read_past(app, source, read_touched)
    waits = plan_waits(listing.tasks, touched=touched, union=settings.merge_union)
    keys = [task.key for task in tasks]
    refuse_cycles(waits, keys)
    people = {task.key for task in listing.tasks if task.kind is TaskKind.HUMAN}
    ended = {task.key for task in listing.tasks if task.status is not TaskStatus.PENDING}
    forecast = make_forecast([key for key in keys if key not in people], waits, ended | people, settings.jobs)
    durations = read_past(app, source, read_durations)
    mean = sum(durations.values()) / len(durations) if durations else None
    if output.json:
        output.record(_record(forecast, mean))
    else:
        output.text("\n".join(_lines(forecast, mean, len(durations))))


def _record(forecast: Forecast, mean: float | None) -> dict[str, object]:
    return {
        "type": "forecast",
        "jobs": forecast.jobs,
        "tasks": forecast.tasks,
        "rounds": forecast.rounds,
        "speedup": round(forecast.speedup, 2),
        "bound": round(forecast.bound, 2),
        "width": forecast.width,
        "chain": list(forecast.chain),
        "holdups": [{"why": one.why, "tasks": one.tasks} for one in forecast.holdups],
        "seconds_per_task": None if mean is None else round(mean, 3),
    }


def _lines(forecast: Forecast, mean: float | None, measured: int) -> list[str]:
    jobs, rounds = forecast.jobs, forecast.rounds
    lines = [
        f"──── with {jobs} at once ────",
        f"{format_count(forecast.tasks, 'task')} in {format_count(rounds, 'round')}: {forecast.speedup:.1f} ×"
        " as fast as one after the other, if all take equally long and none is repeated.",
        f"The longest chain is {_shorten(forecast.chain)}: more jobs cannot make it more than"
        f" {forecast.bound:.1f} × as fast.",
    ]
    if jobs > forecast.width:
        lines.append(f"At most {forecast.width} tasks can run at once.")
    if holdups := [
        f"{one.why} ({format_count(one.tasks, 'task')})" for one in forecast.holdups[:_MOST_HOLDUPS]
    ]:
        lines.append(f"What holds it up most: {'; '.join(holdups)}.")
    if mean is not None:
        lines.append(
            f"A task of this source took {format_duration(mean)} on average ({measured} measured):"
            f" about {format_duration(mean * rounds)} instead of {format_duration(mean * forecast.tasks)}."
        )
    return lines


def _shorten(chain: Sequence[str]) -> str:
    if len(chain) <= _MOST_OF_CHAIN:
        return " → ".join(chain)
    half = _MOST_OF_CHAIN // 2
    return " → ".join([*chain[:half], f"… {len(chain) - 2 * half} more …", *chain[-half:]])
