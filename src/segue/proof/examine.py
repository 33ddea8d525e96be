"""Examine one check of one task: run it on the trees that are needed, and conclude from that."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from segue.domain.proof import NOT_EXERCISED, CheckResult, CheckState, Contested, HowSettled, Seal
from segue.domain.task import TaskKind
from segue.proof.changed_tests import OldTest, TaskTexts, review
from segue.proof.compose import Comparison, Recipe
from segue.proof.decide import COMMAND, decide, find_changed, list_ids
from segue.proof.execute import Sandbox, SealOptions
from segue.proof.mutants.edits import sabotage
from segue.proof.mutants.measure import measure, time_limit
from segue.proof.paths import PathKind, is_program
from segue.proof.report import TestOutcome
from segue.proof.runners import FALLBACKS, LAST, RUNNERS, Project, Purpose, Runner
from segue.proof.runs import NOTHING_RAN, Change, Observed, Runs
from segue.proof.survey import find_obstacle
from segue.system.files import private_folder, write_atomic

_BASE, _HEAD, _REGRESS, _OLD = (
    Recipe("base", "base"),
    Recipe("head", "head"),
    Recipe("head", "base"),
    Recipe("base", "head"),
)
_CONTENT = (CheckState.PASSED, CheckState.NOTHING)
_CAN_SELECT = {"pytest", "unittest", "go test"}
"""The runners that can be told which tests to run; of others, files are left out."""
_REPEATS = 3
_SHOWN_BYTES = 20_000
"""Of each version of a changed test."""
_NOTHING: Mapping[str, bytes] = MappingProxyType({})
A = TypeVar("A")
B = TypeVar("B")


class Question(Struct, frozen=True):
    """What is asked about one task."""

    change: Change
    words: str = ""
    """What the task says."""
    is_measured: bool = False
    """Whether mutants are to show that the tests that prove the task can tell right from wrong."""
    unseen: tuple[str, ...] = ()
    """Files with independent tests of the task."""


class SealedCheck:
    """The runs of one check."""

    def __init__(
        self,
        argv: Sequence[str],
        comparison: Comparison,
        place: Sandbox,
        base_place: Sandbox,
        options: SealOptions,
    ) -> None:
        """Know the command, the trees, and where each is tried: in an environment of its own."""
        self.argv, self.comparison, self.options = tuple(argv), comparison, options
        self._place, self._base_place = place, base_place
        self._armed: tuple[Runner, ...] = ()
        self._files: dict[str, str] = {}
        """The files of tests whose runner cannot leave out others."""
        self.on_head: Observed | None = None
        """How the command ends on the head as it is, with which the next task begins; None: not known."""

    async def observe_base(self, cache: Path, base: str) -> Observed:
        """Return how the check ends on the base, and find out how it reports."""
        if cache.exists():
            seen = msgspec.json.decode(cache.read_bytes(), type=Observed)
            runners = (*RUNNERS, *LAST, *FALLBACKS)
            self._armed = tuple(one for one in runners if one.name in seen.runners or self._is_new(one))
        elif base:
            seen = await self._calibrate(_BASE)
            keep(seen, cache)
        else:
            seen = NOTHING_RAN
        self._note_files(seen)
        return seen

    async def examine(self, base: Observed, question: Question) -> CheckResult:
        """Run what is needed, decide, and describe what was shown."""
        change, files = question.change, self.comparison.texts(PathKind.CODE)
        broken = {} if change.kind is TaskKind.TEST_FIRST else await asyncio.to_thread(sabotage, files)
        obstacle = find_obstacle(self.argv, base)
        change = replace(change, can_break=bool(broken), could_not_start=obstacle is not None)
        runs, recipe = await self._try_control(base, change, broken)
        runs, flaky = await self._repeat_refusal(runs, recipe, change)
        result = decide(runs, change)
        if COMMAND in flaky:
            reason = "It passed and failed on the same files, so it says nothing."
            return replace(
                result, state=CheckState.NOTHING, reason=reason, flaky=(change.command,), proved=()
            )
        if result.state is CheckState.PASSED:
            result, flaky = await self._prove(runs, recipe, question, change, broken, flaky)
            result = self._review(result, runs, change, question.words)
            if self._is_head(recipe) and not flaky:
                self.on_head = runs.new
        elif flaky:
            result = replace(result, reason=f"{result.reason} Flaky, so not counted: {list_ids(flaky)}.")
        if question.unseen and result.state is not CheckState.PASSED:
            from segue.proof.exam import name_missing  # most projects have none

            unnamed = name_missing(runs.new.report, result.failing, question.unseen)
            result = replace(result, unnamed=tuple(sorted(unnamed.items())))
        lost = tuple(test for test in result.lost if test not in flaky)
        return self._describe(replace(result, flaky=tuple(sorted(flaky)), lost=lost), runs, recipe, change)

    def _describe(self, result: CheckResult, runs: Runs, recipe: Recipe, change: Change) -> CheckResult:
        """Add what is weak about the runs, and in which changed files there are tests."""
        weak, seal = list(result.weaknesses), Seal.SEALED
        if result.state is CheckState.PASSED:
            if recipe.control == "head":
                weak.append(f"the tests need control files that the agent wrote: {list_ids(change.control)}")
                seal = Seal.WEAK
            if change.code_changed and result.noticed is None and not result.awaited:
                weak.append(NOT_EXERCISED)
        cases = runs.new.report.tests.values() if runs.new.report is not None else ()
        tested = {case.file for case in cases}.intersection(self.comparison.differing)
        return replace(result, weaknesses=tuple(weak), seal=seal, tested=tuple(sorted(tested)))

    async def _try_control(
        self, base: Observed, change: Change, broken: Mapping[str, bytes]
    ) -> tuple[Runs, Recipe]:
        """Run the new code with the base's settings, and only if it needs them with those of the agent."""
        runs = await self._run_trees(base, _HEAD, change, broken)
        result = decide(runs, change)
        has_new = any(path not in self.comparison.base for path in self.comparison.changed(PathKind.TEST))
        is_bare = has_new and not runs.new.tests and result.state is not CheckState.FAILED
        if not change.control or (result.state in _CONTENT and not is_bare):
            return runs, _HEAD
        recipe = replace(_HEAD, control="head")
        tried = await self._run_trees(
            base, recipe, change, broken, regress=runs.regress if base.tests else None
        )
        # What cannot be believed says less than the failure without the agent's settings.
        is_worse = result.state is CheckState.FAILED and decide(tried, change).state is CheckState.REFUTED
        return (runs, _HEAD) if is_worse else (tried, recipe)

    async def _run_trees(
        self,
        base: Observed,
        recipe: Recipe,
        change: Change,
        broken: Mapping[str, bytes],
        regress: Observed | None = None,
    ) -> Runs:
        """Run a short suite on all trees at once; a long one once whole, and then what was changed."""
        is_young = base is NOTHING_RAN or (base.report is not None and not base.tests)
        tests = self.comparison.changed(PathKind.TEST)
        if is_young and not self._armed:
            regress = await self._calibrate(recipe)
        old = replace(recipe, code="base") if tests and change.code_changed else None
        if not is_young and base.seconds > self.options.long:
            regress = regress or await self.run(_REGRESS if tests else recipe)
            return await self._run_long(base, regress, recipe, old, change, broken)

        async def run_new() -> tuple[Observed, Observed]:
            if is_young or (not tests and recipe.control == "base"):
                seen = regress or await self.run(recipe)
                return seen, seen
            if regress is not None:
                return regress, await self.run(recipe)
            return await _together(self.run(_REGRESS), self.run(recipe))

        closer = _together(self._run_old(old), self._run_broken(recipe, base.seconds, broken))
        (first, new), (before, seen) = await _together(run_new(), closer)
        return Runs(base, first, new, before, seen)

    async def _run_long(
        self,
        base: Observed,
        regress: Observed,
        recipe: Recipe,
        old: Recipe | None,
        change: Change,
        broken: Mapping[str, bytes],
    ) -> Runs:
        """Run only the tests that the task changed; the others end as in the whole run."""
        tests = self.comparison.changed(PathKind.TEST)
        new = regress
        if tests or recipe.control != "base":
            new = await self._run_part(recipe, regress, tests)
        runs = Runs(base, regress, new)
        if decide(runs, change).state is not CheckState.PASSED:
            return runs
        wanted = [path for path in tests if path in self.comparison.head]
        broken_part = self._run_broken(recipe, base.seconds, broken, wanted)
        before, seen = await _together(self._run_old(old, wanted), broken_part)
        if wanted:
            before, seen = before and _join(base, before, tests), seen and _join(new, seen, tests)
        closer = replace(runs, old_code=before, sabotage=seen)
        if wanted and decide(closer, change).noticed is False:  # other tests may notice it
            closer = replace(closer, sabotage=await self._run_broken(recipe, base.seconds, broken))
        return closer

    async def _run_old(self, old: Recipe | None, wanted: Collection[str] = ()) -> Observed | None:
        return await self.run(old, wanted=wanted) if old is not None else None

    async def _run_part(self, recipe: Recipe, whole: Observed, files: Collection[str]) -> Observed:
        """Run the tests of some files; the others end as in the whole run."""
        here = {path for path in files if path in self.comparison.head and is_program(path)}
        if not here:
            return await self.run(recipe)
        part = await self.run(recipe, wanted=here)
        found = {case.file for case in part.report.tests.values()} if part.report is not None else set()
        return _join(whole, part, files) if here <= found else await self.run(recipe)

    async def _run_broken(
        self, recipe: Recipe, seconds: float, broken: Mapping[str, bytes], wanted: Collection[str] = ()
    ) -> Observed | None:
        """Run sabotaged code; None if there is nothing to break. What takes too long says nothing."""
        if not broken:
            return None
        try:
            async with asyncio.timeout(time_limit(seconds)):
                return await self.run(recipe, broken, wanted)
        except TimeoutError:
            return NOTHING_RAN

    async def _repeat_refusal(self, runs: Runs, recipe: Recipe, change: Change) -> tuple[Runs, set[str]]:
        """Repeat what speaks against the work; return the runs without what differs, and that."""
        flaky, done = set[str](), set[str]()
        for _ in range(_REPEATS):
            result = decide(runs, change)
            if result.state in _CONTENT:
                deciding = (
                    set(find_changed(runs, change)) if result.state is CheckState.PASSED else set[str]()
                )
            else:
                deciding = {*(result.failing or result.broken or (COMMAND,))}
            deciding -= done
            if not deciding:
                break
            done |= deciding
            differing = await self._find_differing(runs, recipe, deciding)
            flaky |= differing
            runs = runs.without(differing)
            if COMMAND in flaky:
                break
        return runs, flaky

    async def _find_differing(self, runs: Runs, recipe: Recipe, tests: set[str]) -> set[str]:
        """Return the tests that end otherwise when they run once more; the empty text is the command."""
        repeated = []
        for again, first in ((_REGRESS, runs.regress), (recipe, runs.new), (_BASE, runs.base)):
            is_same = again is _REGRESS and runs.regress is runs.new
            wanted = {test for test in tests if again is _BASE or not first.passes(test)} - {COMMAND}
            if (again is _BASE and first is NOTHING_RAN) or is_same or not (wanted or COMMAND in tests):
                continue
            repeated.append((again, first, set[str]() if COMMAND in tests else wanted))
        ends = await asyncio.gather(*(self.run(again, wanted=wanted) for again, _, wanted in repeated))
        found = set[str]()
        for (_, first, wanted), second in zip(repeated, ends, strict=True):
            found |= {test for test in wanted if _end(first, test) != _end(second, test)}
            if COMMAND in tests and first.ok != second.ok:
                found.add(COMMAND)
        return found

    async def _prove(
        self,
        runs: Runs,
        recipe: Recipe,
        question: Question,
        change: Change,
        broken: Mapping[str, bytes],
        flaky: set[str],
    ) -> tuple[CheckResult, set[str]]:
        """Repeat what proves the work, and measure whether it can tell right from wrong."""
        result = decide(runs, change)
        if not result.proved:
            if result.noticed and not await self._is_noticed_again(runs, recipe, broken):
                result = replace(result, noticed=False)
            return result, flaky
        tests = [test for test in result.proved if test != change.command]
        repeat = self._find_chance(runs, recipe, tests, change.command)
        differing, weighed = await _together(repeat, self._weigh(result, recipe, tests, question))
        proved, own = (
            tuple(test for test in several if test not in differing)
            for several in (weighed.proved, weighed.own)
        )
        return replace(weighed, proved=proved, own=own), flaky | differing

    async def _find_chance(self, runs: Runs, recipe: Recipe, tests: Sequence[str], command: str) -> set[str]:
        """Return what proves the work only now and then; without tests, that is the command."""
        again = await self.run(recipe, wanted=tests)
        if not tests:
            return set() if again.ok else {command}
        differing = {test for test in tests if _end(again, test) != _end(runs.new, test)}
        if differing:  # alone they may lack what other tests leave behind
            again = await self.run(recipe)
            differing = {test for test in differing if _end(again, test) != _end(runs.new, test)}
        # What fails on sabotaged code too has failed twice without the change.
        unsure = [test for test in tests if runs.sabotage is None or runs.sabotage.passes(test)]
        if unsure and runs.old_code is not None:
            before = await self.run(replace(recipe, code="base"), wanted=unsure)
            differing |= {test for test in unsure if before.passes(test)}
        return differing

    async def _weigh(
        self, result: CheckResult, recipe: Recipe, tests: Sequence[str], question: Question
    ) -> CheckResult:
        """Try mutants of the changed lines on the tests that prove the work."""
        if not question.is_measured or result.awaited:
            return result
        if result.noticed is False:
            return replace(result, caps=("its tests pass although every changed function fails",))

        async def run(replaced: Mapping[str, bytes], wanted: Collection[str]) -> Observed:
            return await self.run(recipe, replaced, wanted, brief=True)

        files = self.comparison.texts(PathKind.CODE)
        strength = await measure(run, files, tests, self.options.mutation)
        weak = strength.too_weak
        caps = (f"the tests cannot tell right from wrong: {weak}",) if weak else ()
        tried = (strength.tried, strength.noticed) if strength.tried else None
        return replace(result, mutants=tried, survivors=strength.survivors, caps=caps)

    async def _is_noticed_again(self, runs: Runs, recipe: Recipe, broken: Mapping[str, bytes]) -> bool:
        """Return whether some test fails on sabotaged code a second time."""
        now, seen = runs.new.report, runs.sabotage and runs.sabotage.report
        noticing = (
            now.ids(TestOutcome.PASSED) - seen.ids(TestOutcome.PASSED) if now and seen else frozenset[str]()
        )
        if len(noticing) > _REPEATS:
            return True  # they are not all flaky
        again = await self._run_broken(recipe, runs.new.seconds, broken, noticing)
        if again is None or again.exit_code is None:
            return False
        return any(not again.passes(test) for test in noticing) if noticing else not again.ok

    def _review(self, result: CheckResult, runs: Runs, change: Change, words: str) -> CheckResult:
        """Say what became of old tests that pass only because the agent edited them."""
        changed = find_changed(runs, change)
        if not changed:
            return result
        old, now = runs.base.report, runs.new.report
        tests = []
        for test in changed:
            case, after = old.tests.get(test) if old else None, now.tests.get(test) if now else None
            state = "gone" if after is None and test else "passed"
            state = "skipped" if after and after.outcome is TestOutcome.SKIPPED else state
            was_red = case is not None and case.outcome is TestOutcome.FAILED
            file = case.file if case is not None else after.file if after is not None else ""
            tests.append(OldTest(test, file, state, was_red))
        texts = self.comparison.texts(PathKind.TEST, PathKind.CONTROL, PathKind.MERGED)
        before, after_ = ({path: pair[side] for path, pair in texts.items()} for side in (0, 1))
        passing = now.ids(TestOutcome.PASSED) if now else ()
        task = TaskTexts(words, before, after_, self.comparison.texts(PathKind.CODE), passing)
        found = review(tests, task)
        owners: dict[str, list[str]] = {}
        for one in found:
            if one.how is HowSettled.UNSETTLED:
                owners.setdefault(one.path, []).append(one.test)
        contested = tuple(
            Contested(
                path,
                before.get(path, "")[:_SHOWN_BYTES],
                after_.get(path, "")[:_SHOWN_BYTES],
                tuple(filter(None, ids)),
            )
            for path, ids in owners.items()
        )
        return replace(result, changed_tests=found, contested=contested)

    async def run_twice(self, cache: Path, base: str, files: Collection[str]) -> tuple[Observed, Observed]:
        """Return how the tests in some files end, two times, on the head as it is."""
        await self.observe_base(cache, base)
        first = await (self.run(_HEAD, wanted=files) if self._armed else self._calibrate(_HEAD))
        return first, await self.run(_HEAD, wanted=files)

    async def run(
        self,
        recipe: Recipe,
        replaced: Mapping[str, bytes] = _NOTHING,
        wanted: Collection[str] = (),
        *,
        brief: bool = False,
    ) -> Observed:
        """Run the command on a tree; `wanted` are the only tests or files that matter."""
        composed = self.comparison.compose(recipe).replace(replaced)
        kept = {self._files.get(one, one) for one in wanted}
        if wanted and self._files and kept <= {*self._files.values(), *composed.tests}:
            composed = composed.leave_out({path for path in self._files.values() if path not in kept})
        place = self._base_place if recipe == _BASE else self._place
        return await place.run(self.argv, composed, self._armed, Purpose(tuple(wanted), brief))

    def _note_files(self, seen: Observed) -> None:
        if seen.report is not None and not _CAN_SELECT.issuperset(seen.report.runners):
            tests = {path for path, kind in self.comparison.kinds.items() if kind is PathKind.TEST}
            cases = seen.report.tests.values()
            self._files |= {case.id: case.file for case in cases if case.file in tests}

    def _is_head(self, recipe: Recipe) -> bool:
        """Return whether a recipe gives nothing but the head."""
        composed = self.comparison.compose(recipe)
        same_place = self._place.environment is self._base_place.environment
        return same_place and composed.entries == self.comparison.head and not composed.texts

    def _is_new(self, runner: Runner) -> bool:
        """Return whether a runner applies to the work but did not to the base."""
        before, now = self.comparison.base.keys(), self.comparison.kinds.keys()
        is_fallback = runner in FALLBACKS
        applies = runner.applies(Project(self.argv, now)) and not runner.applies(Project(self.argv, before))
        return applies and not is_fallback

    async def _calibrate(self, recipe: Recipe) -> Observed:
        """Try the ways to get a report until one works."""
        project = Project(self.argv, self.comparison.kinds.keys())
        usual = tuple(runner for runner in (*RUNNERS, *LAST) if runner.applies(project))
        ways = [usual, *((runner,) for runner in FALLBACKS if runner.applies(project)), ()]
        for armed in ways:
            self._armed = armed
            seen = await self.run(recipe)
            if not seen.hook_failed:
                break
        return seen


def keep(seen: Observed, cache: Path) -> None:
    """Remember how the command ended on a tree, unless it took too long."""
    if seen.exit_code is not None:
        private_folder(cache.parent)
        write_atomic(cache, msgspec.json.encode(seen))


def make_change(
    command: Sequence[str], named: Collection[str], comparison: Comparison, **facts: object
) -> Change:
    """Return what is known about a change from its two trees."""
    control, code = comparison.control_changed(), comparison.changed(PathKind.CODE)
    tests = comparison.changed(PathKind.TEST)
    change = Change(
        shlex.join(command),
        touched=frozenset((*tests, *control)),
        control=control,
        product=frozenset(path for path in code if path in comparison.base),
        code_changed=bool(code or comparison.changed(PathKind.MERGED)),
        command_is_new=bool(named) and {*named}.isdisjoint(comparison.base),
        command_touched=not {*named}.isdisjoint(tests),
    )
    return replace(change, **facts)


async def _together(first: Awaitable[A], second: Awaitable[B]) -> tuple[A, B]:
    """Wait for both; when one fails, neither is still at work afterwards."""
    tasks = asyncio.ensure_future(first), asyncio.ensure_future(second)
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            if not task.cancelling():  # twice would keep it from removing what it has written
                task.cancel()
        await asyncio.wait(tasks)


def _end(seen: Observed, test: str) -> TestOutcome | None:
    case = seen.find(test)
    return case.outcome if case is not None else None


def _join(whole: Observed, part: Observed, files: Collection[str]) -> Observed:
    """Return how the command ends if tests of these files end as in the part, and others as in the whole."""
    if whole.report is None or part.report is None:
        return part if whole.report is None else whole
    rest = {key: case for key, case in whole.report.tests.items() if case.file not in files}
    left = any(case.outcome is TestOutcome.FAILED for case in rest.values())
    code = whole.exit_code if left or not whole.report.failed else 0
    report = replace(part.report, tests={**rest, **part.report.tests}, files=whole.report.files)
    output, changed = f"{whole.output}\n{part.output}", tuple({*whole.changed, *part.changed})
    seconds = whole.seconds + part.seconds
    return replace(
        part, exit_code=part.exit_code or code, report=report, output=output, changed=changed, seconds=seconds
    )
