"""A plan that an agent has made: its steps as tasks, read from what it said and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.graph import Dependency, WaitKind
from segue.domain.task import Task, TaskKind, TaskStatus
from segue.domain.text import find_object, is_too_long, plain
from segue.domain.verdict import Criterion

MOST_STEPS = 100
_TITLE = 200


class BuildPhase(StrEnum):
    """Which part of a project a step builds."""

    SETUP = "setup"
    SCHEMA = "schema"
    BACKEND = "backend"
    FRONTEND = "frontend"
    TESTING = "testing"
    DEPLOYMENT = "deployment"


class MalformedPlan(Exception):
    """The plan cannot be used; the text says what is wrong, so that its author can fix it."""


class _Draft(Struct, frozen=True):
    """A step as it was written down: `after` names steps by their ids."""

    id: str
    task: Task
    after: tuple[str, ...]


def read_plan(text: str, pending: Mapping[str, Task], last: int) -> tuple[Task, ...]:
    """Return the steps in the order in which they are run; raises MalformedPlan.

    `pending` are the steps that a revision may keep, by key; new ones are numbered after `last`, so that a
    number never means two things.
    """
    if is_too_long(text):
        raise MalformedPlan("The answer is too long.")
    answer = find_object(text, "steps")
    if isinstance(answer, str):
        raise MalformedPlan(answer)
    steps = answer["steps"]
    if not isinstance(steps, list):
        raise MalformedPlan('"steps" must be a list.')
    if not steps and not pending:
        raise MalformedPlan("The plan has no steps.")
    if len(steps) > MOST_STEPS:
        raise MalformedPlan(f"The plan has {len(steps)} steps; at most {MOST_STEPS} are allowed.")
    drafts = []
    for number, step in enumerate(steps, 1):
        draft = _draft(step, number, pending, last + 1)
        last = max(last, int(draft.task.key)) if draft.task.key not in pending else last
        drafts.append(draft)
    return _ordered(drafts)


def revise(old: Sequence[Task], steps: Sequence[Task]) -> tuple[Task, ...]:
    """Return the plan after a revision: what is completed stays as it is, before the new steps."""
    ended = tuple(step for step in old if step.status in (TaskStatus.DONE, TaskStatus.SKIPPED))
    locked = {step.key for step in ended}
    return (*ended, *(step for step in steps if step.key not in locked))


def _draft(step: Any, number: int, pending: Mapping[str, Task], key: int) -> _Draft:
    if not isinstance(step, dict):
        raise MalformedPlan(f"Step {number} is not an object.")
    kept = step.get("keep")
    if kept:
        if str(kept) not in pending:
            raise MalformedPlan(f"Step {number} keeps {kept!r}, which is no step that is still to be done.")
        return _Draft(str(kept), pending[str(kept)], ())
    # A title is one line: in lists, in prompts, and above the trailers of a commit.
    title, text = plain(_words(step, "title", number), _TITLE), _words(step, "description", number)
    if not title:
        raise MalformedPlan(f'Step {number} has no "title" that can be read.')
    phase = str(step.get("build_phase", "")).strip().lower()
    if phase not in list(BuildPhase):
        known = ", ".join(BuildPhase)
        raise MalformedPlan(f"Step {number}: build_phase {phase!r} is not one of {known}.")
    criteria = tuple(
        Criterion(f"{key}/AC{place}", words)
        for place, words in enumerate(_texts(step, "acceptance", number), 1)
    )
    kind, given = _kind(step, number)
    task = Task(str(key), title, text, criteria=criteria, kind=kind, kind_is_given=given, build_phase=phase)
    return _Draft(_id(step, number, pending), task, tuple(_texts(step, "depends_on", number)))


def _kind(step: Mapping[str, Any], number: int) -> tuple[TaskKind, bool]:
    """Return the kind of a step, and whether the plan names it; if not, its words will tell."""
    named = str(step.get("kind") or "").strip().lower()
    if named and named not in list(TaskKind):
        raise MalformedPlan(f"Step {number}: kind {named!r} is not one of {', '.join(TaskKind)}.")
    return (TaskKind(named), True) if named else (TaskKind.BUILD, False)


def _id(step: Mapping[str, Any], number: int, pending: Mapping[str, Task]) -> str:
    """Return the step's name for others: its id, else its place, unless a kept step is called so."""
    named = step.get("id")
    if named is not None:
        return str(named).strip()
    return str(number) if str(number) not in pending else f"new step {number}"


def _words(step: Mapping[str, Any], field: str, number: int) -> str:
    value = step.get(field)
    if not isinstance(value, str) or not value.strip():
        raise MalformedPlan(f'Step {number} has no "{field}".')
    return value.strip()


def _texts(step: Mapping[str, Any], field: str, number: int) -> list[str]:
    values = step.get(field) or []
    if not isinstance(values, list) or not all(isinstance(value, str | int) for value in values):
        raise MalformedPlan(f'Step {number}: "{field}" must be a list of texts.')
    return [str(value).strip() for value in values if str(value).strip()]


def _ordered(drafts: Sequence[_Draft]) -> tuple[Task, ...]:
    """Each step after those it depends on, otherwise as they were written, with what it waits for."""
    ids = [draft.id for draft in drafts]
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise MalformedPlan(f"Two steps have the same id: {', '.join(twice)}.")
    known = set(ids)
    placed: dict[str, Task] = {}
    rest = list(drafts)
    while rest:
        # What is not in this plan has been done before.
        free = [draft for draft in rest if all(name in placed or name not in known for name in draft.after)]
        if not free:
            raise MalformedPlan(f"These steps wait for each other: {', '.join(draft.id for draft in rest)}.")
        placed[free[0].id] = _with_waits(free[0], placed)
        rest.remove(free[0])
    return tuple(placed.values())


def _with_waits(draft: _Draft, placed: Mapping[str, Task]) -> Task:
    """Return the step with the keys of those it depends on; one that is kept waits for what it did before."""
    keys = tuple(dict.fromkeys(placed[name].key for name in draft.after if name in placed))
    if not keys:
        return draft.task
    return replace(draft.task, depends_on=(Dependency(keys, WaitKind.STATED, "the plan says so"),))
