"""`segue run --dry-run`: print the prompts of a run without launching anything."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterator, Mapping, Sequence

from segue.cli.runs import read_past
from segue.cli.terminal.output import Printer
from segue.domain.amounts import format_count, format_duration
from segue.domain.errors import SegueError
from segue.domain.graph import refuse_cycles
from segue.domain.job import Role
from segue.domain.kinds import with_kinds
from segue.domain.schedule import Forecast, make_forecast
from segue.domain.task import Task, TaskKind, TaskList, TaskStatus, without_secrets
from segue.domain.waits import plan_waits
from segue.flow.earlier import read_durations, read_earlier, read_touched
from segue.flow.phase import Flow
from segue.flow.survey import read_known
from segue.ports import Capabilities, Outline, Source
from segue.prompts.handover import describe_handover
from segue.prompts.task import execute_prompt, plan_prompt
from segue.runtime.app import App
from segue.runtime.first_run import needs_agent
from segue.runtime.past import foresee
from segue.runtime.plan import (
    NO_TASKS,
    agent_text,
    check_rewritten,
    choose_agents,
    find_flow,
    kind_rules,
    pending_tasks,
    plan_run,
)
from segue.runtime.task_choice import TaskChoice, select_tasks
from segue.runtime.wiring import make_agent
from segue.system.git.repository import Repository
from segue.system.process.processes import Processes

_MOST_OF_CHAIN = 8
_MOST_HOLDUPS = 2


def show_forecast(
    app: App, source: Source, listing: TaskList, tasks: Sequence[Task], output: Printer
) -> None:
    """Print how these tasks would be run at once; raises UsageError if some wait for each other."""
    settings = app.loaded.settings
    touched = read_past(app, source, read_touched)
    waits = plan_waits(listing.tasks, touched=touched)
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


_NONCE = "dry-run"


def dry_run(app: App, named: str | None, chosen: TaskChoice, output: Printer) -> int:
    """Print every prompt that is known before the first answer, as the chosen agent would get it."""
    source = app.source(named, app.repo)
    flow = find_flow(app, source)
    seen = foresee(app, source)
    if seen.refusal is not None:
        raise seen.refusal
    _find_mistakes(app, source, chosen, seen)
    if source.outline is not None and not source.outline.is_planned():
        return _print_outline(app, source.outline, output)
    listing = with_kinds(seen, kind_rules(app))
    check_rewritten(source, app.loaded.settings.plan_changed)
    if listing.read_as:
        output.note(listing.read_as)
    shown = (notice.show(source.address) for notice in listing.notices)
    for words in (*shown, *_known_failures(app, source)):
        output.warn(words)
    tasks = pending_tasks(listing, select_tasks(listing, chosen))
    redact = app.redactor().text
    can, earlier = _capabilities(app), read_past(app, source, read_earlier)
    before: list[str] = []
    size = app.loaded.settings.limits.handover_bytes
    for task in tasks:
        facts = {"type": "prompt", "task": task.key, "kind": task.kind}
        heading = f"──── task {task.key}: {task.title} · {task.kind}"
        if task.kind is TaskKind.HUMAN:
            _print_human(facts, heading, output)
            continue
        cleaned = without_secrets(task, redact)
        changed = _describe_earlier(redact(describe_handover(earlier, cleaned, size)), before)
        for phase, prompt in _prompts(cleaned, redact(source.context(task)), flow, can.cloud, changed):
            if output.json:
                output.record({**facts, "phase": phase, "prompt": prompt})
            else:
                output.text(f"{heading} · {phase} ────\n{prompt}\n")
        before.append(task.key)
    if tasks and app.loaded.settings.jobs > 1:
        show_forecast(app, source, listing, tasks, output)
    output.note(
        f"{format_count(len(tasks), 'task')}; nothing was launched.{_caveats(can)}" if tasks else NO_TASKS
    )
    return 0


def _known_failures(app: App, source: Source) -> list[str]:
    """Say what an earlier run found red on the commit that this one would begin with; nothing is run."""
    commands = [app.redactor().text(shlex.join(argv)) for argv in app.loaded.settings.checks]
    if not commands:
        return []
    try:
        head = asyncio.run(_read_head(app))
    except SegueError:
        return []  # a run would say what is wrong with the repository
    known = read_past(app, source, lambda store, key: read_known(store, key, head))
    return [known[command].words for command in commands if command in known and known[command].words]


async def _read_head(app: App) -> str:
    return await (await Repository.open(app.repo)).head()


def _find_mistakes(app: App, source: Source, chosen: TaskChoice, listing: TaskList) -> None:
    """Refuse what the run would refuse, as far as it is known who does the work and what is trusted."""
    project = app.loaded.project
    if not needs_agent(app) and (project is None or project.is_trusted):
        plan_run(app, source, chosen, listing=listing)


def _capabilities(app: App) -> Capabilities:
    """Return what the agent can do that would be launched; if none was chosen, a local one is assumed."""
    if needs_agent(app):
        return Capabilities()
    name = choose_agents(app, Role.EXECUTE, agent_text(app))[0].agent
    return make_agent(name, app.loaded, app.services(Processes())).can


def _describe_earlier(known: str, before: Sequence[str]) -> str:
    """Return what is known to have changed, and for which tasks it is not known yet."""
    names = f"{before[0]} to {before[-1]}" if len(before) > 2 else " and ".join(before)
    return "\n".join(filter(None, (known, f"(here: what {names} did)" if before else "")))


def _caveats(can: Capabilities) -> str:
    """Say what is only known at launch."""
    mark = " The agent's service adds a last line to find the launch again." if can.marks_prompt else ""
    return f" Text in parentheses is filled in at launch; each run has its own code in the markers.{mark}"


def _print_human(facts: Mapping[str, object], heading: str, output: Printer) -> None:
    """Print that a person does the task."""
    if output.json:
        output.record({**facts, "phase": None, "prompt": None})
    else:
        output.text(f"{heading} ────\nA person does this; no agent is launched.\n")


def _print_outline(app: App, outline: Outline, output: Printer) -> int:
    """Print the prompt that asks for a plan: before there is one, no other is known."""
    from segue.prompts.outline import outline_prompt

    prompt = app.redactor().text(outline_prompt(outline.goal, nonce=_NONCE).text)
    if output.json:
        output.record({"type": "prompt", "task": None, "phase": "outline", "prompt": prompt})
    else:
        output.text(f"──── the plan ────\n{prompt}\n")
    output.note("The steps are not known until an agent has planned them; nothing was launched.")
    return 0


def _prompts(task: Task, context: str, flow: Flow, cloud: bool, earlier: str) -> Iterator[tuple[str, str]]:
    """Yield phase and prompt, with a placeholder where an answer would go."""
    plan = None
    if flow.has("plan"):
        yield "plan", plan_prompt(task, context, nonce=_NONCE, earlier=earlier).text
        plan = "(the plan that the plan phase makes)"
    prompt = execute_prompt(task, context, plan=plan, nonce=_NONCE, cloud=cloud, earlier=earlier)
    yield "execute", prompt.text
