"""Turns a judge's answer into a verdict: `verdict_of` verifies the quotes and computes the result itself."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from segue.domain.verdict import Action, CriterionVerdict, Evidence, Result, Verdict
from segue.judges.answer import CriterionAnswer, JudgeAnswer, read_answer
from segue.judges.checks import combine, result_of
from segue.judges.quotes import Quotable
from segue.prompts.judge import MAX_BYTES, quotable

_MADE_UP = "the quoted evidence occurs neither in the diff nor in the checks"


def read_verdict(text: str, keys: Sequence[str], evidence: Evidence, with_actions: bool) -> Verdict:
    """Read the answer of an agent that judges; raises UnusableAnswer."""
    return verdict_of(read_answer(text, keys, with_actions), evidence)


def verdict_of(answer: JudgeAnswer, evidence: Evidence, max_bytes: int = MAX_BYTES) -> Verdict:
    """Return the verdict; it passes only if every criterion has a real quote and every check passed."""
    seen = Quotable(quotable(evidence, max_bytes))
    verdict = combine(_verdict([_verify(entry, seen) for entry in answer.criteria]), evidence.checks)
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


def _verify(entry: CriterionAnswer, seen: Quotable) -> CriterionVerdict:
    """Count a criterion as met only if its quote is real."""
    words = entry.evidence or ""
    if entry.met and not seen.contains(words):
        return CriterionVerdict(entry.key, False, f"{_MADE_UP}: {words}")
    return CriterionVerdict(entry.key, entry.met, words)


def _verdict(criteria: Sequence[CriterionVerdict]) -> Verdict:
    result = result_of(criteria)
    if result is Result.PASS:
        return Verdict(result, Action.PROCEED, f"All criteria are met: {len(criteria)}.", tuple(criteria))
    missing = [_describe(criterion) for criterion in criteria if not criterion.met]
    return Verdict(result, Action.RETRY, f"Not met: {'; '.join(missing)}", tuple(criteria))


def _describe(criterion: CriterionVerdict) -> str:
    return f"{criterion.key} ({criterion.evidence})" if criterion.evidence else criterion.key
