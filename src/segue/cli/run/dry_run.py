"""`segue run --dry-run`: print the prompts of a run without launching anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from segue.cli.terminal.output import Printer
from segue.domain.kinds.recognise import with_kinds
from segue.domain.task import Task, TaskKind
from segue.flow.phase import Flow
from segue.ports import Outline
from segue.runtime.app import App
from segue.runtime.plan import NO_TASKS, check_rewritten, find_flow, kind_rules, pending_tasks, select_tasks


def dry_run(app: App, named: str | None, only: Sequence[str], start: str | None, output: Printer) -> int:
    """Print every prompt that is known before the first answer."""
    source = app.source(named, app.repo)
    flow = find_flow(app, source)
    if source.outline is not None and not source.outline.is_planned():
        return _print_outline(app, source.outline, output)
    listing = with_kinds(source.look(), kind_rules(app))
    if listing.refusal is not None:
        raise listing.refusal
    check_rewritten(source, app.loaded.settings.plan_changed)
    if listing.read_as:
        output.note(listing.read_as)
    for notice in listing.notices:
        output.warn(f"{source.address}:{notice.line}: {notice.text}")
    tasks = pending_tasks(listing, select_tasks(listing, only, start))
    redact = app.redactor().text
    for task in tasks:
        facts = {"type": "prompt", "task": task.key, "kind": task.kind}
        heading = f"──── task {task.key}: {task.title} · {task.kind}"
        if task.kind is TaskKind.HUMAN:
            _print_human(facts, heading, output)
            continue
        for phase, prompt in _prompts(task, source.context(task), flow):
            if output.json:
                output.record({**facts, "phase": phase, "prompt": redact(prompt)})
            else:
                output.text(f"{heading} · {phase} ────\n{redact(prompt)}\n")
    output.note(f"{len(tasks)} tasks; nothing was launched." if tasks else NO_TASKS)
    return 0


def _print_human(facts: Mapping[str, object], heading: str, output: Printer) -> None:
    """Print that a person does the task."""
    if output.json:
        output.record({**facts, "phase": None, "prompt": None})
    else:
        output.text(f"{heading} ────\nA person does this; no agent is launched.\n")


def _print_outline(app: App, outline: Outline, output: Printer) -> int:
    """Print the prompt that asks for a plan: before there is one, no other is known."""
    from segue.prompts.outline import outline_prompt

    prompt = app.redactor().text(outline_prompt(outline.goal, nonce="dry-run").text)
    if output.json:
        output.record({"type": "prompt", "task": None, "phase": "outline", "prompt": prompt})
    else:
        output.text(f"──── the plan ────\n{prompt}\n")
    output.note("The steps are not known until an agent has planned them; nothing was launched.")
    return 0


def _prompts(task: Task, context: str, flow: Flow) -> Iterator[tuple[str, str]]:
    """Yield phase and prompt, with a placeholder where an answer would go."""
    from segue.prompts.task import execute_prompt, plan_prompt

    plan = None
    if flow.has("plan"):
        yield "plan", plan_prompt(task, context, nonce="dry-run").text
        plan = "(the plan that the plan phase makes)"
    yield "execute", execute_prompt(task, context, plan=plan, nonce="dry-run").text
