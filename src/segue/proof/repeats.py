"""Repeat what decides: results that differ on the same tree are flaky, and prove and refute nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from segue.domain.amounts import list_some
from segue.domain.proof import CheckState
from segue.domain.task import TaskKind
from segue.proof.compose import Recipe
from segue.proof.decide import Decision, decide
from segue.proof.report import CaseResult, Reason, Report, TestOutcome
from segue.proof.runs import Observed, Runs
from segue.system.files import private_folder, write_atomic

COMMAND = ""
"""Stands for a command whose exit code is all that is known."""
BASE = Recipe("base", "base")
_SHOWN = 5
_FEW = 2
_MORE = 3
"""So often a run is repeated that only few tests notice: one that fails half of the time fails in it too."""
Again = Callable[[Recipe, Collection[str]], Awaitable[Observed]]
"""Runs the check once more on a tree; of its tests, only these need to run."""
Sabotage = Callable[[Collection[str]], Awaitable[Observed | None]]
"""Runs these tests once more on sabotaged code."""


class KnownFlaky(Struct):
    """The tests that were found flaky in this run, with the base of the task that first met them."""

    file: Path | None = None
    tests: dict[str, str] = {}

    @classmethod
    def read(cls, file: Path) -> KnownFlaky:
        """Return what was found so far."""
        try:
            return cls(file, msgspec.json.decode(file.read_bytes(), type=dict[str, str]))
        except (OSError, msgspec.DecodeError):
            return cls(file)

    def add(self, tests: Collection[str], base: str) -> None:
        """Keep these tests for later tasks."""
        fresh = {test: base for test in tests if test not in self.tests}
        if fresh and self.file is not None:
            private_folder(self.file.parent)
            self.tests |= fresh
            write_atomic(self.file, msgspec.json.encode(self.tests))

    def has_met(self, test: str, base: str) -> bool:
        """Return whether an earlier task has met it, so that this one did not make it flaky."""
        return self.tests.get(test, base) != base


class Repeats(Struct):
    """What was repeated for one check of one task, and what differed."""

    again: Again
    recipe: Recipe
    """What the run with the new code and the new tests was made of."""
    flaky: dict[str, None] = {}
    by_task: list[str] = []
    """Tests that failed now and then with the change and never without it."""
    nothing: bool = False
    """Whether the command as a whole says nothing, because it passed and failed on the same tree."""
    _done: set[str] = set()
    _in_company: set[str] = set()
    """Tests that end so only when the others run as well."""
    _unreached: set[str] = set()
    """Tests that failed by chance where the change is sabotaged, which says nothing about what they reach."""
    _first: Runs | None = None
    """The runs before anything was left out."""

    async def refusal(self, runs: Runs) -> Runs:
        """Repeat what speaks against the work, on its tree and on the base; leave out what is flaky."""
        while not self.nothing:
            decision = decide(runs)
            if decision.state in (CheckState.PASSED, CheckState.NOTHING) and not decision.contested:
                break
            wanted = [key for key in _deciding(decision, runs) if key not in self._done]
            if not wanted:
                break
            self._done.update(wanted)
            runs = await self._try_refusal(runs, wanted)
        return runs

    async def _try_refusal(self, runs: Runs, wanted: Sequence[str]) -> Runs:
        old = {key for key in wanted if runs.regress is not runs.new and _find(runs.base, key) is not None}
        regress = {key for key in old if not _passes(runs.regress, key)}
        for recipe, first, keys in (
            (Recipe("head", "base"), runs.regress, regress),
            (self.recipe, runs.new, {key for key in wanted if key not in regress}),
        ):
            if keys:
                found = await self._differ(recipe, first, keys)
                sure = keys - found.keys()
                before = {key for key in sure if _passes(runs.base, key)}
                if before:
                    found |= await self._differ(BASE, runs.base, before)
                third = sure - found.keys() - {COMMAND}
                if alone := third - self._in_company:
                    found |= await self._differ(recipe, first, alone, full=False)
                if ordered := third & self._in_company:  # the order may differ each time
                    found |= await self._differ_in_company(recipe, first, ordered)
                    if ordered & before:
                        found |= await self._differ_in_company(BASE, runs.base, ordered & before)
                runs = await self._leave_out(runs, first, recipe, found)
        return runs

    async def _leave_out(
        self, runs: Runs, first: Observed, recipe: Recipe, found: Mapping[str, Observed]
    ) -> Runs:
        """Note what is flaky, and who made it so; return the runs without it."""
        if not found:
            return runs
        if COMMAND in found:
            self.flaky[COMMAND] = None
            self.nothing = True
            return runs
        absent = [key for key in found if first.report is None or key not in first.report.tests]
        if absent:  # the run broke off, which says nothing about these tests
            self.flaky[COMMAND] = None
            other = found[absent[0]]
            full = other if other.tests >= runs.base.tests else await self.again(recipe, ())
            runs = replace(
                runs,
                regress=full if first is runs.regress else runs.regress,
                new=full if first is runs.new else runs.new,
            )
        flaky = found.keys() - set(absent)
        return self._drop(runs, flaky)

    async def notice(self, runs: Runs, again: Sabotage) -> Runs:
        """Repeat sabotage that only few tests notice, and not because it raises: that may be chance."""
        broken = runs.sabotage
        if broken is None or broken.report is None or runs.new.report is None:
            return runs
        keys = _passed(runs.new.report) - _passed(broken.report)
        if not keys or len(keys) > _FEW or not all(_is_by_chance(broken, key) for key in keys):
            return runs
        others = await asyncio.gather(*(again(keys) for _ in range(_MORE)))
        seen = [one for one in others if one is not None and one.report is not None]
        self._unreached = {key for key in keys if any(_passes(one, key) for one in seen)}
        return self._drop(runs, self._unreached)

    async def proof(self, runs: Runs, decision: Decision, twice: bool = False) -> Runs:
        """Repeat what speaks for the work, where it was seen only once; leave out what is flaky.

        `twice`: the run with the new tests was repeated already, and ended in the same way.
        """
        wanted = {COMMAND if key == runs.command else key for key in (*decision.proved, *decision.repaired)}
        wanted -= self.flaky.keys()
        if not wanted:
            return runs
        if runs.kind is TaskKind.TEST_FIRST:
            return self._drop(runs, (await self._differ(self.recipe, runs.new, wanted)).keys())
        once = {key for key in wanted if runs.regress is runs.new or not _passes(runs.regress, key)}
        once = set() if twice else once
        found = await self._differ(self.recipe, runs.new, once) if once else {}
        without = [(BASE, runs.base), (replace(self.recipe, code="base"), runs.old_code)]
        seen = [(recipe, run) for recipe, run in without if run is not None]
        for recipe, run in reversed(seen):
            failed = {key for key in wanted - found.keys() if _fails(run, key)}
            sure = {key for other, one in seen if other != recipe for key in failed if _fails(one, key)}
            # What also passes while the change is sabotaged may have failed by chance, twice at one moment.
            failed -= {key for key in sure if runs.sabotage is None or not _passes(runs.sabotage, key)}
            failed = {key for key in failed if not _is_certain(run, key)}
            found |= await self._differ(recipe, run, failed) if failed else {}
            rest = {key for key in failed - found.keys() - self._in_company if _is_by_chance(run, key)}
            found |= await self._differ(recipe, run, rest, full=False) if 0 < len(rest) <= _FEW else {}
        if COMMAND in found:
            self.flaky[COMMAND] = None
            return replace(runs, base=replace(runs.base, exit_code=0))
        return self._drop(runs, found.keys())

    async def find_makers(self, runs: Runs, known: KnownFlaky, base: str) -> None:
        """Find the flaky tests that run through the change and never failed without it."""
        first = self._first or runs
        broken = runs.sabotage or first.sabotage
        for key in self.flaky:
            reached = broken is not None and _find(broken, key) is not None and not _passes(broken, key)
            reached = reached and key not in self._unreached
            if not reached or not _passes(first.base, key) or known.has_met(key, base):
                continue
            tries = [await self.again(BASE, {key}) for _ in range(2)]
            if all(_passes(one, key) for one in tries):
                self.by_task.append(key)

    def _drop(self, runs: Runs, keys: Collection[str]) -> Runs:
        if not keys:
            return runs
        self._first = self._first or runs
        self.flaky |= dict.fromkeys(sorted(keys))
        new = without(runs.new, keys)
        return replace(
            runs,
            base=without(runs.base, keys),
            regress=new if runs.regress is runs.new else without(runs.regress, keys),
            new=new,
            old_code=runs.old_code and without(runs.old_code, keys),
            sabotage=runs.sabotage and without(runs.sabotage, keys),
        )

    async def _differ(
        self, recipe: Recipe, first: Observed, keys: Collection[str], full: bool = True
    ) -> dict[str, Observed]:
        """Return the tests that end otherwise than before when they are run again, with that run.

        A test alone may end otherwise because others ran before it: then all run once more, and that counts.
        """
        again = await self.again(recipe, keys)
        found = [key for key in keys if _passes(again, key) is not _passes(first, key)]
        if found and full and COMMAND not in keys and 0 <= again.tests < max(first.tests, 1):
            self._in_company.update(found)
            return await self._differ_in_company(recipe, first, found)
        return dict.fromkeys(found, again)

    async def _differ_in_company(
        self, recipe: Recipe, first: Observed, keys: Collection[str]
    ) -> dict[str, Observed]:
        again = await self.again(recipe, ())
        return {key: again for key in keys if _passes(again, key) is not _passes(first, key)}

    @property
    def cap(self) -> str:
        """Why the task gets no credit beyond `checked`; empty: nothing that it touched became flaky."""
        if not self.by_task:
            return ""
        tests = list_some(self.by_task, _SHOWN)
        return f"fails now and then with the change and never failed without it: {tests}"


def without(seen: Observed, keys: Collection[str]) -> Observed:
    """Return how a check ended, as if these tests had not been there."""
    if seen.report is None:
        return seen
    rest = {key: case for key, case in seen.report.tests.items() if key not in keys}
    report = replace(seen.report, tests=rest)
    only = bool(seen.report.failed) and not report.failed
    return replace(seen, report=report, exit_code=0 if only else seen.exit_code)


def _deciding(decision: Decision, runs: Runs) -> list[str]:
    """Return the tests because of which work is refused, if they were loaded at all."""
    refused = decision.state is not CheckState.PASSED  # what fails and may is no refusal
    disputed = [key for key in decision.contested if not _passes(runs.regress, key)]
    if keys := dict.fromkeys((*disputed, *decision.broken, *(decision.failing if refused else ()))):
        return [key for key in keys if not any(_is_unloaded(run, key) for run in (runs.regress, runs.new))]
    by_code = runs.new.report is None and decision.state is CheckState.FAILED
    return [COMMAND] if by_code or runs.new.exit_code is None else []


def _is_unloaded(seen: Observed, key: str) -> bool:
    case = _find(seen, key)
    return case is not None and (case.whole_file or case.reason is Reason.SYNTAX)


def _is_certain(seen: Observed, key: str) -> bool:
    """Return whether a test fails on the old code because that lacks a name, as every time."""
    case = _find(seen, key)
    return case is not None and (_is_unloaded(seen, key) or case.reason is Reason.MISSING)


def _is_by_chance(seen: Observed, key: str) -> bool:
    """Return whether a test that was loaded fails by its own assertion: sabotage makes most of them raise."""
    case = _find(seen, key)
    return case is not None and case.outcome is TestOutcome.FAILED and case.reason is Reason.ASSERTION


def _find(seen: Observed, key: str) -> CaseResult | None:
    return seen.report.tests.get(key) if seen.report is not None else None


def _passed(report: Report) -> frozenset[str]:
    return report.ids(TestOutcome.PASSED)


def _passes(seen: Observed, key: str) -> bool:
    if key == COMMAND:
        return seen.exit_code == 0
    return seen.report is not None and key in _passed(seen.report)


def _fails(seen: Observed, key: str) -> bool:
    if key == COMMAND:
        return seen.exit_code != 0
    case = _find(seen, key)
    return case is not None and case.outcome is TestOutcome.FAILED
