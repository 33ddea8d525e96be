"""Reads a model's answer: one JSON object, whatever stands around it, with one entry per criterion."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

_LONGEST = 200_000


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

    model_config = ConfigDict(strict=True, frozen=True)

    criteria: list[Entry]
    reasoning: str | None = None


def schema_of(keys: Sequence[str]) -> dict[str, Any]:
    """The form of an answer as JSON Schema, as strict as endpoints allow."""
    entry = {"key": {"type": "string", "enum": sorted(set(keys))}, "met": {"type": "boolean"}}
    entries = {"type": "array", "items": _object({**entry, "evidence": {"type": "string"}})}
    return _object({"criteria": entries, "reasoning": {"type": "string"}})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def read_answer(text: str, keys: Sequence[str]) -> list[Entry]:
    """The entries in the order of the keys; raises Unusable."""
    if len(text) > _LONGEST:
        raise Unusable("The answer is too long.")
    found = [value for value in _objects(text) if "criteria" in value]
    if not found:
        raise Unusable('There is no JSON object with "criteria" in the answer.')
    if any(other != found[0] for other in found[1:]):
        raise Unusable("There is more than one JSON object in the answer, and they differ.")
    try:
        answer = Answer.model_validate(found[0])
    except ValidationError as error:
        raise Unusable(_wrong(error)) from None
    _complete(answer.criteria, keys)
    return sorted(answer.criteria, key=lambda entry: list(keys).index(entry.key))


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Every JSON object in the text that does not lie in another one."""
    decoder, place = json.JSONDecoder(), text.find("{")
    while place >= 0:
        try:
            value, end = decoder.raw_decode(text, place)
            yield value
        except (ValueError, RecursionError):
            end = place + 1
        place = text.find("{", end)


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
