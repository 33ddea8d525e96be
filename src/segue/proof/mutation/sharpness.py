"""Sharpness: run mutants of a change against the tests that prove it, and say whether these can tell.

A changed function counts as seen if its tests notice that its result is another one. If they do not, because
its result is beside the point, they must notice that it does nothing, and most of its other mutants. Nobody
looks at a function that tests reach without noticing either.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum, auto

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.amounts import list_some
from segue.proof.mutation.grammar import find_language
from segue.proof.mutation.mutate import Files, Mutant, Mutants, Suspect, make_mutants, respell
from segue.proof.report import Reason, TestOutcome
from segue.proof.runs import Observed

_SIDE_BY_SIDE = 2
_LONG = 6.0
"""The budget is at least as many times as long as the tests take, so that slow ones are measured too."""
_SHORT = 10.0
"""Seconds: where all tests take longer, nobody knows how long a mutant may take before one has run."""
_FEWEST = 3
"""So many mutants must have been tried where the time did not suffice for all."""

_NAMED = 5
_TRIES = 2
_ALONE = 4
"""So many of the tests are run alone."""

Run = Callable[[Mapping[str, bytes], Collection[str], bool], Awaitable[Observed]]
"""Runs the check with some texts replaced; only these tests of it, or all if there are none.

The last word is whether the run is blind."""


def patience(seconds: float) -> float:
    """Return after how many seconds broken code hangs, if tests take so many without it."""
    return 5.0 + 3.0 * seconds


class Effort(Struct, frozen=True):
    """How much is asked of tests, and how much time that may take."""

    share: float = 0.6
    """Which part of the mutants tests must notice."""
    most: int = 8
    """How many mutants are tried, beside those of whole results."""
    seconds: float = 60


class Sharpness(Struct, frozen=True):
    """What mutants show about the tests that prove a change."""

    tried: int = 0
    noticed: int = 0
    survivors: tuple[str, ...] = ()
    blunt: str = ""
    """Why they cannot tell right from wrong; empty: they can."""
    cap: str = ""
    """Why they show no more than that the check passes: how the product sees its tests, or their order."""


class _End(Enum):
    NOTICED = auto()
    SURVIVED = auto()
    UNBUILT = auto()
    """It cannot be built, or takes too long, so it says nothing."""


async def measure(
    run: Run, files: Files, proving: Sequence[str], effort: Effort, whole: float = 0.0
) -> Sharpness:
    """Return what mutants of the changed files show.

    `proving` are the tests that prove the change; none: the command as a whole does, which takes `whole`
    seconds.
    """
    if not effort.most:
        return _not_measured("`proof.mutants` is 0")
    seed = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()
    mutants = await asyncio.to_thread(make_mutants, files, seed, 3 * effort.most)
    if not mutants.suspects and not mutants.others:
        mutants = _plain_mutants(files, mutants.unknown)
        if not mutants.suspects:
            return _not_measured(_why_not(files))
    trial = _Trial(run, proving, effort, whole, await asyncio.to_thread(respell, files))
    if not await trial.begin(mutants):
        return _not_measured("the tests that prove it do not pass a second time")
    return replace(await trial.judge(mutants), cap=trial.cap)


def _not_measured(why: str) -> Sharpness:
    return Sharpness(blunt=f"not measured: {why}")


def _why_not(files: Files) -> str:
    known = [path for path, (_, after) in files.items() if find_language(path, after) is not None]
    if known:
        return f"nothing in {known[0]} can be mutated (some grammars are in the extra `languages`)"
    return "no program was changed"


def _plain_mutants(files: Files, unknown: Iterable[str]) -> Mutants:
    """Return mutants of files without a grammar: empty, and without one of the changed lines."""
    suspects: list[Suspect] = []
    others: list[Mutant] = []
    for path in unknown:
        before, after = files[path]
        if find_language(path, after) is not None or "\0" in after or not after.strip():
            continue
        empty = Mutant(path, 1, "result", b"", f"{path}:1: - the whole file + (nothing)", path)
        suspects.append(Suspect(path, is_new=True, whole=(empty,), leave=None))
        old, rows = set(before.split("\n")), after.split("\n")
        for number, row in enumerate(rows):
            if row.strip() and row not in old:
                text = "\n".join((*rows[:number], *rows[number + 1 :])).encode()
                shown = f"{path}:{number + 1}: - {row.strip()} + (nothing)"
                others.append(Mutant(path, number + 1, "statement", text, shown, path))
    return Mutants(tuple(suspects), tuple(others), (), ())


class _Trial:
    """The tests of one change, and what they made of its mutants."""

    def __init__(
        self, run: Run, proving: Sequence[str], effort: Effort, whole: float, respelt: Mapping[str, bytes]
    ) -> None:
        self._respelt = respelt
        self._run, self._effort, self._proving, self._whole = run, effort, tuple(proving), whole
        self._only = self._proving
        self._limit, self._deadline = patience(whole), math.inf
        self._ends: dict[Mutant, _End] = {}
        self.cap = ""
        self._asserted: set[Mutant] = set()
        """Mutants that an assertion noticed, or where nobody says what did: others made something crash."""

    async def begin(self, mutants: Mutants) -> bool:
        """See how the tests end without a mutant; meanwhile, try those that are tried first anyway."""
        can_wait = mutants.hollow or self._whole > _SHORT
        first = [] if can_wait else [one.whole[0] for one in self._find_new(mutants)]
        passed, _ = await asyncio.gather(self._see(), self._try(first))
        if self._only != self._proving:
            self._ends.clear()
            self._asserted.clear()
        return passed

    def _find_new(self, mutants: Mutants) -> list[Suspect]:
        return [one for one in mutants.suspects if one.is_new and one.whole][: self._effort.most]

    async def _see(self) -> bool:
        """See how long the tests take; return whether they pass without a mutant.

        First alone, in reverse, and the product finds neither its tests nor its own code as it was: that
        makes no difference, unless it takes its answers from there, or looks whether it is a mutant.
        """
        fails: list[str] = []
        for only, blind in dict.fromkeys(((self._proving, True), (self._proving, False), ((), False))):
            began = time.monotonic()
            seen = await self._run(self._respelt if blind else {}, only, blind)
            took = time.monotonic() - began
            if _ended(seen, self._proving, "") is _End.SURVIVED:
                self._only, self._limit = only, patience(took)
                self._deadline = time.monotonic() + max(self._effort.seconds, _LONG * took)
                if blind:
                    fails = await self._fail_alone(seen)
                self.cap = await self._explain(fails) if fails else await self._see_apart(seen)
                return True
            fails = _failed(seen, self._proving) or fails
        return False

    async def _fail_alone(self, reverse: Observed) -> list[str]:
        """Return which of a few tests, chosen by lot, fail when nothing else runs; one came first already."""
        ran = [key for key in reverse.report.tests if key in self._proving] if reverse.report else []
        others = [key for key in self._proving if key not in ran[:1]]
        several = sorted(others, key=lambda key: hashlib.sha256(key.encode()).digest())[:_ALONE]
        seen = await asyncio.gather(*(self._run(self._respelt, (key,), True) for key in several))
        return [key for key, run in zip(several, seen, strict=True) if _failed(run, (key,))]

    async def _see_apart(self, seen: Observed) -> str:
        """Return what the product does otherwise where nothing tells that tests run, if it does each time."""
        found = set(seen.report.apart) if seen.report is not None else set()
        if found:
            again = await self._run(self._respelt, self._only, True)
            found &= set(again.report.apart) if again.report is not None else set()
        shown = list_some(sorted(found), _NAMED)
        return f"the product answers otherwise where no test runs: {shown}" if found else ""

    async def _explain(self, fails: Sequence[str]) -> str:
        """Return what tests need that fail in reverse order without a sight of them, if they do each time."""
        alone, plain = [
            [bool(_failed(await self._run(texts, fails[:1], blind), fails)) for _ in range(_TRIES)]
            for texts, blind in ((self._respelt, True), ({}, False))
        ]
        if all(alone):
            why = (
                "after others"
                if all(plain)
                else "if the product can look at itself, its tests or their runner"
            )
        else:
            again = [_failed(await self._run(self._respelt, self._only, True), fails) for _ in range(_TRIES)]
            why = "in their own order" if all(again) else ""
        return f"tests pass only {why}: {list_some(fails, _NAMED)}" if why else ""

    async def judge(self, mutants: Mutants) -> Sharpness:
        """Try mutants until it is clear what the tests notice."""
        if mutants.hollow and not await self._reach(mutants.hollow):
            names = _list_names(one.label for one in mutants.hollow)
            return Sharpness(blunt=f"no test that proves the change reaches {names}")
        new = self._find_new(mutants)
        ignored, beside, unreached = await self._try_results(new)
        old, blurred = await self._find_ignored(mutants.suspects)
        ignored += old
        pool = [one.whole[0] for one in mutants.suspects if not one.is_new and one.whole]
        # A function that no test reaches counts once, as a whole. Results count as well: a short function has
        # few other mutants.
        out = {one.label for one in unreached}
        pool = [*pool, *(one for one in mutants.others if one.owner not in out)][: self._effort.most]
        pool = [*(one.whole[0] for one in new if one not in unreached), *pool]
        for one in (*beside, *blurred):
            own = [mutant for mutant in mutants.others if mutant.owner == one.label]
            pool += [mutant for mutant in own[:_FEWEST] if mutant not in pool]
        # Where it is clear already, a few more are examples for whoever writes better tests.
        await self._try(pool[: len(new) + _FEWEST] if ignored else pool, enough=not beside)
        if self._share(pool) < self._effort.share:
            await self._ask_other_tests(pool)
        ignored += [one for one in beside if self._is_blurred(one, self._own(pool, one))]
        ignored += [
            one for one in blurred if self._own(pool, one) and self._is_blurred(one, self._own(pool, one))
        ]
        missed = (
            [one.label for one in unreached] if len(unreached) > (1 - self._effort.share) * len(new) else []
        )
        return self._conclude(ignored, missed, pool)

    async def _try_results(
        self, new: Sequence[Suspect]
    ) -> tuple[list[Suspect], list[Suspect], list[Suspect]]:
        """Return the functions that tests reach and whose result nobody looks at.

        The second are those where doing nothing at all would be noticed: their other mutants decide. No test
        reaches the third.
        """
        await self._try([one.whole[0] for one in new])
        doubtful = [one for one in new if self._ends.get(one.whole[0]) is not _End.NOTICED]
        await self._try([mutant for one in doubtful for mutant in one.whole[1:]])
        alive = [one for one in doubtful if any(self._ends.get(each) is _End.SURVIVED for each in one.whole)]
        beside = [one for one in alive if any(self._ends.get(each) is _End.NOTICED for each in one.whole)]
        ignored = [one for one in alive if one not in beside]
        leaving = {one.label: one.leave for one in ignored if one.leave is not None}
        await self._try(leaving.values())
        ends = {label: self._ends.pop(leave, _End.NOTICED) for label, leave in leaving.items()}
        unreached = [one for one in ignored if ends.get(one.label) is _End.SURVIVED]
        return [one for one in ignored if one not in unreached], beside, unreached

    async def _reach(self, several: Sequence[Suspect]) -> bool:
        """Return whether a test enters one of these functions."""
        leaving = [one.leave for one in several if one.leave is not None]
        await self._try(leaving)
        return any(self._ends.pop(one, _End.NOTICED) is not _End.SURVIVED for one in leaving)

    async def _find_ignored(self, suspects: Sequence[Suspect]) -> tuple[list[Suspect], list[Suspect]]:
        """Return the functions that were there before, if what comes out of no function at all is looked at.

        Other tests may look at them; those that prove the change must look at something. The second are those
        where doing nothing would be noticed.
        """
        old = [one for one in suspects if not one.is_new and one.whole][: self._effort.most]
        if any(self._ends.get(each) is _End.NOTICED for one in suspects for each in one.whole):
            return [], []
        ignored, beside, _ = await self._try_results(old)
        noticed = any(self._ends.get(one.whole[0]) is _End.NOTICED for one in old)
        return ([] if beside or noticed else ignored), ([] if noticed else beside)

    def _own(self, pool: Iterable[Mutant], suspect: Suspect) -> list[Mutant]:
        return [one for one in pool if one.owner == suspect.label and one.operator != "result"]

    def _is_blurred(self, suspect: Suspect, own: Sequence[Mutant]) -> bool:
        """Return whether nobody looks at what a function does whose result may be another one.

        Too few of its other mutants are noticed, or none of all by an assertion: what has another type, or is
        missing, makes any test crash.
        """
        viable = [one for one in own if self._ends.get(one, _End.UNBUILT) is not _End.UNBUILT]
        if not viable or self._share(viable) < self._effort.share:
            return True
        return self._asserted.isdisjoint((*suspect.whole, *own))

    def _share(self, pool: Iterable[Mutant]) -> float:
        """Return which part of the mutants that say something was noticed; those not tried say nothing."""
        ends = [self._ends[one] for one in pool if self._ends.get(one, _End.UNBUILT) is not _End.UNBUILT]
        return sum(end is _End.NOTICED for end in ends) / len(ends) if ends else 0.0

    async def _try(self, mutants: Iterable[Mutant], enough: bool = False) -> None:
        """Try mutants, some side by side; `enough`: no more of them than it takes to be content."""
        several = list(dict.fromkeys(mutants))
        wanted, pending = math.ceil(self._effort.share * len(several)), iter(several)

        async def work() -> None:
            for mutant in pending:
                noticed = sum(self._ends.get(one) is _End.NOTICED for one in several)
                if time.monotonic() > self._deadline or (enough and noticed >= wanted):
                    return
                if mutant not in self._ends:
                    self._ends[mutant] = await self._end_of(mutant, self._only)

        await asyncio.gather(*(work() for _ in range(_SIDE_BY_SIDE)))

    async def _end_of(self, mutant: Mutant, only: Collection[str]) -> _End:
        try:
            async with asyncio.timeout(self._limit if only or not self._only else patience(self._whole)):
                seen = await self._run({mutant.path: mutant.text}, only, False)
        except TimeoutError:
            return _End.UNBUILT
        proving = self._proving if only or not self._only else ()
        end = _ended(seen, proving, mutant.unbuilt)
        if end is _End.NOTICED and _is_asserted(seen, proving):
            self._asserted.add(mutant)
        return end

    async def _ask_other_tests(self, pool: Sequence[Mutant]) -> None:
        """Leave out what other tests of the check notice: these lines are their business."""
        alive = [one for one in pool if self._only and self._ends.get(one) is _End.SURVIVED]
        for mutant in alive:
            late = time.monotonic() + self._whole > self._deadline
            if not late and await self._end_of(mutant, ()) is _End.NOTICED:
                self._ends[mutant] = _End.UNBUILT

    def _conclude(
        self, ignored: Sequence[Suspect], missed: Sequence[str], pool: Sequence[Mutant]
    ) -> Sharpness:
        ends = {one: end for one, end in self._ends.items() if end is not _End.UNBUILT}
        noticed = sum(end is _End.NOTICED for end in ends.values())
        survivors = tuple(one.shown for one, end in ends.items() if end is _End.SURVIVED)
        found = Sharpness(len(ends), noticed, survivors)
        untried = [one for one in pool if one not in self._ends]
        share, viable = self._share(pool), [one for one in pool if one in ends]
        if ignored:
            names = _list_names(one.label for one in ignored)
            return replace(found, blunt=f"no test looks at what comes out of {names}")
        if missed:
            return replace(found, blunt=f"no test that proves the change reaches {_list_names(missed)}")
        seen = round(share * len(viable))
        # One mutant more or less says little: it may mean the same as the original.
        if len(viable) - seen > 1 and share < self._effort.share:
            words = f"{seen} of {len(viable)} small changes of the changed lines were noticed"
            return replace(found, blunt=f"{words}, less than {self._effort.share:.0%}")
        if not noticed:
            return replace(found, blunt="not measured: no mutant of the changed lines could be built")
        if untried and len(ends) < _FEWEST and time.monotonic() > self._deadline:
            return replace(found, blunt=f"not measured: {self._effort.seconds:.0f} s were not enough")
        return found


def _list_names(labels: Iterable[str]) -> str:
    return list_some([label.partition("@")[0] or f"line {label[1:]}" for label in labels], _NAMED)


def _failed(seen: Observed, proving: Iterable[str]) -> list[str]:
    tests = seen.report.tests if seen.report is not None else {}
    return [key for key in proving if key in tests and tests[key].outcome is TestOutcome.FAILED]


def _is_asserted(seen: Observed, proving: Collection[str]) -> bool:
    """Return whether an assertion failed, or nobody says why the tests did."""
    tests = seen.report.tests if seen.report is not None else {}
    reasons = [tests[key].reason for key in proving if key in tests]
    return not any(reasons) or Reason.ASSERTION in reasons


def _ended(seen: Observed, proving: Collection[str], unbuilt: str) -> _End:
    """Return what the tests made of a mutant."""
    tests = seen.report.tests if seen.report is not None else {}
    outcomes = [tests[key].outcome if key in tests else None for key in proving]
    if TestOutcome.FAILED in outcomes:
        return _End.NOTICED
    if all(one is TestOutcome.PASSED for one in outcomes) if outcomes else seen.exit_code == 0:
        return _End.SURVIVED
    if seen.exit_code is None:
        return _End.UNBUILT
    said = "\n".join((seen.output, *(case.message for case in tests.values() if case.whole_file)))
    return _End.UNBUILT if unbuilt and re.search(unbuilt, said, re.M) else _End.NOTICED
