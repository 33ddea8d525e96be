"""What a person says about work that an agent did, and about the plan: the agent gets the words.

A plan is edited as YAML, a list of steps.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml  # type: ignore[import-untyped]
from msgspec.structs import replace

from segue.domain.errors import Locked, UsageError
from segue.domain.events import PLAN_GATE, Delivery, PlanRevised, StateImported, TaskCommented
from segue.domain.plan import BuildPhase, MalformedPlan, read_plan, revise
from segue.domain.results import EndOutput
from segue.domain.run import Run, RunState
from segue.domain.task import Completion, Task, TaskKind, TaskStatus
from segue.flow.words import answer
from segue.ports import Outline
from segue.runtime.app import App
from segue.runtime.overrides import (
    AT_WORK,
    HeldRun,
    find_fleet_task,
    find_task,
    hold_fleet_run,
    hold_run,
    tell_running,
)
from segue.runtime.pull_request import find_returned
from segue.view.load import load_view

if TYPE_CHECKING:
    from segue.store.journal import Journal

_HEAD = f"""\
# The steps that are not done yet. Change, move, add or remove some, save and close; nothing changes if you
# change nothing. build_phase is one of {", ".join(BuildPhase)};
# kind is one of {", ".join(TaskKind)}.
"""
_MOST_BYTES = 200_000


class _PlanDumper(yaml.SafeDumper):  # type: ignore[misc]
    """Writes texts of several lines as such."""

    def represent_text(self, text: str) -> Any:
        style = "|" if "\n" in text else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_PlanDumper.add_representer(str, _PlanDumper.represent_text)


def write_plan(steps: Sequence[Task]) -> str:
    """Return the steps that are still to be done as text to edit."""
    documents = [_document(step) for step in _pending(steps)]
    text: str = yaml.dump(
        documents,
        Dumper=_PlanDumper,
        sort_keys=False,
        allow_unicode=True,
        width=100,
        default_flow_style=False,
    )
    return _HEAD + text


def read_edited(text: str, steps: Sequence[Task], last: int) -> tuple[Task, ...]:
    """Return the steps that a person wrote; those that did not change keep their numbers.

    `last` is the highest number a step ever had. Raises UsageError with what is wrong.
    """
    known = {step.key: step for step in _pending(steps)}
    try:
        wanted = [_keep(one, known) for one in _parse(text)]
        return read_plan(json.dumps({"steps": wanted}, default=str), known, last)
    except (MalformedPlan, yaml.YAMLError, RecursionError) as error:
        raise UsageError(
            f"The edited plan cannot be used: {error}", kept="The plan is as it was.", hint="Edit it again"
        ) from None


def _parse(text: str) -> list[Any]:
    if len(text.encode("utf-8", "replace")) > _MOST_BYTES:
        raise MalformedPlan("It is too long.")
    found = yaml.safe_load(text)
    if not isinstance(found, list) or not found:
        raise MalformedPlan("It must be a list of steps.")
    return found


def _pending(steps: Sequence[Task]) -> list[Task]:
    return [step for step in steps if step.status is TaskStatus.PENDING]


def _document(step: Task) -> dict[str, Any]:
    return {
        "id": step.key,
        "title": step.title,
        "build_phase": step.build_phase or "",
        "kind": str(step.kind),
        "description": step.text,
        "acceptance": [criterion.text for criterion in step.criteria],
        "depends_on": [key for wait in step.depends_on for key in wait.keys],
    }


def _keep(one: Any, known: Mapping[str, Task]) -> Any:
    """Return a step as it was written, or that it stays as it is."""
    if not isinstance(one, dict):
        return one
    step = known.get(str(one.get("id")))
    given = {**one, "id": str(one.get("id"))}
    return {"keep": step.key} if step is not None and given == _document(step) else one


_MOST_CHARS = 20_000
_LOOKS, _LOOK_AGAIN = 30, 0.1
"""How often it is looked whether the process that drives the run has taken what was said, and how soon."""


async def comment(app: App, run: Run, key: str, text: str, via: str = "") -> Delivery | None:
    """Say something about a task, or about the plan, to its agent; a task that is done is open again.

    Where its agent has asked something, it is the answer. While the run works, the result is how its agent
    gets it.
    """
    words = text.strip()
    if not words or len(words) > _MOST_CHARS:
        raise UsageError(
            f"A comment needs words, at most {_MOST_CHARS} characters.", kept="Nothing was changed."
        )
    try:
        if run.spec.origin is not None:
            await _comment_in_fleet(app, run, key, words, via)
        else:
            await _comment_here(app, run, key, words, via)
    except Locked as busy:
        if key == PLAN_GATE:
            raise
        said = uuid.uuid4().hex
        state = await tell_running(app, run, key, {"comment": words, "id": said}, via, busy)
        return await _find_way(app, run, said) if state in AT_WORK else "launch"
    return None


def describe_way(key: str, way: Delivery | None) -> str:
    """Say how and when the agent of a task gets what was said, in a sentence."""
    match way:
        case "session":
            return f"The agent of task {key} gets it now, in its session."
        case "turn":
            return f"The agent of task {key} gets it at its next turn, once it has ended this one."
        case "launch":
            return f"The agent of task {key} gets it with its next launch at the latest."
        case "late":
            return (
                f"Task {key} was done before its agent could get it. Once the run has ended, have it done "
                f'again: segue task say {key} "…"'
            )
    return f"Nobody works on the run: the agent of task {key} gets it when the run continues."


async def _find_way(app: App, run: Run, said: str) -> Delivery:
    """Return how an agent gets what was said, by the word of the process that drives the run."""
    last = 0
    with app.store(read_only=True) as store:
        for _ in range(_LOOKS):
            for found in store.events(run.id, last, kinds=(TaskCommented,)):
                last = found.seq
                if isinstance(found.event, TaskCommented) and found.event.id == said:
                    return found.event.how
            await asyncio.sleep(_LOOK_AGAIN)
    return "launch"


async def _comment_here(app: App, run: Run, key: str, words: str, via: str) -> None:
    with app.store(read_only=True) as known:
        returned = find_returned(known, run, key)
    if returned is not None and returned.status is TaskStatus.DONE:
        raise UsageError(
            f"Task {key} is done, and in no source that could open it again.",
            kept="Nothing was changed.",
            hint=f"Comment on the task whose work it corrected: segue status {run.id}",
        )
    async with hold_run(app, run, via) as held:
        if key == PLAN_GATE:
            _check_plan(app, run)
            await held.journal.emit(TaskCommented(PLAN_GATE, words, held.by))
            return
        task = returned or find_task(held.source, key)
        await held.journal.emit(TaskCommented(key, _with_question(held.journal, key, words), held.by))
        if task.status is not TaskStatus.PENDING:
            await _open_again(held, task)


def _with_question(journal: Journal, key: str, words: str) -> str:
    return answer(journal.recorded(f"task/{key}/end", EndOutput), words)


async def _comment_in_fleet(app: App, run: Run, key: str, words: str, via: str) -> None:
    """Store a comment on a task of a fleet's run, which the worker finds that continues the run.

    One that is done cannot be opened again from here: its source is with the worker.
    """
    async with hold_fleet_run(app, run, via) as (journal, by):
        if key == PLAN_GATE:
            _check_plan(app, run)
        else:
            find_fleet_task(journal, key)
            words = _with_question(journal, key, words)
        await journal.emit(TaskCommented(key, words, by))


async def edit_plan(app: App, run: Run, text: str, via: str = "") -> bool:
    """Replace the steps of a plan that are still to be done; return whether anything changed."""
    async with hold_run(app, run, via) as held:
        outline = _outline(held, run)
        old = outline.tasks().tasks
        steps = read_edited(text, old, outline.last_number())
        new = revise(old, steps)
        if new == old:
            return False
        titles = {step.key: step.title for step in new}
        await held.journal.respec(replace(held.journal.run.spec, titles=titles))
        await held.journal.emit(PlanRevised("", f"edited by {held.by}", titles, old, new))
        outline.revise(steps, run.id)
        return True


def read_plan_text(app: App, run: Run) -> str:
    """Return the plan of a run as text to edit."""
    from pathlib import Path

    source = app.source(run.spec.source, Path(run.spec.repo), run.spec.source_kind)
    if source.outline is None:
        raise _no_plan(run)
    return write_plan(source.outline.tasks().tasks)


async def _open_again(held: HeldRun, task: Task) -> None:
    """Take back that a task is done, so that the run continues with it."""
    run = held.journal.run
    said = await held.journal.emit(StateImported(f"Task {task.key} is pending again.", task.key))
    held.source.mark(task, Completion(TaskStatus.PENDING, run.id, said.seq))
    if run.state is RunState.DONE:
        note = f"Task {task.key} will be done again, with the comment on it."
        await held.journal.set_state(RunState.NEEDS_HUMAN, note)


def _check_plan(app: App, run: Run) -> None:
    """Refuse words about a plan that nobody waits to hear."""
    with app.store(read_only=True) as store:
        if load_view(store, run).gate == PLAN_GATE:
            return
    raise UsageError(
        f"Run {run.id} is not waiting for you to approve its plan.",
        kept="Nothing was changed.",
        hint="Say something about one of its steps: segue task say KEY",
    )


def _outline(held: HeldRun, run: Run) -> Outline:
    if held.source.outline is None:
        raise _no_plan(run)
    return held.source.outline


def _no_plan(run: Run) -> UsageError:
    return UsageError(
        f"The tasks of run {run.id} come from {run.spec.source}, not from a plan that an agent made.",
        kept="Nothing was changed.",
        hint="Edit that file instead",
    )
