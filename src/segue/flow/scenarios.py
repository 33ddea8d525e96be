"""Which scenarios belong to a task: those of the settings that name it, and those in its text."""

from __future__ import annotations

from fnmatch import fnmatchcase

from segue.domain.options import OptionError
from segue.domain.scenario import Scenario, scenarios_in
from segue.domain.task import Task
from segue.flow.context import RunContext


def scenarios_of(context: RunContext, task: Task) -> tuple[Scenario, ...]:
    """Return the scenarios that show the work of a task."""
    if context.checking.run_scenario is None:
        return ()
    configured = context.checking.scenarios
    named = [one for one in configured if one.task is not None and fnmatchcase(task.key, one.task)]
    final = [one for one in configured if one.task is None]
    if final and _is_last(context, task):
        named += final
    return (*named, *_in_text(task))


def _is_last(context: RunContext, task: Task) -> bool:
    tasks = context.source.tasks().tasks
    return bool(tasks) and tasks[-1].key == task.key


def _in_text(task: Task) -> tuple[Scenario, ...]:
    """Return the scenarios in the text; one that was spoiled since the run was planned is left out."""
    if "scenario" not in task.text:
        return ()
    try:
        return scenarios_in(task.text)
    except OptionError:
        return ()
