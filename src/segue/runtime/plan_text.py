"""The plan of a build as text that people edit: YAML, a list of steps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import yaml  # type: ignore[import-untyped]

from segue.domain.errors import UsageError
from segue.domain.plan import BuildPhase, MalformedPlan, read_plan
from segue.domain.task import Task, TaskKind, TaskStatus

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
