"""Sealed checks: run a user's check where the agent has no say, and conclude from its tests."""

from __future__ import annotations

import asyncio
import hashlib
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from segue.domain.proof import CheckResult, CheckState, Contested, Seal
from segue.domain.scenario import Scenario
from segue.domain.task import TaskKind
from segue.proof.bubblewrap import seal_strength
from segue.proof.compose import Comparison, Composed, Control, Recipe
from segue.proof.decide import Decision, Observed, Runs, decide
from segue.proof.execute import Sandbox, find_program
from segue.proof.inputs import Inputs, changed_folders, compiled_digest, list_inputs, new_folders
from segue.proof.objects import SealedObjects
from segue.proof.options import SealOptions
from segue.proof.paths import Classifier, PathKind, named_files
from segue.proof.runners import FALLBACKS, LAST, RUNNERS, Ended, Project, Runner
from segue.proof.sabotage import sabotage
from segue.proof.scenarios import run_scenario
from segue.proof.words import describe
from segue.system.files import private_folder, write_atomic

_CONTESTED_BYTES = 20 * 1024
_NOTHING_RAN = Observed(None)
Redact = Callable[[str], str]
"""Removes secrets from a text that is kept."""


class Sealer:
    """Runs the checks of one run."""

    def __init__(
        self, root: Path, git_dir: Path, scratch: Path, options: SealOptions, redact: Redact = str
    ) -> None:
        """Know the work tree, its git folder, and a folder for what is kept between processes."""
        self._redact = redact
        self._root, self._scratch, self._options = root.resolve(), scratch, options
        self._objects = SealedObjects(git_dir, scratch)
        self._inputs: Inputs | None = None

    async def prepare(self) -> None:
        """List what checks need beside the repository's files, before an agent starts."""
        self._inputs = await list_inputs(self._root, private_folder(self._scratch))

    async def check(
        self,
        argv: Sequence[str],
        base: str,
        head: str,
        *,
        kind: TaskKind = TaskKind.BUILD,
        expected_red: Collection[str] = (),
    ) -> CheckResult:
        """Run the command on trees made of the base and the head; return what it says about the task."""
        before, after = await self._objects.entries(base), await self._objects.entries(head)
        paths = {**before, **after}
        if find_program(argv, self._root) is None and argv[0].removeprefix("./") not in paths:
            reason = f"There is no program {argv[0]}: install it, or correct the check."
            return CheckResult(shlex.join(argv), None, "", CheckState.BROKEN, reason)
        classifier = Classifier(argv, paths.keys(), self._options.control_files)
        comparison = Comparison(self._objects, classifier, before, after)
        place, unsealed = await self._sandbox(after)
        examination = SealedCheck(
            tuple(argv), comparison, place, self._options, kind, frozenset(expected_red), self._redact
        )
        cache = self._scratch / "base" / f"{self._key(argv, base)}.json"
        result = await examination.run(cache, base)
        return self._label(result, unsealed)

    async def try_scenario(self, scenario: Scenario, base: str | None, head: str) -> CheckResult:
        """Run a scenario on the head, and on the base unless that is None; return what it says."""
        unsealed: tuple[str, ...] = ()

        async def try_out(argv: Sequence[str], tree: str, script: Path | None = None) -> Ended:
            nonlocal unsealed
            entries = await self._objects.entries(tree)
            place, unsealed = await self._sandbox(entries)
            return await place.try_out(argv, Composed(entries), script)

        result = await run_scenario(try_out, scenario, base, head)
        return self._label(result, unsealed)

    async def _sandbox(self, tracked: Collection[str]) -> tuple[Sandbox, tuple[str, ...]]:
        """Return where commands run, and the folders of dependencies that an agent may have changed."""
        if self._inputs is None:
            await self.prepare()
        assert self._inputs is not None
        place = Sandbox(self._root, self._scratch, self._options, self._objects, self._inputs)
        changed, fresh, distrust = await asyncio.to_thread(self._dependencies, tracked)
        place.folders, place.distrust_compiled = (*self._inputs.folders, *fresh), distrust
        return place, (*changed, *fresh)

    def _dependencies(self, tracked: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
        """Return folders of dependencies that changed, new ones, and whether compiled files changed."""
        assert self._inputs is not None
        changed = changed_folders(self._root, self._inputs)
        fresh = new_folders(self._root, self._inputs, tracked)
        compiled = compiled_digest(self._root, self._inputs.folders)
        return changed, fresh, bool(changed or fresh or compiled != self._inputs.compiled)

    def _label(self, result: CheckResult, dependencies: Sequence[str]) -> CheckResult:
        seal, why = seal_strength(self._root)
        weaknesses = list(result.weaknesses)
        if why:
            weaknesses.append(why)
        if dependencies:
            seal = Seal.WEAK
            weaknesses.append(f"dependencies not sealed: {', '.join(dependencies)}")
        if self._options.network:
            weaknesses.append("the network was open")
        return msgspec.structs.replace(result, seal=seal, weaknesses=tuple(dict.fromkeys(weaknesses)))

    def _key(self, argv: Sequence[str], base: str) -> str:
        facts = msgspec.json.encode((list(argv), base, repr(self._options), self._inputs))
        return hashlib.sha256(facts).hexdigest()[:32]


class SealedCheck:
    """One check of one task."""

    def __init__(
        self,
        argv: tuple[str, ...],
        comparison: Comparison,
        place: Sandbox,
        options: SealOptions,
        kind: TaskKind,
        expected_red: frozenset[str],
        redact: Redact,
    ) -> None:
        self._redact = redact
        self._argv, self._comparison, self._place = argv, comparison, place
        self._options, self._kind, self._expected_red = options, kind, expected_red
        self._armed: tuple[Runner, ...] = ()

    async def run(self, cache: Path, base: str) -> CheckResult:
        """Run what is needed, decide, and describe the result."""
        control = await self._comparison.control_changed()
        calibrated = await self._base(cache, base)
        runs, recipe = await self._wave(calibrated, control)
        decision = decide(runs)
        if decision.state is CheckState.PASSED and self._kind is not TaskKind.TEST_FIRST:
            runs = await self._look_closer(runs, recipe)
            decision = decide(runs)
        decision = self._weaknesses(decision, runs, recipe, control)
        contested = await self._contested(decision, control)
        return describe(shlex.join(self._argv), decision, runs, control, contested)

    async def _base(self, cache: Path, base: str) -> Observed:
        """Return how the check ends on the base, and find out how it reports."""
        if cache.exists():
            known = msgspec.json.decode(cache.read_bytes(), type=Observed)
            self._armed = tuple(one for one in (*RUNNERS, *LAST, *FALLBACKS) if one.name in known.runners)
            return known
        seen = await self._calibrate(Recipe("base", "base")) if base else _NOTHING_RAN
        if base:
            private_folder(cache.parent)
            write_atomic(cache, self._redact(msgspec.json.encode(seen).decode()).encode())
        return seen

    async def _calibrate(self, recipe: Recipe) -> Observed:
        """Try the ways to get a report until one works."""
        project = Project(self._argv, self._comparison.kinds.keys())
        usual = tuple(runner for runner in (*RUNNERS, *LAST) if runner.applies(project))
        seen = await self._try(recipe, usual)
        for runner in FALLBACKS:
            if seen.hook_failed and runner.applies(project):
                seen = await self._try(recipe, (runner,))
        return await self._try(recipe, ()) if seen.hook_failed else seen

    async def _try(self, recipe: Recipe, armed: tuple[Runner, ...]) -> Observed:
        self._armed = armed
        return await self._run(recipe)

    async def _run(self, recipe: Recipe, broken: Mapping[str, bytes] | None = None) -> Observed:
        composed = await self._comparison.compose(recipe)
        if broken:
            composed = replace(composed, texts={**composed.texts, **broken})
        return await self._place.run(self._argv, composed, self._armed)

    async def _wave(self, base: Observed, control: Sequence[str]) -> tuple[Runs, Recipe]:
        """Run the new code with the old tests and with the new ones."""
        recipe = Recipe("head", "head")
        tests = self._comparison.changed(PathKind.TEST)
        if not base.tests:
            new = await self._calibrate(recipe) if not self._armed else await self._run(recipe)
            if new.hook_failed:
                new = await self._calibrate(recipe)
            regress = new
        elif tests:
            regress, new = await asyncio.gather(self._run(Recipe("head", "base")), self._run(recipe))
        else:
            regress = new = await self._run(recipe)
        runs = self._runs(base, regress, new, control)
        for wider in self._wider(control):
            if decide(runs).state in (CheckState.PASSED, CheckState.NOTHING) and not self._is_bare(runs):
                break
            recipe = replace(recipe, control=wider)
            again = await self._run(recipe)
            runs = replace(runs, new=again, regress=runs.regress if base.tests or not again.tests else again)
        return runs, recipe

    def _is_bare(self, runs: Runs) -> bool:
        """Return whether no test was found although some were added."""
        return not runs.new.tests and bool(self._comparison.added(PathKind.TEST))

    def _wider(self, control: Sequence[str]) -> list[Control]:
        """Return with whose control files the new tests are tried when those of the base do not do."""
        added = [path for path in control if path not in self._comparison.base]
        merged = [path for path in control if self._comparison.kinds[path] is PathKind.MERGED]
        wider = [Control.ADDED] if added or merged else []
        return [*wider, Control.HEAD] if len(added) < len(control) else wider

    async def _look_closer(self, runs: Runs, recipe: Recipe) -> Runs:
        """Run the new tests on the old code, and on sabotaged code."""
        tests, code = self._comparison.changed(PathKind.TEST), runs.code_changed
        broken = await self._sabotaged()
        old, sabotaged = await asyncio.gather(
            self._maybe(bool(tests) and code, replace(recipe, code="base")),
            self._maybe(bool(broken), recipe, broken),
        )
        return replace(runs, old_code=old, sabotage=sabotaged)

    async def _maybe(
        self, wanted: bool, recipe: Recipe, broken: Mapping[str, bytes] | None = None
    ) -> Observed | None:
        return await self._run(recipe, broken) if wanted else None

    async def _sabotaged(self) -> dict[str, bytes]:
        files = {}
        for path in self._comparison.changed(PathKind.CODE):
            if path in self._comparison.head:
                texts = await asyncio.gather(
                    self._comparison.text("base", path), self._comparison.text("head", path)
                )
                files[path] = (texts[0], texts[1])
        return await asyncio.to_thread(sabotage, files)

    def _runs(self, base: Observed, regress: Observed, new: Observed, control: Sequence[str]) -> Runs:
        comparison = self._comparison
        own = named_files(self._argv, comparison.kinds.keys())
        return Runs(
            base,
            regress,
            new,
            kind=self._kind,
            touched={*comparison.changed(PathKind.TEST), *control},
            control_touched=bool(control),
            command_is_new=bool(own) and not any(path in comparison.base for path in own),
            code_changed=bool(comparison.changed(PathKind.CODE, PathKind.MERGED)),
            allowed=self._options.known_failures,
            expected_red=self._expected_red,
        )

    def _weaknesses(self, decision: Decision, runs: Runs, recipe: Recipe, control: Sequence[str]) -> Decision:
        if decision.state is not CheckState.PASSED:
            return decision
        said = list(decision.weaknesses)
        if recipe.control is not Control.BASE:
            said.append(f"the tests need control files that the agent wrote: {', '.join(control)}")
        if runs.code_changed and decision.noticed is None and self._kind is not TaskKind.TEST_FIRST:
            said.append("not shown that the checks exercise the change")
        return replace(decision, weaknesses=tuple(said))

    async def _contested(self, decision: Decision, control: Sequence[str]) -> tuple[Contested, ...]:
        """Return both versions of what is disputed."""
        if decision.state is not CheckState.CONTESTED:
            return ()
        owners: dict[str, list[str]] = {path: [] for path in control}
        for path in self._comparison.changed(PathKind.TEST):
            owners[path] = [key for key in decision.contested if key.startswith(path)]
        return tuple(
            [
                Contested(
                    path,
                    (await self._comparison.text("base", path))[:_CONTESTED_BYTES],
                    (await self._comparison.text("head", path))[:_CONTESTED_BYTES],
                    tuple(tests),
                )
                for path, tests in owners.items()
                if tests or path in control
            ]
        )
