"""Sealed checks: run a user's check where the agent has no say, and conclude from its tests."""

from __future__ import annotations

import asyncio
import hashlib
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from segue.domain.proof import CheckResult, CheckState, Contested, Seal
from segue.domain.task import TaskKind
from segue.proof.bubblewrap import seal_strength
from segue.proof.compose import Comparison, Control, Recipe
from segue.proof.decide import Decision, Observed, Runs, decide, some
from segue.proof.execute import Sandbox, find_program
from segue.proof.inputs import Dependencies, Inputs, compare_inputs, list_inputs
from segue.proof.named import find_named
from segue.proof.options import SealOptions
from segue.proof.paths import Classifier, PathKind
from segue.proof.runners import FALLBACKS, LAST, RUNNERS, Project, Runner
from segue.proof.sabotage import sabotage
from segue.proof.setup import CheckSetupFailed
from segue.proof.swap import InPlace, restore
from segue.proof.trees import TreeEntry, common_dir, list_tree, read_entry
from segue.proof.words import describe
from segue.system.files import private_folder, write_atomic
from segue.system.git.objects import Objects

_CONTESTED_BYTES = 20 * 1024
_NOTHING_RAN = Observed(None)
_SWITCHED_OFF = "checks run in place, because the sandbox is switched off"


class Sealer:
    """Runs the checks of one run."""

    def __init__(self, root: Path, git_dir: Path, scratch: Path, options: SealOptions) -> None:
        """Know the work tree, its git folder, and a folder for what is kept between processes."""
        self._root, self._scratch, self._options = root.resolve(), scratch, options
        self._objects = Objects(common_dir(git_dir))
        self._inputs: Inputs | None = None
        self._seal = seal_strength(self._root) if options.sandbox else (Seal.WEAK, _SWITCHED_OFF)

    async def prepare(self) -> None:
        """List what checks need beside the repository's files, before an agent starts."""
        self.restore()
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
        if self._inputs is None:
            await self.prepare()
        assert self._inputs is not None
        before, after = await asyncio.gather(list_tree(self._objects, base), list_tree(self._objects, head))
        paths = {**before, **after}
        if find_program(argv, self._root) is None and argv[0].removeprefix("./") not in paths:
            reason = f"There is no program {argv[0]}: install it, or correct the check."
            return CheckResult(shlex.join(argv), None, "", CheckState.BROKEN, reason)
        named = await find_named(argv, paths.keys(), partial(self._text, before, after))
        classifier = Classifier(named, self._options.control_files, self._modules())
        comparison = Comparison(self._objects, classifier, before, after)
        known = await asyncio.to_thread(compare_inputs, self._root, self._inputs, after)
        place = self._place(known, after)
        examination = SealedCheck(
            tuple(argv), named, comparison, place, self._options, kind, frozenset(expected_red)
        )
        cache = self._scratch / "base" / f"{self._key(argv, base)}.json"
        try:
            result = await examination.run(cache, base)
        except CheckSetupFailed as error:
            reason, _, said = error.message.partition("\n")
            result = CheckResult(shlex.join(argv), None, said, CheckState.BROKEN, reason)
        finally:
            await examination.tear_down()
        return self._label(result, known)

    async def _text(self, base: Mapping[str, TreeEntry], head: Mapping[str, TreeEntry], path: str) -> str:
        """Return what a file of the command has in the base; if it is new, what it has now."""
        entry = base.get(path) or head[path]
        return "" if entry.is_link else (await read_entry(self._objects, entry)).decode("utf-8", "replace")

    def _modules(self) -> set[str]:
        """Return the names of the modules that are installed in the project's own environments."""
        assert self._inputs is not None
        found = set()
        for folder in self._inputs.folders:
            for place in (self._root / folder).glob("lib/python*/site-packages"):
                found.update(_module(entry) for entry in place.iterdir())
        return found

    def _place(self, dependencies: Dependencies, head: Mapping[str, TreeEntry]) -> Sandbox | InPlace:
        assert self._inputs is not None
        if self._seal[0] is Seal.SEALED:
            return Sandbox(
                self._root, self._scratch, self._options, self._objects, self._inputs, dependencies
            )
        return InPlace(self._root, self._scratch, self._options, self._objects, head)

    def restore(self) -> None:
        """Put back files that a check swapped in the work tree before its process was killed."""
        restore(self._scratch)

    def _label(self, result: CheckResult, dependencies: Dependencies) -> CheckResult:
        """Say how well the check was sealed."""
        seal, why = self._seal
        weaknesses = [*result.weaknesses, *([why] if why else [])]
        if dependencies.extended:
            seal = Seal.WEAK
            weaknesses.append(
                f"dependencies not sealed, files were added: {', '.join(dependencies.extended)}"
            )
        if dependencies.rewritten:
            seal = Seal.NONE
            weaknesses.append(f"dependencies not sealed, files were changed: {some(dependencies.rewritten)}")
        if self._options.network or self._seal[0] is not Seal.SEALED:
            weaknesses.append("the network was open")
        return msgspec.structs.replace(result, seal=seal, weaknesses=tuple(dict.fromkeys(weaknesses)))

    def _key(self, argv: Sequence[str], base: str) -> str:
        facts = msgspec.json.encode((list(argv), base, repr(self._options), self._inputs))
        return hashlib.sha256(facts).hexdigest()[:32]


def _module(entry: Path) -> str:
    """Return the name of the module that an entry of site-packages is; empty: it is none."""
    if entry.suffix in (".dist-info", ".egg-info", ".pth", ".data", ".egg-link"):
        return ""
    return entry.name.partition(".")[0]


class SealedCheck:
    """One check of one task."""

    def __init__(
        self,
        argv: tuple[str, ...],
        named: frozenset[str],
        comparison: Comparison,
        place: Sandbox | InPlace,
        options: SealOptions,
        kind: TaskKind,
        expected_red: frozenset[str],
    ) -> None:
        self._argv, self._named, self._comparison, self._place = argv, named, comparison, place
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
        contested = await self._contested(decision, runs, control)
        return describe(shlex.join(self._argv), decision, runs, control, contested)

    async def tear_down(self) -> None:
        """Run what the user wants to run after each check."""
        if self._options.teardown:
            await self._place.tear_down(await self._comparison.compose(Recipe("head", "head")))

    async def _base(self, cache: Path, base: str) -> Observed:
        """Return how the check ends on the base, and find out how it reports."""
        if cache.exists():
            known = msgspec.json.decode(cache.read_bytes(), type=Observed)
            self._armed = tuple(one for one in (*RUNNERS, *LAST, *FALLBACKS) if one.name in known.runners)
            return known
        seen = await self._calibrate(Recipe("base", "base")) if base else _NOTHING_RAN
        if base:
            private_folder(cache.parent)
            write_atomic(cache, msgspec.json.encode(seen))
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
        young = base is _NOTHING_RAN or (base.report is not None and not base.tests)
        if young or not self._comparison.changed(PathKind.TEST):
            new = await (self._run(recipe) if self._armed else self._calibrate(recipe))
            regress = new
        else:
            regress, new = await asyncio.gather(self._run(Recipe("head", "base")), self._run(recipe))
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
        return Runs(
            base,
            regress,
            new,
            kind=self._kind,
            touched={*comparison.changed(PathKind.TEST), *control},
            control_touched=bool(control),
            command_is_new=bool(self._named) and self._named.isdisjoint(comparison.base),
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

    async def _contested(
        self, decision: Decision, runs: Runs, control: Sequence[str]
    ) -> tuple[Contested, ...]:
        """Return both versions of what is disputed: the tests' own files, else all that could matter."""
        if decision.state is not CheckState.CONTESTED:
            return ()
        known = runs.base.report.tests if runs.base.report is not None else {}
        tests = self._comparison.changed(PathKind.TEST)
        owners: dict[str, list[str]] = {}
        for key in decision.contested:
            own = [known[key].file] if key in known and known[key].file in tests else [*tests, *control]
            for path in own:
                owners.setdefault(path, []).append(key)
        return tuple(
            [
                Contested(
                    path,
                    (await self._comparison.text("base", path))[:_CONTESTED_BYTES],
                    (await self._comparison.text("head", path))[:_CONTESTED_BYTES],
                    tuple(owners.get(path, ())),
                )
                for path in owners or control
            ]
        )
