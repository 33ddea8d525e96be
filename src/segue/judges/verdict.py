"""Turns a judge's answer into a verdict: `verdict_of` verifies the quotes and computes the result itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from segue.domain.errors import UnusableAnswer
from segue.domain.task import Task
from segue.domain.text import find_object
from segue.domain.verdict import CONTESTED, Action, CriterionVerdict, Evidence, Result, Verdict
from segue.judges.checks import combine, result_of
from segue.judges.quotes import Quotable, Worth
from segue.prompts.assemble import WHOLE_TASK, task_text
from segue.prompts.judge import MAX_BYTES, criteria_of, quotable

_LONGEST = 200_000
CHOICES = [action for action in Action if action is not Action.STOP]
"""The actions a judge may ask for."""


class CriterionAnswer(msgspec.Struct, frozen=True):
    """The model's answer for one criterion."""

    key: str
    met: bool
    evidence: str | None = None


class JudgeAnswer(msgspec.Struct, frozen=True):
    """The model's answer. If it also claims a result, that is ignored."""

    criteria: list[CriterionAnswer]
    reasoning: str | None = None
    action: str | None = None
    request: str | None = None
    caveats: list[str] | None = None


def schema_of(keys: Sequence[str], actions: bool = False) -> dict[str, Any]:
    """Return the JSON Schema of an answer, as strict as endpoints allow."""
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


def read_answer(text: str, keys: Sequence[str], actions: bool = False) -> JudgeAnswer:
    """Return the answer with its entries in the order of the keys; raises UnusableAnswer."""
    if len(text) > _LONGEST:
        raise UnusableAnswer("The answer is too long.")
    found = find_object(text, "criteria")
    if isinstance(found, str):
        raise UnusableAnswer(found)
    if not actions:  # a model may offer more than it was asked for
        found = {name: found[name] for name in ("criteria", "reasoning") if name in found}
    try:
        answer = msgspec.convert(_strip(found), JudgeAnswer)
    except msgspec.ValidationError as error:
        raise UnusableAnswer(_locate(error)) from None
    _check_complete(answer.criteria, keys)
    if actions and answer.action not in [str(action) for action in CHOICES]:
        raise UnusableAnswer(f"The action {answer.action!r} is not one of {', '.join(CHOICES)}.")
    order = {key: place for place, key in enumerate(keys)}
    ordered = sorted(answer.criteria, key=lambda entry: order[entry.key])
    return msgspec.structs.replace(answer, criteria=ordered)


def _strip(value: Any) -> Any:
    """Return JSON data without blanks around its texts."""
    if isinstance(value, dict):
        return {key: _strip(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_strip(inner) for inner in value]
    return value.strip() if isinstance(value, str) else value


def _check_complete(entries: Sequence[CriterionAnswer], keys: Sequence[str]) -> None:
    asked, given = Counter(keys), Counter(entry.key for entry in entries)
    problems = []
    if missing := asked - given:
        problems.append(f"There is no entry for: {', '.join(missing)}.")
    if further := given - asked:
        problems.append(f"{further.total()} entries have a key that was not asked for, or repeat one.")
    if bare := [entry.key for entry in entries if entry.met and not entry.evidence]:
        problems.append(f"Met without a quote: {', '.join(bare)}.")
    if problems:
        raise UnusableAnswer(" ".join(problems))


def _locate(error: msgspec.ValidationError) -> str:
    message, _, place = str(error).partition(" - at `$.")
    return f"{place.rstrip('`')}: {message}." if place else f"{message}."


_DECEIVED = "the quotes are lines that the work removed, or remarks for readers; quote what the work does"


def read_verdict(text: str, task: Task, evidence: Evidence, max_bytes: int = MAX_BYTES) -> Verdict:
    """Read the answer of whoever judges a task; raises UnusableAnswer."""
    keys = [criterion.key for criterion in criteria_of(task)]
    return verdict_of(read_answer(text, keys, evidence.diagnostics is not None), task, evidence, max_bytes)


def verdict_of(answer: JudgeAnswer, task: Task, evidence: Evidence, max_bytes: int = MAX_BYTES) -> Verdict:
    """Return the verdict; it passes only if every criterion has a real quote and every check passed.

    Raises UnusableAnswer if it rests on what is gone or on remarks: who was taken in twice has not decided.
    """
    seen = Quotable(*quotable(evidence, max_bytes))
    asked = {one.key: task.text if one.text == WHOLE_TASK else one.text for one in criteria_of(task)}
    worth = {
        entry.key: seen.weigh(
            entry.evidence or "",
            asked[entry.key],
            task_text(task),
            about_changes=entry.key == CONTESTED,
        )
        for entry in answer.criteria
        if entry.met
    }
    deceived = [key for key, one in worth.items() if one in (Worth.REMOVED, Worth.ADDRESSED)]
    if len(deceived) > 1:
        raise UnusableAnswer(f"{', '.join(deceived)}: {_DECEIVED}.")
    criteria = [_weighed(entry, worth.get(entry.key)) for entry in answer.criteria]
    verdict = combine(_verdict(criteria), evidence.checks)
    wish = Action(answer.action) if answer.action else None
    return replace(
        verdict,
        action=_decide(verdict.result, wish),
        request=answer.request or "",
        caveats=tuple(caveat for caveat in answer.caveats or () if caveat.strip()),
    )


def _decide(result: Result, wish: Action | None) -> Action:
    """Return PROCEED for a pass and never otherwise; for the rest the judge's wish counts."""
    if result is Result.PASS:
        return Action.PROCEED
    return Action.RETRY if wish in (None, Action.PROCEED) else wish


def _weighed(entry: CriterionAnswer, worth: Worth | None) -> CriterionVerdict:
    """Count a criterion as met only if its quote shows it."""
    words = entry.evidence or ""
    if worth in (None, Worth.REAL):
        return CriterionVerdict(entry.key, entry.met, words)
    return CriterionVerdict(entry.key, False, f"the quoted evidence does not count, {worth}: {words}")


def _verdict(criteria: Sequence[CriterionVerdict]) -> Verdict:
    result = result_of(criteria)
    if result is Result.PASS:
        return Verdict(result, Action.PROCEED, f"All criteria are met: {len(criteria)}.", tuple(criteria))
    missing = [_describe(criterion) for criterion in criteria if not criterion.met]
    return Verdict(result, Action.RETRY, f"Not met: {'; '.join(missing)}", tuple(criteria))


def _describe(criterion: CriterionVerdict) -> str:
    return f"{criterion.key} ({criterion.evidence})" if criterion.evidence else criterion.key
