"""Examine one check of one task: run it on the trees that are needed, and describe what it says."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from segue.domain.proof import NOT_EXERCISED, CheckResult, CheckState, Contested
from segue.domain.task import TaskKind
from segue.proof.compose import Comparison, Control, Recipe
from segue.proof.decide import Decision, Observed, Runs, decide
from segue.proof.execute import Sandbox
from segue.proof.options import SealOptions
from segue.proof.paths import PathKind
from segue.proof.runners import FALLBACKS, LAST, RUNNERS, Project, Runner
from segue.proof.sabotage import sabotage
from segue.proof.words import describe
from segue.system.files import private_folder, write_atomic

_CONTESTED_BYTES = 20 * 1024
_NOTHING_RAN = Observed(None)
Redact = Callable[[str], str]
"""Removes secrets from a text that is kept."""
_First = TypeVar("_First")
_Second = TypeVar("_Second")


class SealedCheck(Struct):
    """One check of one task."""

    argv: tuple[str, ...]
    named: frozenset[str]
    """The files that the command consists of."""
    comparison: Comparison
    place: Sandbox
    options: SealOptions
    kind: TaskKind
    expected_red: frozenset[str]
    redact: Redact
    armed: tuple[Runner, ...] = ()
    """The runners that are asked for a report."""

    async def run(self, cache: Path, base: str) -> CheckResult:
        """Run what is needed, decide, and describe the result."""
        control = await self.comparison.control_changed()
        calibrated = await self._base(cache, base)
        runs, recipe = await self._wave(calibrated, control)
        decision = decide(runs)
        if decision.state is CheckState.PASSED and self.kind is not TaskKind.TEST_FIRST:
            runs = await self._look_closer(runs, recipe)
            decision = decide(runs)
        decision = self._weaknesses(decision, runs, recipe, control)
        contested = await self._contested(decision, runs, control)
        return describe(shlex.join(self.argv), decision, runs, control, contested)

    async def tear_down(self) -> None:
        """Run what the user wants to run after each check."""
        if self.options.teardown:
            await self.place.tear_down(await self.comparison.compose(Recipe("head", "head")))

    async def _base(self, cache: Path, base: str) -> Observed:
        """Return how the check ends on the base, and find out how it reports."""
        if cache.exists():
            known = msgspec.json.decode(cache.read_bytes(), type=Observed)
            self.armed = tuple(one for one in (*RUNNERS, *LAST, *FALLBACKS) if one.name in known.runners)
            return known
        seen = await self._calibrate(Recipe("base", "base")) if base else _NOTHING_RAN
        if base and seen.exit_code is not None:
            private_folder(cache.parent)
            write_atomic(cache, self.redact(msgspec.json.encode(seen).decode()).encode())
        return seen

    async def _calibrate(self, recipe: Recipe) -> Observed:
        """Try the ways to get a report until one works."""
        project = Project(self.argv, self.comparison.kinds.keys())
        usual = tuple(runner for runner in (*RUNNERS, *LAST) if runner.applies(project))
        seen = await self._try(recipe, usual)
        for runner in FALLBACKS:
            if seen.hook_failed and runner.applies(project):
                seen = await self._try(recipe, (runner,))
        return await self._try(recipe, ()) if seen.hook_failed else seen

    async def _try(self, recipe: Recipe, armed: tuple[Runner, ...]) -> Observed:
        self.armed = armed
        return await self._run(recipe)

    async def _run(self, recipe: Recipe, broken: Mapping[str, bytes] | None = None) -> Observed:
        composed = await self.comparison.compose(recipe)
        if broken:
            composed = replace(composed, texts={**composed.texts, **broken})
        return await self.place.run(self.argv, composed, self.armed)

    async def _wave(self, base: Observed, control: Sequence[str]) -> tuple[Runs, Recipe]:
        """Run the new code with the old tests and with the new ones."""
        recipe = Recipe("head", "head")
        young = base is _NOTHING_RAN or (base.report is not None and not base.tests)
        sabotaged: Observed | None = None
        if young:
            regress = new = await (self._run(recipe) if self.armed else self._calibrate(recipe))
        elif self.comparison.changed(PathKind.TEST):
            regress, new = await _together(self._run(Recipe("head", "base")), self._run(recipe))
        else:
            # There is time for the sabotage run meanwhile.
            new, sabotaged = await _together(self._run(recipe), self._sabotage(recipe))
            regress = new
        runs = replace(self._runs(base, regress, new, control), sabotage=sabotaged)
        for wider in self._wider(control):
            state = decide(runs).state
            if state in (CheckState.PASSED, CheckState.NOTHING) and not self._is_bare(runs):
                break
            again = await self._run(replace(recipe, control=wider))
            first = runs.regress if base.tests or not again.tests else again
            tried = replace(runs, new=again, regress=first, sabotage=None)
            # What cannot be believed says less than the failure without the agent's control files.
            if state is not CheckState.FAILED or decide(tried).state is not CheckState.REFUTED:
                runs, recipe = tried, replace(recipe, control=wider)
        return runs, recipe

    def _is_bare(self, runs: Runs) -> bool:
        """Return whether no test was found although some were added."""
        return not runs.new.tests and bool(self.comparison.added(PathKind.TEST))

    def _wider(self, control: Sequence[str]) -> list[Control]:
        """Return with whose control files the new tests are tried when those of the base do not do."""
        added = [path for path in control if path not in self.comparison.base]
        merged = [path for path in control if self.comparison.kinds[path] is PathKind.MERGED]
        wider = [Control.ADDED] if added or merged else []
        return [*wider, Control.HEAD] if len(added) < len(control) else wider

    async def _look_closer(self, runs: Runs, recipe: Recipe) -> Runs:
        """Run the new tests on the old code, and on sabotaged code."""
        tests = self.comparison.changed(PathKind.TEST)
        if runs.sabotage is not None and not tests:
            return runs
        old, sabotaged = await _together(
            self._run_old(bool(tests) and runs.code_changed, recipe), self._sabotage(recipe)
        )
        return replace(runs, old_code=old, sabotage=sabotaged)

    async def _run_old(self, wanted: bool, recipe: Recipe) -> Observed | None:
        return await self._run(replace(recipe, code="base")) if wanted else None

    async def _sabotage(self, recipe: Recipe) -> Observed | None:
        """Run the tests on code that raises; None if there is none to break, or nothing to learn from it."""
        if self.kind is TaskKind.TEST_FIRST:
            return None
        broken = await self._sabotaged()
        return await self._run(recipe, broken) if broken else None

    async def _sabotaged(self) -> dict[str, bytes]:
        files = {}
        for path in self.comparison.changed(PathKind.CODE):
            if path in self.comparison.head:
                texts = await asyncio.gather(
                    self.comparison.text("base", path), self.comparison.text("head", path)
                )
                files[path] = (texts[0], texts[1])
        return await asyncio.to_thread(sabotage, files)

    def _runs(self, base: Observed, regress: Observed, new: Observed, control: Sequence[str]) -> Runs:
        comparison = self.comparison
        return Runs(
            base,
            regress,
            new,
            kind=self.kind,
            touched={*comparison.changed(PathKind.TEST), *control},
            control_touched=bool(control),
            command_is_new=bool(self.named) and self.named.isdisjoint(comparison.base),
            code_changed=bool(comparison.changed(PathKind.CODE, PathKind.MERGED)),
            allowed=self.options.known_failures,
            expected_red=self.expected_red,
        )

    def _weaknesses(self, decision: Decision, runs: Runs, recipe: Recipe, control: Sequence[str]) -> Decision:
        if decision.state is not CheckState.PASSED:
            return decision
        said = list(decision.weaknesses)
        if recipe.control is not Control.BASE:
            said.append(f"the tests need control files that the agent wrote: {', '.join(control)}")
        if runs.code_changed and decision.noticed is None and self.kind is not TaskKind.TEST_FIRST:
            said.append(NOT_EXERCISED)
        return replace(decision, weaknesses=tuple(said))

    async def _contested(
        self, decision: Decision, runs: Runs, control: Sequence[str]
    ) -> tuple[Contested, ...]:
        """Return both versions of what is disputed: the tests' own files, else all that could matter."""
        if decision.state is not CheckState.CONTESTED:
            return ()
        known = runs.base.report.tests if runs.base.report is not None else {}
        tests = self.comparison.changed(PathKind.TEST)
        owners: dict[str, list[str]] = {}
        for key in decision.contested:
            own = [known[key].file] if key in known and known[key].file in tests else [*tests, *control]
            for path in own:
                owners.setdefault(path, []).append(key)
        return tuple(
            [
                Contested(
                    path,
                    (await self.comparison.text("base", path))[:_CONTESTED_BYTES],
                    (await self.comparison.text("head", path))[:_CONTESTED_BYTES],
                    tuple(owners.get(path, ())),
                )
                for path in owners or control
            ]
        )


async def _together(
    first: Coroutine[Any, Any, _First], second: Coroutine[Any, Any, _Second]
) -> tuple[_First, _Second]:
    """Do both at once; when one fails, or when they are cancelled, neither is still at work afterwards."""
    tasks = asyncio.ensure_future(first), asyncio.ensure_future(second)
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            if not task.cancelling():  # twice would keep it from removing what it has written
                task.cancel()
        await asyncio.wait(tasks)
