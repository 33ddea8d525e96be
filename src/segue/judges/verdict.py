"""From what a model says to a verdict: quotes are looked up, and the result is computed here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from segue.domain.criterion import CriterionVerdict
from segue.domain.evidence import Evidence
from segue.domain.verdict import Action, Result, Verdict
from segue.judges.answer import CriterionAnswer, JudgeAnswer, read_answer
from segue.judges.checks import combined, result_of
from segue.judges.quotes import Quotable
from segue.prompts.judge import MAX_BYTES, quotable

_MADE_UP = "the quoted evidence occurs neither in the diff nor in the checks"


def read_verdict(text: str, keys: Sequence[str], evidence: Evidence, with_actions: bool) -> Verdict:
    """Read the answer of an agent that judges; raises UnusableAnswer."""
    return verdict_of(read_answer(text, keys, with_actions), evidence)


def verdict_of(answer: JudgeAnswer, evidence: Evidence, max_bytes: int = MAX_BYTES) -> Verdict:
    """All must agree: what the model can quote, and every check."""
    seen = Quotable(quotable(evidence, max_bytes))
    verdict = combined(_verdict([_checked(entry, seen) for entry in answer.criteria]), evidence.checks)
    wish = Action(answer.action) if answer.action else None
    return replace(
        verdict,
        action=_settled(verdict.result, wish),
        request=answer.request or "",
        caveats=tuple(caveat for caveat in answer.caveats or () if caveat.strip()),
    )


def _settled(result: Result, wish: Action | None) -> Action:
    """What is done goes on, and what is not done never does; between those the judge chooses."""
    if result is Result.PASS:
        return Action.PROCEED
    return Action.RETRY if wish in (None, Action.PROCEED) else wish


def _checked(entry: CriterionAnswer, seen: Quotable) -> CriterionVerdict:
    """A made-up quote is no evidence."""
    words = entry.evidence or ""
    if entry.met and not seen.holds(words):
        return CriterionVerdict(entry.key, False, f"{_MADE_UP}: {words}")
    return CriterionVerdict(entry.key, entry.met, words)


def _verdict(criteria: Sequence[CriterionVerdict]) -> Verdict:
    result = result_of(criteria)
    if result is Result.PASS:
        return Verdict(result, Action.PROCEED, f"All criteria hold: {len(criteria)}.", tuple(criteria))
    missing = [_missing(criterion) for criterion in criteria if not criterion.met]
    return Verdict(result, Action.RETRY, f"Not met: {'; '.join(missing)}", tuple(criteria))


def _missing(criterion: CriterionVerdict) -> str:
    return f"{criterion.key} ({criterion.evidence})" if criterion.evidence else criterion.key
