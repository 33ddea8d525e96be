"""What `segue run` shows before it asks: what was found, the tasks with their kinds and order, a forecast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from segue.cli.look.forecast import predict_run
from segue.cli.terminal.output import one_line, short_paths
from segue.domain.amounts import format_count, format_quantity, list_some
from segue.domain.errors import SegueError
from segue.domain.graph import Waits
from segue.domain.kinds import with_kinds
from segue.domain.task import Task, TaskStatus
from segue.domain.waits import plan_waits
from segue.ports import Source
from segue.reports.forecasting import Outlook
from segue.reports.statistics import FEWEST_TOTALS
from segue.runtime import registry
from segue.runtime.app import App
from segue.runtime.first_run import FoundAgent, SuggestedCheck
from segue.runtime.plan import find_flow, has_model_judge, judge_name, kind_rules
from segue.system.reading import work_tree

_MOST_TASKS = 10
_TITLE_CHARS = 50
_MOST_WAITS = 3


def describe_found(
    app: App, named: str | None, agent: FoundAgent | None, check: SuggestedCheck | None
) -> list[str]:
    """Return the lines that say what a run would do, of an app whose settings have what was found."""
    root = work_tree(app.repo)
    source = app.source(named, root)
    rows = [
        ("tasks", _describe_tasks(source)),
        ("agent", _describe_agent(app, agent)),
        ("checks", _describe_checks(app, check)),
        ("judge", _describe_judge(app, source)),
        ("forecast", _describe_forecast(app, source)),
    ]
    lines = [f"Found in {short_paths(str(root))}:", "", *(f"  {name:<9} {text}" for name, text in rows)]
    return [*lines, "", *_list_tasks(app, source)]


def _describe_tasks(source: Source) -> str:
    if source.outline is not None and not source.outline.is_planned():
        return f"an agent plans them first: {one_line(source.title, _TITLE_CHARS)}"
    tasks = source.look().tasks
    done = sum(task.status is not TaskStatus.PENDING for task in tasks)
    count = format_count(len(tasks), "task")
    return f"{source.title}: {count}" + (f", {done} done" if done else "")


def _describe_agent(app: App, found: FoundAgent | None) -> str:
    if found is None:
        return f"{app.loaded.settings.agent or app.loaded.settings.roles.execute} (from the settings)"
    login = "" if found.report.login in (None, "not known") else found.report.login
    known = ", ".join(filter(None, (found.report.version, login)))
    others = f"; also ready: {', '.join(found.others)}" if found.others else ""
    return f"{found.name}{f' {known}' if known else ''}: {found.why}{others}"


def _describe_checks(app: App, check: SuggestedCheck | None) -> str:
    if check is None:
        commands = [" ".join(argv) for argv in app.loaded.settings.checks]
        return ", ".join(commands) or "none found: tasks end as changed, not verified"
    if check.missing:
        return f"none: {check.command} ({check.why}) needs {check.missing}, which is not installed"
    return f"{check.command} ({check.why}); it runs on your machine after each task"


def _describe_judge(app: App, source: Source) -> str:
    settings = app.loaded.settings
    flow = find_flow(app, source)
    if not flow.has("verify"):
        return "none: there are no acceptance criteria"
    name = judge_name(app, source, str(settings.agent or settings.roles.execute))
    if name != "agent" and registry.says("judges", name, "by_model"):
        key = settings.judge.api_key_env
        return f"the model {settings.judge.model}" + (f" ({key})" if has_model_judge(app) else "")
    return "the agent, in a mode in which it only answers" if name == "agent" else name


def _describe_forecast(app: App, source: Source) -> str:
    outlook = predict_run(app, source)
    if outlook.seconds is None:
        return f"no history yet: {outlook.runs} of {FEWEST_TOTALS} comparable runs"
    return f"{_describe_amounts(outlook)}, from {outlook.runs} runs"


def _describe_amounts(outlook: Outlook) -> str:
    assert outlook.seconds is not None
    time = format_quantity(outlook.seconds.middle, "seconds")
    cost = "cost not reported"
    if outlook.cost_usd is not None:
        cost = f"about {format_quantity(outlook.cost_usd.middle, 'cost_usd')}"
    return f"about {time}, {cost}"


def _list_tasks(app: App, source: Source) -> Iterator[str]:
    """Yield a line for each of the first pending tasks, and one about their order."""
    if source.outline is not None and not source.outline.is_planned():
        return
    listing = with_kinds(source.look(), kind_rules(app))
    if listing.refusal is not None:
        raise listing.refusal
    waits = _waits(app, listing.tasks)
    pending = [task for task in listing.tasks if task.status is TaskStatus.PENDING]
    shown = pending[:_MOST_TASKS]
    keys = max((len(task.key) for task in shown), default=0)
    kinds = max((len(task.kind) for task in shown), default=0)
    for task in shown:
        after = _describe_waits(waits, task, {one.key for one in pending})
        title = one_line(task.title, _TITLE_CHARS)
        yield f"  {task.key:<{keys}}  {task.kind:<{kinds}}  {title:<{_TITLE_CHARS}}  {after}".rstrip()
    if len(pending) > _MOST_TASKS:
        yield f"  … and {len(pending) - _MOST_TASKS} more: segue task list"
    yield ""


def _waits(app: App, tasks: Sequence[Task]) -> Waits:
    """Return what the tasks wait for; mistakes in it are said when the run starts."""
    settings = app.loaded.settings
    try:
        return plan_waits(tasks, touched={}, union=settings.merge_union)
    except SegueError:
        return {}


def _describe_waits(waits: Waits, task: Task, pending: set[str]) -> str:
    keys = list(dict.fromkeys(key for wait in waits.get(task.key, ()) for key in wait.keys if key in pending))
    if not keys:
        return ""
    return f"after {list_some(keys, _MOST_WAITS)}"
