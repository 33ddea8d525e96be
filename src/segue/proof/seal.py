"""Sealed checks: run a user's check out of the agent's reach, and conclude from its tests."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shlex
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from pathlib import Path

import msgspec

from segue.domain.proof import BaseCheck, BaseState, CheckResult, CheckState, KnownFailures, Seal
from segue.domain.scenario import Scenario
from segue.domain.source import HookRun
from segue.domain.task import TaskKind
from segue.proof.commit_hooks import COMMIT_HOOKS, Commit, HookCheck, KeptHooks
from segue.proof.compose import Comparison, Composed
from segue.proof.copies import Copied
from segue.proof.decide import list_ids
from segue.proof.examine import Question, SealedCheck, keep, make_change
from segue.proof.execute import Sandbox, SealOptions, environment, find_program, sweep
from segue.proof.git_copy import GitSource
from segue.proof.inputs import (
    Dependencies,
    Inputs,
    Trees,
    compare_inputs,
    input_facts,
    list_inputs,
    machine_facts,
)
from segue.proof.mounts import Mounted
from segue.proof.mutants.measure import MutationLimits
from segue.proof.paths import Classifier, PathKind, find_named, is_program
from segue.proof.runners import Ended
from segue.proof.runs import Observed
from segue.proof.scenarios import run_scenario
from segue.proof.scope import Scope, measure_scope
from segue.proof.setup import CheckSetupFailed, Entries, find_manifests
from segue.proof.survey import conclude
from segue.proof.trees import list_tree, read_text
from segue.system.files import private_folder
from segue.system.git.folders import GitPlace, common_dir
from segue.system.git.objects import Objects
from segue.system.sandbox.isolation import Isolation, SandboxChoice, SandboxKind

_SEALS = (Seal.NONE, Seal.WEAK, Seal.SEALED)
"""The weakest first."""


class Sealer:
    """Runs the checks of one run."""

    def __init__(
        self,
        root: Path,
        git_dir: Path,
        scratch: Path,
        options: SealOptions,
        redact: Callable[[str], str] = str,
        isolation: Isolation | None = None,
        home: Path | None = None,
    ) -> None:
        """Know the work tree, its git folder, and a folder for what is kept between processes.

        `home` is the user's work tree, if this one is beside it: what it lacks is taken from there.
        """
        self._redact, self._scratch, self._options = redact, scratch, options
        self._isolation = isolation or Isolation()
        self._choice = choose_means(self._isolation, options.means)
        root = root.resolve()
        self._git_dir, self._trees = git_dir, Trees(root, home.resolve() if home is not None else root)
        self._objects = Objects(common_dir(git_dir), GitPlace.of(root, git_dir), options.exams)
        self._inputs: Inputs | None = None

    async def prepare(self) -> Inputs:
        """List what checks need beside the repository's files, before an agent starts."""
        if self._inputs is None:
            await asyncio.to_thread(sweep, self._scratch)
            self._inputs = await list_inputs(self._trees, private_folder(self._scratch))
        return self._inputs

    async def check(
        self,
        argv: Sequence[str],
        base: str,
        head: str,
        *,
        kind: TaskKind = TaskKind.BUILD,
        expected_red: Collection[str] = (),
        before: KnownFailures | None = None,
        measured: bool = False,
        watched: Collection[str] = (),
        words: str = "",
        unseen: Collection[str] = (),
        may_wait: bool = False,
    ) -> CheckResult:
        """Run the command on trees made of the base and the head; return what it says about the task.

        `before` is what was red before the run, `watched` are tests that proved earlier tasks, `words` is
        what the task says, `unseen` are files with its independent tests. `measured`: mutants are to show
        whether the tests can tell. `may_wait`: a later task may build what new tests call.
        """
        old, after = await asyncio.gather(list_tree(self._objects, base), list_tree(self._objects, head))
        paths = {**after, **old}
        if not self._has_program(argv) and argv[0].removeprefix("./") not in paths:
            return CheckResult(shlex.join(argv), None, "", CheckState.BROKEN, _no_program(argv))
        named, comparison = await self._compare(argv, old, after)
        known = before or KnownFailures()
        if shlex.join(argv) in self._options.known_failures:
            known = KnownFailures(known.tests | {shlex.join(argv)}, known.repaired)
        change = make_change(
            argv,
            named,
            comparison,
            kind=kind,
            allowed=self._options.known_failures,
            expected_red=frozenset(expected_red),
            known=known,
            watched=frozenset(watched),
            may_wait=may_wait,
        )
        question = Question(change, words, measured, tuple(unseen))
        cache, on_head = await self._remember(argv, base), await self._remember(argv, head)

        async def examine(base_place: Sandbox, place: Sandbox) -> CheckResult:
            check = SealedCheck(argv, comparison, place, base_place, self._options)
            result = await check.examine(await check.observe_base(cache, base), question)
            if check.on_head is not None:  # the next task begins with it
                keep(check.on_head, on_head)
            return result

        return await self._judge(examine, old, after, shlex.join(argv))

    async def _compare(
        self, argv: Sequence[str], old: Entries, after: Entries
    ) -> tuple[frozenset[str], Comparison]:
        """Return the files that a command consists of, and both trees, file by file."""
        paths = {**after, **old}
        named = await find_named(argv, paths.keys(), partial(read_text, self._objects, paths))
        classifier = Classifier(named, self._options.control_files)
        comparison = Comparison(self._objects, classifier, old, after)
        await comparison.load()
        return named, comparison

    async def _judge(
        self,
        examine: Callable[[Sandbox, Sandbox], Awaitable[CheckResult]],
        before: Entries,
        after: Entries,
        command: str,
        *,
        scenario: bool = False,
    ) -> CheckResult:
        """Examine work in the environment that its own manifests make; say how well that is sealed."""
        place, known = await self._place(after)
        try:
            base_environment = await place.build(before) if before else None
            own = await place.build(after)
            base = place.within(base_environment or own)
            is_same = base.environment == own
            result = await examine(base, base if is_same else place.within(own))
        except CheckSetupFailed as error:
            return self._label(error.to_result(command, scenario), known, [])
        changed = (
            []
            if is_same
            else sorted(
                path
                for path, ident in find_manifests(after).items()
                if path not in before or before[path].id != ident
            )
        )
        return self._label(result, known, changed or ([] if is_same else ["what check_setup reads"]))

    def _label(self, result: CheckResult, known: Dependencies, manifests: Sequence[str]) -> CheckResult:
        """Say how well a check was sealed."""
        seal, why = seal_strength(self._choice)
        weak = [*result.weaknesses, *([why] if why else [])]
        if result.state is CheckState.PASSED and not result.scenario:
            seal = min(seal, result.seal, key=_SEALS.index)
        if manifests:
            seal = min(seal, Seal.WEAK, key=_SEALS.index)
            weak.append(f"it ran with dependencies that the task chose: {list_ids(manifests)}")
        if self._options.setup:  # what setup commands have made takes the place of what is installed
            pass
        elif known.rewritten:
            seal = Seal.NONE
            weak.append(f"dependencies not sealed, files were changed: {list_ids(known.rewritten)}")
        elif known.extended:
            seal = min(seal, Seal.WEAK, key=_SEALS.index)
            weak.append(f"dependencies not sealed, files were added: {', '.join(known.extended)}")
        if self._options.network or self._choice.kind is SandboxKind.NONE:
            weak.append("the network was open")
        return msgspec.structs.replace(result, seal=seal, weaknesses=tuple(dict.fromkeys(weak)))

    def _has_program(self, argv: Sequence[str]) -> bool:
        """Return whether a command can start, or setup commands may make its program."""
        may_be_made = bool(self._options.setup) and "/" in argv[0] and not argv[0].startswith("/")
        return may_be_made or any(find_program(argv, place) for place in (self._trees.root, self._trees.home))

    async def try_scenario(self, scenario: Scenario, base: str | None, head: str) -> CheckResult:
        """Run a scenario on the head, and on the base unless that is None; return what it says."""
        after = await list_tree(self._objects, head)
        before = await list_tree(self._objects, base) if base is not None else after

        async def examine(base_place: Sandbox, place: Sandbox) -> CheckResult:
            async def try_out(argv: Sequence[str], tree: str, script: Path | None) -> Ended:
                where, entries = (place, after) if tree == head else (base_place, before)
                return await where.try_out(argv, Composed(entries), script)

            return await run_scenario(try_out, scenario, base, head)

        return await self._judge(examine, before, after, scenario.command, scenario=True)

    async def measure_scope(
        self, base: str, head: str, commands: Sequence[Sequence[str]], tested: Collection[str] = ()
    ) -> Scope:
        """Return what was changed, and whether a test could tell; `tested`: where checks run examples."""
        old, new = await asyncio.gather(list_tree(self._objects, base), list_tree(self._objects, head))
        named: set[str] = set()
        _, comparison = await self._compare((), old, new)
        for argv in (*commands, *self._options.setup):
            paths = {**new, **old}
            named |= await find_named(argv, paths.keys(), partial(read_text, self._objects, paths))
        return await measure_scope(self._objects, comparison, named, tested)

    async def try_hooks(self, hooks: KeptHooks, commit: Commit) -> HookRun | None:
        """Run the repository's own hooks on a commit that is to be made; None: there are none."""
        place, known = await self._place(await list_tree(self._objects, commit.tree))
        check = HookCheck(hooks, self._objects, self._git_dir, self._options)
        try:
            # The agent's own build inputs do not decide what its work is judged with.
            made = await place.build(await list_tree(self._objects, commit.base or commit.tree))
            found = await check.run(place.within(made), commit)
        except CheckSetupFailed as error:
            found = HookRun(error.to_result(f"{COMMIT_HOOKS[0]} hook"))
        return found and msgspec.structs.replace(found, result=self._label(found.result, known, []))

    async def _place(self, head: Entries) -> tuple[Sandbox, Dependencies]:
        """Return where commands run, and how dependencies differ from what they were."""
        inputs, trees = await self.prepare(), self._trees
        known = await asyncio.to_thread(compare_inputs, trees, inputs, head)
        private = await asyncio.to_thread(self._isolation.find_hidden, trees.home)
        means: Copied | Mounted = Copied(trees, GitSource(self._git_dir, self._objects), private)
        if self._choice.kind is not SandboxKind.NONE:
            means = Mounted(self._choice, trees, private)
        return Sandbox(means, trees, self._scratch, self._options, self._objects, inputs, known), known

    async def survey(self, argv: Sequence[str], base: str) -> BaseCheck:
        """Run the command on a tree that no agent has worked on; say whether it can judge work at all."""
        command, tree = shlex.join(argv), await list_tree(self._objects, base)
        if not self._has_program(argv) and argv[0].removeprefix("./") not in tree:
            is_inside = "/" in argv[0] and not argv[0].startswith("/")
            state = BaseState.RED if is_inside else BaseState.UNREADY
            return BaseCheck(command, state, by_code=True, reason=_no_program(argv), missing=(argv[0],))
        cache = await self._remember(argv, base)
        is_known = cache.exists()
        try:
            seen, comparison = await self._observe(argv, tree, base)
            tests = [
                path for path, kind in comparison.kinds.items() if kind is PathKind.TEST and is_program(path)
            ]
            found = conclude(argv, seen, tree.keys(), bool(tests), self._options.timeout)
            seconds = 0.0 if is_known else seen.seconds
        except CheckSetupFailed as error:
            reason, _, output = error.message.partition("\n")
            found = BaseCheck(command, BaseState.UNREADY, reason=reason, output=output)
            seconds = 0.0
        if found.state is BaseState.UNREADY:  # it may be repaired outside of the tree
            cache.unlink(missing_ok=True)
        return msgspec.structs.replace(found, output=self._redact(found.output), seconds=seconds)

    async def _observe(self, argv: Sequence[str], tree: Entries, commit: str) -> tuple[Observed, Comparison]:
        _, comparison = await self._compare(argv, tree, tree)
        place, _ = await self._place(tree)
        place = place.within(await place.build(tree))
        check = SealedCheck(argv, comparison, place, place, self._options)
        return await check.observe_base(await self._remember(argv, commit), commit), comparison

    async def observe(self, argv: Sequence[str], tree: str) -> Observed:
        """Run the command once on a tree, sealed, and return how it ended, with its tests by id."""
        return (await self._observe(argv, await list_tree(self._objects, tree), tree))[0]

    async def run_twice(
        self, argv: Sequence[str], base: str, tree: str, files: Collection[str]
    ) -> tuple[Observed, Observed] | None:
        """Return how the tests in some files of a tree end, two times; None: its setup commands fail.

        How the command reports its tests is found out on the base.
        """
        old, after = await asyncio.gather(list_tree(self._objects, base), list_tree(self._objects, tree))
        _, comparison = await self._compare(argv, old, after)
        place, _ = await self._place(after)
        try:
            place = place.within(await place.build(after))
        except CheckSetupFailed:
            return None
        check = SealedCheck(argv, comparison, place, place, self._options)
        return await check.run_twice(await self._remember(argv, base), base, files)

    async def describe_result(self, base: str, head: str) -> str:
        """Return the public names that the work has made or altered: no bodies, and none of its tests."""
        from segue.proof.interface import describe_new_names

        old, new = await asyncio.gather(list_tree(self._objects, base), list_tree(self._objects, head))
        classifier = Classifier((), self._options.control_files)
        return await describe_new_names(self._objects, old, new, classifier)

    async def _remember(self, argv: Sequence[str], commit: str) -> Path:
        """Return where a result on a tree is kept: by tree, command, means and environment."""
        tree = (await self._objects.git("rev-parse", f"{commit}^{{tree}}")).out.decode() if commit else ""
        options = msgspec.structs.replace(
            self._options,
            known_failures=(),
            bases=None,
            setups=None,
            environments=None,
            mutation=MutationLimits(),
        )
        machine = machine_facts(environment({}, network=True))
        sealed = (str(self._choice.kind), str(self._trees.home), machine, self._isolation.opened)
        inputs = input_facts(await self.prepare(), self._scratch)
        facts = os.fsencode(repr((list(argv), tree, options, inputs, sealed)))
        name = f"{hashlib.sha256(facts).hexdigest()[:32]}.json"
        return (self._options.bases or self._scratch / "base") / name


def _no_program(argv: Sequence[str]) -> str:
    return f"There is no program {argv[0]}: install it, or correct the check."


def choose_means(isolation: Isolation, wanted: str = "auto") -> SandboxChoice:
    """Return what shows checks their tree; NONE stands for a copy in another folder, and says why."""
    if wanted == "copy":
        return SandboxChoice(SandboxKind.NONE, why="a copy is wanted")
    return isolation.mounter if wanted == "auto" else isolation.try_kind(SandboxKind(wanted))


def seal_strength(choice: SandboxChoice) -> tuple[Seal, str]:
    """Return how well checks are sealed by these means, and what is missing."""
    if choice.kind is SandboxKind.NONE:
        return Seal.WEAK, f"checks run on a copy in another folder ({choice.why})"
    return Seal.SEALED, choice.why
