"""Examine one check of one task: run it on the trees that are needed, and describe what it says."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from segue.domain.proof import NOT_EXERCISED, CheckResult, CheckState, HowSettled, KnownFailures
from segue.domain.task import TaskKind
from segue.proof.ahead import RunOrder, RunsAhead, together
from segue.proof.compose import Comparison, Control, Recipe
from segue.proof.decide import Decision, decide, list_ids
from segue.proof.describe import describe, equal_to_all, is_wrong, only_silenced
from segue.proof.disguise import Disguise
from segue.proof.doubts import Doubts
from segue.proof.execute import Sandbox, SealOptions
from segue.proof.mutation.mutate import misfit, sabotage, sabotage_old
from segue.proof.mutation.sharpness import Sharpness, measure, patience
from segue.proof.mute import find_mute
from segue.proof.obstacles import find_obstacle
from segue.proof.ordinary import Repetition, narrow
from segue.proof.paths import PathKind, matches_any
from segue.proof.repeats import KnownFlaky, Repeats
from segue.proof.report import TestOutcome
from segue.proof.runners import FALLBACKS, LAST, RUNNERS, WHOLE, Project, Purpose, Runner
from segue.proof.runs import Observed, Runs
from segue.proof.selection import (
    find_apart,
    find_broken,
    find_reached,
    has_tests,
    join_parts,
    select_files,
)
from segue.proof.support import Support
from segue.system.files import private_folder, write_atomic

_NOTHING_RAN = Observed(None)
_BASE = Recipe("base", "base")
_NOT_ALL_RUN = "Only tests that lead to the change were run."
_CONTENT = (CheckState.PASSED, CheckState.NOTHING)
_OLD = 3600.0
"""Seconds after which a remembered result is looked at again before somebody is blamed because of it."""


Redact = Callable[[str], str]
"""Removes secrets from a text that is kept."""


class SealedCheck(Struct):
    """One check of one task."""

    argv: tuple[str, ...]
    named: frozenset[str]
    """The files that the command consists of."""
    comparison: Comparison
    place: Sandbox
    base_place: Sandbox
    """Where the base is tried: in its own environment."""
    options: SealOptions
    redact: Redact
    kind: TaskKind = TaskKind.BUILD
    expected_red: frozenset[str] = frozenset()
    known: KnownFailures = KnownFailures()
    """What was red before the run."""
    watched: frozenset[str] = frozenset()
    """Tests that proved earlier tasks by this command."""
    words: str = ""
    """What the task says."""
    armed: tuple[Runner, ...] = ()
    """The runners that are asked for a report."""
    wrong: tuple[str, ...] = ()
    """Tests that fail, and not because a name is missing."""
    is_measured: bool = False
    """Whether mutants are to show that the tests that prove the task can tell right from wrong."""
    idle: tuple[str, ...] = ()
    """Control files that the task changed, and that the check does not need or nobody has agreed to."""
    met: KnownFlaky = field(default_factory=KnownFlaky)
    """What earlier tasks of the run found flaky."""
    flaky: tuple[str, ...] = ()
    hiding: tuple[str, ...] = ()
    """New modules that the work needs, although they hide others of the same name."""
    caps: tuple[str, ...] = ()
    """Why the level is at most `checked`."""
    selected: tuple[str, ...] = ()
    """The files with tests that the task changed, if they can be run without the others."""
    apart: dict[str, str] = {}
    """Tests whose files are left out of the tree where only others matter."""
    is_long: bool = False
    """Whether the others are run only once."""
    is_hasty: bool = True
    """Whether a long suite ends when tests that lead to the change fail."""
    is_partial: bool = False
    """Whether it has ended so."""
    ahead: RunsAhead = field(default_factory=RunsAhead)
    """What a short suite is known to need if the work passes."""
    unseen: tuple[str, ...] = ()
    """Files with independent tests of the task."""
    mute: str = ""
    """Why its exit code says nothing."""
    on_head: Observed | None = None
    """How the command ends on the head as it is, with which the next task begins; None: not known."""

    async def run(self, cache: Path, base: str) -> CheckResult:
        """Run what is needed, decide, and describe the result."""
        is_old = cache.exists() and time.time() - cache.stat().st_mtime > _OLD
        calibrated = await self.observe_base(cache, base)
        self.comparison.goals = self.argv
        support = Support(self.comparison, self.named, calibrated)
        await support.sort()
        fresh = partial(self._observe_again, cache, base) if is_old else None
        runs, recipe, control, repeats = await self._try_new_code(calibrated, support, fresh)
        decision = decide(runs)
        again, ordinary = None, None
        if decision.state is CheckState.PASSED and self.kind is not TaskKind.TEST_FIRST:
            again = Repetition(self._run_as, self.argv, recipe, is_part=self._is_by_file())
            wait = self.is_long and bool(self.selected)
            (runs, self.mute), ordinary = await together(
                together(self._look_closer(runs, recipe), self._find_mute(runs)), again.start(runs, wait=wait)
            )
            decision = decide(runs)
        await self.ahead.end()
        if decision.state is CheckState.PASSED:
            closer = runs
            runs = await repeats.notice(runs, partial(self._sabotage, recipe, runs.new.seconds))
            runs = await repeats.proof(runs, decision, again is not None and again.agrees(runs, ordinary))
            await repeats.find_makers(await self._see_all(closer, recipe, repeats), self.met, base)
            decision = self._name_flaky(decide(runs), repeats, base)
            if again is not None:
                again.flaky = repeats.flaky.keys()
                judged, decision = await again.judge(closer, decision, ordinary)
                runs = replace(runs, ordinary=judged.ordinary)
                self.caps += (again.cap,)
        else:
            decision = self._name_flaky(decision, repeats, base)
        if decision.state is CheckState.PASSED and await self._is_head(recipe) and not self.flaky:
            self.on_head = replace(runs.new, is_open=self.comparison.is_open)
        self.wrong = tuple(key for key in decision.failing if is_wrong(key, runs))
        decision = self._weaknesses(decision, runs, recipe, control)
        result = describe(shlex.join(self.argv), decision, runs, control, self.watched)
        result = replace(result, tested=self._find_tested(runs.new))
        from segue.proof.settle.check import settle_check  # rarely has anything to do

        result = await settle_check(result, self.comparison, decision, runs, self.words)
        if result.unsettled and result.noticed and not await self._still_looks(recipe, runs.new):
            self.caps += ("no test looks any more at what was changed of the old code",)
            result = replace(result, noticed=False)
        if decision.state is CheckState.PASSED:
            open_questions = any(one.how is HowSettled.UNSETTLED for one in result.changed_tests)
            self.idle = control if open_questions or recipe.control is Control.BASE else ()
            doubts = Doubts(self.comparison, runs, support.doubtful, self._run)
            # What compares with values that equal everything passes, so it says nothing.
            nothing = equal_to_all(runs) or only_silenced(result, runs)
            self.caps += (result.cap, await doubts.try_old_versions(), nothing)
            state = CheckState.NOTHING if nothing else result.state
            result = replace(result, both_sides=await doubts.name_both_sides(), state=state)
        if decision.known and runs.code_changed:
            result = await self._judge_red(result, runs, recipe)
        result, decision = await self._look_at_exam(result, decision, runs, recipe)
        lost = tuple(key for key in result.lost if key not in self.flaky)
        result = replace(result, flaky=self.flaky, cap="; ".join(filter(None, self.caps)), lost=lost)
        if not self.is_measured or decision.state is not CheckState.PASSED or not decision.proved:
            return result
        if decision.noticed is False:
            return replace(result, blunt="they pass although every changed function fails")
        sharp = await self._measure(decision, recipe, runs.new)
        tried = (sharp.tried, sharp.noticed) if sharp.tried else None
        cap = "; ".join(filter(None, (result.cap, sharp.cap)))
        return replace(result, mutants=tried, survivors=sharp.survivors, blunt=sharp.blunt, cap=cap)

    async def _find_mute(self, runs: Runs) -> str:
        return "" if self.is_long else await find_mute(self.comparison, runs, self._run)

    def _find_tested(self, new: Observed) -> tuple[str, ...]:
        """Return the changed files in which there are tests."""
        found = {case.file for case in new.report.tests.values()} if new.report is not None else set()
        return tuple(sorted(found.intersection(self.comparison.differing)))

    async def _look_at_exam(
        self, result: CheckResult, decision: Decision, runs: Runs, recipe: Recipe
    ) -> tuple[CheckResult, Decision]:
        """Name independent tests that lack a name, and leave those out that pass whatever the work does."""
        if not self.unseen:
            return result, decision
        from segue.proof.exam import find_lucky, name_missing  # most projects have none
        from segue.proof.independent import is_in

        if decision.state is not CheckState.PASSED:
            unnamed = name_missing(runs.new.report, result.failing, self.unseen)
            return replace(result, unnamed=tuple(sorted(unnamed.items()))), decision

        async def run(broken: Mapping[str, bytes], wanted: Collection[str]) -> Observed:
            try:
                async with asyncio.timeout(patience(runs.new.seconds)):
                    return await self._run(recipe, broken, wanted=wanted, brief=True)
            except TimeoutError:
                return _NOTHING_RAN

        tests = [key for key in decision.proved if is_in(key, self.unseen)]
        lucky = await find_lucky(run, await self._changed_files(), tests)
        left = tuple(key for key in decision.proved if key not in lucky)
        proved = tuple(key for key in result.proved if key not in lucky)
        return replace(result, proved=proved, lucky=lucky), replace(decision, proved=left)

    async def run_twice(self, cache: Path, base: str, files: Collection[str]) -> tuple[Observed, Observed]:
        """Return how the tests in some files end, two times, on the head as it is."""
        await self.observe_base(cache, base)
        recipe = Recipe("head", "head")
        first = await (self._run(recipe, wanted=files) if self.armed else self._calibrate(recipe))
        return first, await self._run(recipe, wanted=files)

    async def _judge_red(self, result: CheckResult, runs: Runs, recipe: Recipe) -> CheckResult:
        """Say where a failure that was there before rejects what the task has changed."""
        from segue.proof.still_red import find_rejection  # where nothing is red, nobody needs it

        files, run = await self._changed_files(), partial(self._run, recipe)
        rejected = await find_rejection(runs, result.known, files, run)
        self.caps += (rejected,)
        if not rejected or result.state is not CheckState.NOTHING:
            return result
        return replace(result, reason=f"It was {rejected}.", weaknesses=())

    async def _measure(self, decision: Decision, recipe: Recipe, new: Observed) -> Sharpness:
        """Return what mutants of the changed lines show about the tests that prove the task."""
        proving = [key for key in decision.proved if key]
        runners = new.report.runners if new.report is not None else ()

        async def run(broken: Mapping[str, bytes], wanted: Collection[str], blind: bool) -> Observed:
            # A test alone: nothing else is even loaded, where the command can be told so.
            argv = narrow(self.argv, runners, tuple(wanted)) if len(wanted) == 1 else None
            return await self._run(recipe, broken, wanted=wanted, brief=True, blind=blind, argv=argv)

        return await measure(run, await self._changed_files(), proving, self.options.effort, new.seconds)

    async def tear_down(self) -> None:
        """Leave nothing at work, and run what the user wants to run after each check."""
        await self.ahead.end()
        if self.options.teardown:
            await self.place.tear_down(await self.comparison.compose(Recipe("head", "head")))

    def _name_flaky(self, decision: Decision, repeats: Repeats, base: str) -> Decision:
        """Say what is flaky; a command that is says nothing, and tests that are do not decide."""
        if not repeats.flaky:
            return decision
        names = tuple(key or shlex.join(self.argv) for key in repeats.flaky)
        self.flaky, self.caps = names, (repeats.cap,)
        self.met.add(names, base)
        if repeats.nothing:
            return Decision(CheckState.NOTHING, "It passed and failed on the same files, so it says nothing.")
        if decision.state in _CONTENT:
            return decision
        return replace(decision, reason=f"{decision.reason} Flaky, so not counted: {list_ids(names)}.")

    async def observe_base(self, cache: Path, base: str) -> Observed:
        """Return how the check ends on the base, and find out how it reports."""
        if cache.exists():
            known = msgspec.json.decode(cache.read_bytes(), type=Observed)
            self.comparison.is_open = known.is_open
            self.armed = tuple(
                one
                for one in (*RUNNERS, *LAST, *FALLBACKS)
                if one.name in known.runners or (one not in FALLBACKS and self._is_new(one))
            )
            return known
        if not base:
            return _NOTHING_RAN
        seen = await self._open_up(await self._calibrate(_BASE))
        self.keep(seen, cache)
        return seen

    async def _open_up(self, seen: Observed) -> Observed:
        """Return how the base ends where tests may write to their own files, if some pass only there."""
        failed = seen.report.ids(TestOutcome.FAILED) if seen.report is not None else set()
        if not seen.exit_code or self.comparison.is_open:
            return seen
        self.comparison.is_open = True
        again = await self._run(_BASE, wanted=failed)
        passed = again.report.ids(TestOutcome.PASSED) if again.report is not None else set()
        if failed & passed if failed else again.exit_code == 0:
            whole = again if not failed else await self._run(_BASE)
            return replace(whole, is_open=True)
        self.comparison.is_open = False
        return seen

    async def _observe_again(self, cache: Path, base: str) -> Observed:
        cache.unlink(missing_ok=True)
        return await self.observe_base(cache, base)

    def keep(self, seen: Observed, cache: Path) -> None:
        """Remember how the command ended on a tree, unless it took too long."""
        if seen.exit_code is not None:
            private_folder(cache.parent)
            write_atomic(cache, self.redact(msgspec.json.encode(seen).decode()).encode())

    async def _is_head(self, recipe: Recipe) -> bool:
        """Return whether a recipe gives nothing but the head."""
        composed = await self.comparison.compose(recipe)
        return self.place.environment is self.base_place.environment and (
            (composed.entries, composed.texts) == (self.comparison.head, {})
        )

    def _is_new(self, runner: Runner) -> bool:
        """Return whether a runner applies to the work but did not to the base."""
        before, now = self.comparison.base.keys(), self.comparison.kinds.keys()
        return runner.applies(Project(self.argv, now)) and not runner.applies(Project(self.argv, before))

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

    async def _run(
        self,
        recipe: Recipe,
        broken: Mapping[str, bytes] | None = None,
        fixed: Mapping[str, str] = MappingProxyType({}),
        wanted: Collection[str] = (),
        brief: bool = False,
        blind: bool = False,
        argv: Sequence[str] | None = None,
    ) -> Observed:
        order = await self._order(recipe, broken, fixed, Purpose(tuple(wanted), brief, blind))
        return await self.ahead.run(replace(order, argv=tuple(argv or self.argv)))

    async def _order(
        self,
        recipe: Recipe,
        broken: Mapping[str, bytes] | None = None,
        fixed: Mapping[str, str] = MappingProxyType({}),
        purpose: Purpose = WHOLE,
    ) -> RunOrder:
        composed = await self.comparison.compose(recipe, fixed)
        if broken:
            composed = replace(composed, texts={**composed.texts, **broken})
        files, known = {self.apart.get(key, key) for key in purpose.wanted}, {*self.apart.values()}
        if files and files.issubset(known if purpose.brief else self.selected):
            composed = composed.leave_out((known - files).intersection(composed.tests))
        place = self.base_place if recipe == _BASE else self.place
        return RunOrder(place, self.argv, composed, self.armed, purpose)

    async def _again(self, recipe: Recipe, wanted: Collection[str]) -> Observed:
        """Run once more; of the tests, only these need to run."""
        return await self._run(recipe, wanted=wanted)

    async def _run_as(self, recipe: Recipe, disguise: Disguise, argv: Sequence[str]) -> Observed:
        """Run the command, or another one, as if nobody watched it."""
        is_part = recipe != _BASE and self._is_by_file()
        order = await self._order(recipe, purpose=Purpose(self.selected) if is_part else WHOLE)
        return await self.ahead.run(replace(order, argv=tuple(argv) or self.argv, disguise=disguise))

    def _is_by_file(self) -> bool:
        """Return whether the files with tests that matter are run by leaving out the others."""
        return self.is_long and bool(self.selected) and bool(self.apart)

    async def _try_new_code(
        self, base: Observed, support: Support, fresh: Callable[[], Awaitable[Observed]] | None
    ) -> tuple[Runs, Recipe, tuple[str, ...], Repeats]:
        """Run the new code, and repeat what speaks against it; `fresh` looks at the base again."""
        runs, recipe, control = await self._run_new_code(base, support)
        decision = decide(runs)
        if fresh is not None and (decision.contested or decision.state not in _CONTENT):
            # What was true then may not be now, such as the date; nobody is blamed for that.
            base = await fresh()
            runs = replace(runs, base=base)
        repeats = Repeats(self._again, recipe)
        runs = await repeats.refusal(runs)
        if self.is_partial and decide(runs).state in _CONTENT:  # what failed was chance, so all are run
            self.is_hasty = self.is_partial = False
            return await self._try_new_code(base, support, None)
        return runs, recipe, control, repeats

    async def _run_new_code(self, base: Observed, support: Support) -> tuple[Runs, Recipe, tuple[str, ...]]:
        """Run the new code with the old tests and with the new ones; also return what controls them."""
        recipe = Recipe("head", "head")
        young = base is _NOTHING_RAN or (base.report is not None and not base.tests)
        if young:
            regress = new = await (self._run(recipe) if self.armed else self._calibrate(recipe))
        else:
            self.is_long = base.seconds > self.options.long
            self.selected, self.apart = await select_files(self.comparison, base), find_apart(base)
            (regress, new), _ = await together(self._run_both(recipe, base), self._begin_ahead(recipe))
        self.apart = {**self.apart, **find_apart(new)}
        learned = await support.learn(new)
        if not young and (learned or await support.unmask(new, partial(self._run, _BASE))):
            # Some of what was added is a test, or settings that the check finds by itself.
            self.selected = ()
            regress, new = await self._run_both(recipe, base)
        control = await self.comparison.control_changed()
        runs = self._runs(base, regress, new, control)
        if self.comparison.changed(PathKind.SHADOW) and decide(runs).state not in _CONTENT:
            runs = await self._with_shadows(runs, recipe, base)
            control = await self.comparison.control_changed()
        for wider in self._wider(control):
            state = decide(runs).state
            if state in _CONTENT and not self._is_bare(runs):
                break
            self.selected = ()
            again = await self._run(replace(recipe, control=wider))
            first = runs.regress if base.tests or not again.tests else again
            tried = replace(runs, new=again, regress=first, still_unready=self._is_unready(again))
            # What cannot be believed says less than the failure without the agent's control files.
            if state is not CheckState.FAILED or decide(tried).state is not CheckState.REFUTED:
                runs, recipe = tried, replace(recipe, control=wider)
        if decide(runs).state is not CheckState.PASSED:
            await self.ahead.end()
        return runs, recipe, control

    async def _with_shadows(self, runs: Runs, recipe: Recipe, base: Observed) -> Runs:
        """Run again with new modules that hide others of the same name: the product may be made of them."""
        kinds, hiding = self.comparison.kinds, self.comparison.changed(PathKind.SHADOW)
        kinds |= dict.fromkeys(hiding, PathKind.CODE)
        self.selected = ()
        regress, new = await self._run_both(recipe, base)
        tried = self._runs(base, regress, new, await self.comparison.control_changed())
        if decide(tried).state is not CheckState.REFUTED:
            self.hiding = hiding
            return tried
        kinds |= dict.fromkeys(hiding, PathKind.SHADOW)
        return runs

    async def _run_both(self, recipe: Recipe, base: Observed) -> tuple[Observed, Observed]:
        """Run the new code with the old tests, and with the new ones; of a long suite, these alone."""
        if not self.comparison.changed_tests():
            new = await self._run_all(recipe, base)
            return new, new
        wanted = self.selected if self.is_long else ()
        regress, new = await together(
            self._run_all(Recipe("head", "base"), base), self._run(recipe, wanted=wanted)
        )
        # With what is left out, they may lack something that nobody saw them use.
        is_sure = not (wanted and self.apart) or new.exit_code == 0
        if is_sure and has_tests(self.selected, self.comparison, new):
            return regress, join_parts(regress, new, wanted) if wanted else new
        self.selected = ()
        return regress, await self._run(recipe) if wanted else new

    async def _run_all(self, recipe: Recipe, base: Observed) -> Observed:
        """Run all tests; of a long suite, end when some that lead to the change fail that passed before."""
        self.is_partial = False
        first = await find_reached(self.comparison, base) if self.is_long and self.is_hasty else ()
        if not first:
            return await self._run(recipe)
        order = await self._order(recipe)
        self.ahead.begin(order)
        for _ in range(2):
            part = await self._run(recipe, wanted=first)
            broken = find_broken(base, part)
            if all(matches_any(key, self.options.known_failures) for key in broken):
                return await self.ahead.run(order)
        await self.ahead.end()
        self.is_partial = True
        return join_parts(base, part, first)

    def _is_bare(self, runs: Runs) -> bool:
        """Return whether no test was found although some were added."""
        return not runs.new.tests and bool(self.comparison.added(PathKind.TEST))

    def _wider(self, control: Sequence[str]) -> list[Control]:
        """Return with whose control files the new tests are tried when those of the base do not do."""
        added = [path for path in control if path not in self.comparison.base]
        merged = [path for path in control if self.comparison.kinds[path] is PathKind.MERGED]
        wider = [Control.ADDED] if added or merged else []
        return [*wider, Control.HEAD] if len(added) < len(control) else wider

    async def _begin_ahead(self, recipe: Recipe) -> None:
        """Begin what is needed if the work passes, unless that delays a long suite or runs may meet."""
        tests, wait = bool(self.comparison.changed_tests()), self.is_long or self.place.shares_network
        if self.kind is TaskKind.TEST_FIRST or (tests and wait):
            return
        if not wait:
            self.ahead.begin(replace(await self._order(recipe), disguise=Disguise.ORDINARY))
        only = Purpose(self.selected)
        if tests and self.comparison.changed(PathKind.CODE, PathKind.MERGED):
            self.ahead.begin(await self._order(replace(recipe, code="base"), purpose=only))
        if broken := await asyncio.to_thread(sabotage, await self._changed_files()):
            self.ahead.begin(await self._order(recipe, broken, purpose=only))

    async def _look_closer(self, runs: Runs, recipe: Recipe) -> Runs:
        """Run the new tests on the old code, and on sabotaged code."""
        seconds, files = runs.new.seconds, self.selected
        known = runs.base.report.tests.values() if runs.base.report is not None else ()
        # Of a file that could not be loaded, only sabotage tells which tests need the change.
        waits = any(case.whole_file and case.file not in files for case in known)
        wanted = files if not waits and (self.is_long or not decide(runs).contested) else ()
        is_new = bool(self.comparison.changed_tests()) and runs.code_changed
        old, sabotaged = await together(
            self._run_old(is_new, recipe), self._sabotage(recipe, seconds, wanted)
        )
        # With the old code, the other tests end as on the base; with sabotaged code nobody has looked.
        old = old and join_parts(runs.base, old, files) if files else old
        broken = sabotaged and join_parts(runs.new, sabotaged, files) if wanted else sabotaged
        closer = replace(runs, old_code=old, sabotage=broken, unbreakable=broken is None)
        if wanted and decide(closer).noticed is False:
            closer = replace(closer, sabotage=await self._sabotage(recipe, seconds))
        return await self._try_types(closer, recipe)

    async def _try_types(self, runs: Runs, recipe: Recipe) -> Runs:
        """Let types not fit, where a command that failed before runs nothing that could fail."""
        decision = decide(runs)
        if runs.new.report is not None or not decision.proved or decision.noticed is not False:
            return runs
        broken = await asyncio.to_thread(misfit, await self._changed_files())
        seen = await self._run_broken(recipe, runs.new.seconds, broken) if broken else None
        if seen is None or not seen.exit_code:
            return runs
        self.caps += ("the check looks at types, and runs nothing",)
        return replace(runs, sabotage=seen)

    async def _see_all(self, runs: Runs, recipe: Recipe, repeats: Repeats) -> Runs:
        """Look whether flaky tests run through the change, of which only some have run on sabotaged code."""
        if not repeats.flaky or not self.selected:
            return runs
        return replace(runs, sabotage=await self._sabotage(recipe, runs.new.seconds))

    async def _run_old(self, wanted: bool, recipe: Recipe) -> Observed | None:
        return await self._run(replace(recipe, code="base"), wanted=self.selected) if wanted else None

    async def _sabotage(
        self, recipe: Recipe, seconds: float, wanted: Collection[str] = ()
    ) -> Observed | None:
        """Run the tests, which take so long, on code that raises.

        None if there is none to break, or nothing to learn from it.
        """
        if self.kind is TaskKind.TEST_FIRST:
            return None
        broken = await asyncio.to_thread(sabotage, await self._changed_files())
        return await self._run_broken(recipe, seconds, broken, wanted) if broken else None

    async def _run_broken(
        self, recipe: Recipe, seconds: float, broken: Mapping[str, bytes], wanted: Collection[str] = ()
    ) -> Observed:
        try:
            async with asyncio.timeout(patience(seconds)):
                return await self._run(recipe, broken, wanted=wanted)
        except TimeoutError:
            return _NOTHING_RAN

    async def _still_looks(self, recipe: Recipe, new: Observed) -> bool:
        """Return whether something fails where the old functions do that were changed with their tests."""
        broken = await asyncio.to_thread(sabotage_old, await self._changed_files())
        seen = await self._run_broken(recipe, new.seconds, broken) if broken else None
        if seen is None or seen.report is None or new.report is None:
            return seen is None or bool(seen.exit_code)
        return bool(new.report.ids(TestOutcome.PASSED) - seen.report.ids(TestOutcome.PASSED))

    async def _changed_files(self) -> dict[str, tuple[str, str]]:
        """Return the product's changed files, before and after."""
        files = {}
        for path in self.comparison.changed(PathKind.CODE):
            texts = await asyncio.gather(
                self.comparison.text("base", path), self.comparison.text("head", path)
            )
            files[path] = (texts[0], texts[1])
        return files

    def _runs(self, base: Observed, regress: Observed, new: Observed, control: Sequence[str]) -> Runs:
        comparison, command, known = self.comparison, shlex.join(self.argv), self.known
        if matches_any(command, self.options.known_failures):
            known = KnownFailures(known.tests | {command}, known.repaired)
        return Runs(
            base,
            regress,
            new,
            kind=self.kind,
            touched={*comparison.changed_tests(), *control},
            control_touched=bool(control),
            product=[path for path in comparison.changed(PathKind.CODE) if path in comparison.base],
            command_is_new=bool(self.named) and self.named.isdisjoint(comparison.base),
            command_touched=not self.named.isdisjoint(comparison.changed_tests()),
            code_changed=bool(comparison.changed(PathKind.CODE, PathKind.MERGED)),
            allowed=self.options.known_failures,
            expected_red=self.expected_red,
            command=command,
            known=known,
            unready=self._is_unready(base),
            still_unready=self._is_unready(new),
        )

    def _is_unready(self, seen: Observed) -> bool:
        return find_obstacle(self.argv, seen, self.comparison.kinds.keys()) is not None

    def _weaknesses(self, decision: Decision, runs: Runs, recipe: Recipe, control: Sequence[str]) -> Decision:
        if self.is_partial:
            return replace(decision, reason=f"{decision.reason} {_NOT_ALL_RUN}")
        if decision.state is not CheckState.PASSED:
            return decision
        if self.mute:
            return Decision(CheckState.REFUTED, self.mute)
        said = list(decision.weaknesses)
        if recipe.control is not Control.BASE:
            said.append(f"the tests need control files that the agent wrote: {', '.join(control)}")
        if self.hiding:
            said.append(f"new modules have names of others: {', '.join(self.hiding)}")
        if runs.code_changed and decision.noticed is None and self.kind is not TaskKind.TEST_FIRST:
            said.append(NOT_EXERCISED)
        return replace(decision, weaknesses=tuple(said))
