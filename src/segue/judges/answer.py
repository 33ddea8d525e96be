"""Reads a model's answer: one JSON object, whatever stands around it, with one entry per criterion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from segue.domain.json_text import the_object
from segue.domain.verdict import Action

_LONGEST = 200_000
CHOICES = [action for action in Action if action is not Action.STOP]
"""The actions a judge may ask for."""


class Unusable(Exception):
    """The answer cannot be used; the text says what is wrong, for the model to mend it."""


class Entry(BaseModel):
    """What the model says about one criterion."""

    model_config = ConfigDict(strict=True, frozen=True, str_strip_whitespace=True)

    key: str
    met: bool
    evidence: str | None = None


class Answer(BaseModel):
    """What the model says. A result it may claim as well is not read."""

    model_config = ConfigDict(strict=True, frozen=True, str_strip_whitespace=True)

    criteria: list[Entry]
    reasoning: str | None = None
    action: str | None = None
    request: str | None = None
    caveats: list[str] | None = None


def schema_of(keys: Sequence[str], actions: bool = False) -> dict[str, Any]:
    """The form of an answer as JSON Schema, as strict as endpoints allow."""
    entry = {"key": {"type": "string", "enum": sorted(set(keys))}, "met": {"type": "boolean"}}
    entries = {"type": "array", "items": _object({**entry, "evidence": {"type": "string"}})}
    asked = {"criteria": entries, "reasoning": {"type": "string"}}
    if actions:
        asked["action"] = {"type": "string", "enum": [str(action) for action in CHOICES]}
        asked["request"] = {"type": "string"}
        asked["caveats"] = {"type": "array", "items": {"type": "string"}}
    return _object(asked)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def read_answer(text: str, keys: Sequence[str], actions: bool = False) -> Answer:
    """The answer, its entries in the order of the keys; raises Unusable."""
    if len(text) > _LONGEST:
        raise Unusable("The answer is too long.")
    found = the_object(text, "criteria")
    if isinstance(found, str):
        raise Unusable(found)
    if not actions:  # a model may offer more than it was asked for
        found = {name: found[name] for name in ("criteria", "reasoning") if name in found}
    try:
        answer = Answer.model_validate(found)
    except ValidationError as error:
        raise Unusable(_wrong(error)) from None
    _complete(answer.criteria, keys)
    if actions and answer.action not in [str(action) for action in CHOICES]:
        raise Unusable(f"The action {answer.action!r} is not one of {', '.join(CHOICES)}.")
    order = {key: place for place, key in enumerate(keys)}
    return answer.model_copy(update={"criteria": sorted(answer.criteria, key=lambda entry: order[entry.key])})


def _complete(entries: Sequence[Entry], keys: Sequence[str]) -> None:
    asked, given = Counter(keys), Counter(entry.key for entry in entries)
    problems = []
    if missing := asked - given:
        problems.append(f"There is no entry for: {', '.join(missing)}.")
    if further := given - asked:
        problems.append(f"{further.total()} entries have a key that was not asked for, or not so often.")
    if bare := [entry.key for entry in entries if entry.met and not entry.evidence]:
        problems.append(f"Met without a quote: {', '.join(bare)}.")
    if problems:
        raise Unusable(" ".join(problems))


def _wrong(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}."
