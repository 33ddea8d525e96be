"""The report of a bench: rates with their confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct

from segue.domain.verdict import Result
from segue.parts.lab.bench.judging.cases import Case

BAR = 0.8
"""The share of wrong work that a judge should catch."""

_Z = 1.959963984540054
"""Standard deviations that hold 95 % of a normal distribution."""


class JudgedCase(Struct, frozen=True):
    """The judge's answer for a case: a result, or why there is none."""

    case: Case
    result: Result | None
    reason: str

    @property
    def rejected(self) -> bool:
        """True if the work was not accepted."""
        return self.result is not Result.PASS


class CaseRate(Struct, frozen=True):
    """How many of how many, and the Wilson interval of 95 %."""

    count: int
    total: int

    @property
    def share(self) -> float | None:
        """The measured rate; None when nothing was measured."""
        return self.count / self.total if self.total else None

    @property
    def interval(self) -> tuple[float, float]:
        """The interval that contains the true rate, as far as so few cases can show."""
        if not self.total:
            return 0.0, 1.0
        n, share, square = self.total, self.count / self.total, _Z * _Z
        centre = (share + square / (2 * n)) / (1 + square / n)
        spread = _Z * math.sqrt(share * (1 - share) / n + square / (4 * n * n)) / (1 + square / n)
        return max(0.0, centre - spread), min(1.0, centre + spread)


class BenchReport(Struct, frozen=True):
    """The outcome of a bench."""

    judged: tuple[JudgedCase, ...]

    @property
    def detection(self) -> CaseRate:
        """How much of the wrong work was caught."""
        return _count_rejected(judged for judged in self.judged if judged.case.defective)

    @property
    def false_alarms(self) -> CaseRate:
        """How much of the right work was rejected."""
        return _count_rejected(judged for judged in self.judged if not judged.case.defective)

    @property
    def errors(self) -> tuple[JudgedCase, ...]:
        """Cases without a verdict; they count in no rate."""
        return tuple(judged for judged in self.judged if judged.result is None)

    @property
    def wrong(self) -> tuple[JudgedCase, ...]:
        """Cases that were judged wrongly."""
        return tuple(
            judged
            for judged in self.judged
            if judged.result is not None and judged.rejected is not judged.case.defective
        )

    def by_kind(self) -> dict[str, BenchReport]:
        """The same, for each kind of defect."""
        kinds = dict.fromkeys(judged.case.kind for judged in self.judged)
        return {kind: BenchReport(tuple(j for j in self.judged if j.case.kind == kind)) for kind in kinds}

    def judgement(self) -> str:
        """Say whether the bar is met, as far as the interval can show."""
        share, (low, high) = self.detection.share, self.detection.interval
        if share is None:
            return "Nothing was measured: no defective case has a verdict."
        if low >= BAR:
            return f"The bar of {BAR:.0%} detection is met: the whole interval is above it."
        if share >= BAR:
            return f"The bar of {BAR:.0%} detection is met as measured; the interval reaches below it."
        if high >= BAR:
            return f"The bar of {BAR:.0%} detection is not met as measured; the interval reaches it."
        return f"The bar of {BAR:.0%} detection is not met: the whole interval is below it."


def _count_rejected(judged: Iterable[JudgedCase]) -> CaseRate:
    answered: Sequence[JudgedCase] = [one for one in judged if one.result is not None]
    return CaseRate(sum(one.rejected for one in answered), len(answered))
