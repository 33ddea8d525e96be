"""`segue run --dry-run`: print the prompts of a run without launching anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from segue.cli.terminal.output import Output
from segue.domain.task import Task
from segue.flow.context import FLOWS
from segue.flow.start import NO_TASKS, pending, select
from segue.runtime.wiring import App
from segue.sources.prompt import PromptSource


def dry_run(app: App, named: str | None, only: Sequence[str], start: str | None, output: Output) -> int:
    """Print every prompt that is known before the first answer."""
    source = app.source(named, app.repo)
    if isinstance(source, PromptSource) and not source.planned():
        return _print_outline(app, source, output)
    listing = source.look() if source.kind == "speckit" else source.tasks()
    tasks = pending(listing, select(listing, only, start))
    redact = app.redactor().text
    settings = app.loaded.settings
    phases = FLOWS[app.flow_name(source.kind) if settings.agent else settings.flow or "execute"]
    for task in tasks:
        for phase, prompt in _prompts(task, source.context(task), phases):
            if output.json:
                output.record({"type": "prompt", "task": task.key, "phase": phase, "prompt": redact(prompt)})
            else:
                output.text(f"──── task {task.key}: {task.title} · {phase} ────\n{redact(prompt)}\n")
    output.note(f"{len(tasks)} tasks; nothing was launched." if tasks else NO_TASKS)
    return 0


def _print_outline(app: App, source: PromptSource, output: Output) -> int:
    """Print the prompt that asks for a plan: before there is one, no other is known."""
    from segue.prompts.outline import outline_prompt

    prompt = app.redactor().text(outline_prompt(source.goal, nonce="dry-run").text)
    if output.json:
        output.record({"type": "prompt", "task": None, "phase": "outline", "prompt": prompt})
    else:
        output.text(f"──── the plan ────\n{prompt}\n")
    output.note("The steps are not known until an agent has planned them; nothing was launched.")
    return 0


def _prompts(task: Task, context: str, phases: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield phase and prompt, with a placeholder where an answer would go."""
    from segue.prompts.task import execute_prompt, plan_prompt

    if "plan" in phases:
        yield "plan", plan_prompt(task, context, nonce="dry-run").text
    made = "(the plan that the plan phase makes)" if "plan" in phases else None
    yield "execute", execute_prompt(task, context, plan=made, nonce="dry-run").text
