"""Sealed checks: run a user's check where the agent has no say, and conclude from its tests."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shlex
import shutil
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
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
from segue.proof.environments import (
    Environments,
    add_doubts,
    compare,
    find_inputs,
    find_versions,
    join,
    lower_seal,
    name_first,
)
from segue.proof.examine import Redact, SealedCheck
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
from segue.proof.mutation.sharpness import Effort
from segue.proof.obstacles import NEEDS_NETWORK
from segue.proof.paths import Classifier, PathKind, find_named
from segue.proof.repeats import KnownFlaky
from segue.proof.runners import Ended
from segue.proof.runs import Observed
from segue.proof.scenarios import run_scenario
from segue.proof.scope import Scope, measure_scope
from segue.proof.setup import CheckSetupFailed, Entries, Environment
from segue.proof.survey import Surroundings, conclude
from segue.proof.trees import TreeEntry, list_tree, read_ahead, read_text
from segue.proof.unproven import Unproven
from segue.system.files import private_folder
from segue.system.git.folders import GitPlace, common_dir
from segue.system.git.objects import Objects
from segue.system.isolation.isolate import Isolation, Means, SandboxChoice

_MOST_CONTESTED = 10
_MOST_TESTS = 300
Examined = tuple[CheckResult, tuple[str, ...]]
"""What a check says, and the tests that fail, but not because a name is missing."""


class Sealer:
    """Runs the checks of one run."""

    def __init__(
        self,
        root: Path,
        git_dir: Path,
        scratch: Path,
        options: SealOptions,
        redact: Redact = str,
        isolation: Isolation | None = None,
        home: Path | None = None,
    ) -> None:
        """Know the work tree, its git folder, and a folder for what is kept between processes.

        `home` is the user's work tree, if this one is beside it: what it lacks is taken from there.
        """
        self._redact = redact
        self._isolation = isolation or Isolation()
        self._choice = choose_means(self._isolation, options.means)
        self._isolation.remember()
        self._git_dir = git_dir
        self._root, self._scratch, self._options = root.resolve(), scratch, options
        self._trees = Trees(self._root, home.resolve() if home is not None else self._root)
        self._objects = Objects(common_dir(git_dir), GitPlace.of(self._root, git_dir), options.exams)
        self._inputs: Inputs | None = None
        self._last_base: str | None = None

    async def prepare(self) -> None:
        """List what checks need beside the repository's files, before an agent starts."""
        await asyncio.to_thread(sweep, self._scratch)
        self._inputs = await list_inputs(self._trees, private_folder(self._scratch))

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
    ) -> CheckResult:
        """Run the command on trees made of the base and the head; return what it says about the task.

        `before` is what was red before the run, `watched` are tests that proved earlier tasks, `words` is
        what the task says, `unseen` are files with its independent tests. `measured`: mutants are to show
        how sharp the tests are.
        """
        self._last_base = base
        old, after = await asyncio.gather(list_tree(self._objects, base), list_tree(self._objects, head))
        paths = {**after, **old}
        if not self._has_program(argv) and argv[0].removeprefix("./") not in paths:
            return CheckResult(shlex.join(argv), None, "", CheckState.BROKEN, _no_program(argv))
        named = await find_named(argv, paths.keys(), partial(read_text, self._objects, paths))
        place, known = await self._place(after)
        classifier = Classifier(named, self._options.control_files, self._modules())
        unproven = Unproven(self._options.setups or self._scratch, argv, self._objects)
        true_old, (old, texts) = old, await unproven.leave_out(old)
        await read_ahead(self._objects, old, after)
        comparison = Comparison(self._objects, classifier, old, after, texts)
        cache = await self._remember(argv, base, unproven.left_out)

        async def examine(base_place: Sandbox, place: Sandbox) -> Examined:
            check = SealedCheck(
                tuple(argv), named, comparison, place, base_place, self._options, self._redact
            )
            check.kind, check.expected_red = kind, frozenset(expected_red)
            check.known, check.watched = before or KnownFailures(), frozenset(watched)
            check.words, check.unseen = words, tuple(unseen)
            check.met = KnownFlaky.read((self._options.setups or self._scratch) / "flaky.json")
            # What the tests of a test-first task tell apart is not there yet.
            check.is_measured = measured and kind is not TaskKind.TEST_FIRST
            try:
                result = await check.run(cache, base)
                unproven.note(check.idle, result, old, after)
                if check.on_head is not None:  # the next task begins with it
                    check.keep(check.on_head, await self._remember(argv, head))
                own = tuple(path for path in result.changed if true_old.get(path) != after.get(path))
                return msgspec.structs.replace(result, changed=own), check.wrong
            finally:
                await check.tear_down()

        place = place.within(place.made_by(argv))
        return await self._judge(
            place, known, (true_old, after), classifier, examine, shlex.join(argv), words=words
        )

    async def _judge(
        self,
        place: Sandbox,
        known: Dependencies,
        trees: tuple[Entries, Entries],
        classifier: Classifier,
        examine: Callable[[Sandbox, Sandbox], Awaitable[Examined]],
        command: str,
        scenario: bool = False,
        words: str = "",
    ) -> CheckResult:
        """Examine work in the environment of the base, and in its own if that differs; label the result."""
        try:
            found = await self._environments(place, *trees, classifier)
        except CheckSetupFailed as error:
            return self._label(error.to_result(command, scenario), known, Environments())
        base = place.within(found.base or place.environment)
        result, wrong = await examine(base, base)
        if found.is_first:
            result = name_first(result)
        if found.own is not None:
            own, _ = await examine(base, place.within(found.own))
            result = join(result, own, found, wrong)
            if result.state is CheckState.CONTESTED:
                result = await self._settle(result, found.inputs[:_MOST_CONTESTED], trees, words)
        return self._label(result, known, found)

    async def _settle(
        self, result: CheckResult, paths: Sequence[str], trees: tuple[Entries, Entries], words: str
    ) -> CheckResult:
        """Settle whether the task asks for the environment without which the check does not pass."""
        from segue.proof.settle.check import settle_environment  # rarely needed

        texts = {path: [await read_text(self._objects, tree, path) for tree in trees] for path in paths}
        found, contested = settle_environment({path: (one[0], one[1]) for path, one in texts.items()}, words)
        return msgspec.structs.replace(
            result, state=CheckState.PASSED, broken=(), changed_tests=found, contested=contested
        )

    async def _environments(
        self, place: Sandbox, before: Entries, after: Entries, classifier: Classifier
    ) -> Environments:
        """Return the environments of a task: one, unless it changed what the setup commands look at."""
        base = await place.build(before) if before else None
        own = await place.build(after)
        if own is None or base is None:
            return Environments(own, is_first=own is not None)
        if base.facts.doubts is None:
            base = await asyncio.to_thread(_recall, place, base, classifier)
        if own.place == base.place:
            return Environments(base)
        difference = await asyncio.to_thread(compare, base, own, place.root, classifier)
        if not difference.any:
            await asyncio.to_thread(shutil.rmtree, own.place / "new", ignore_errors=True)
            own.keep(same=base.place.name, doubts=base.facts.doubts)
            return Environments(base)
        trees = (before, after)
        difference = await find_versions(difference, self._objects, classifier, (base, own), trees)
        own = own.keep(doubts=add_doubts(base, difference.rewritten))
        return Environments(base, own, difference, find_inputs(base, own, before, after))

    def _has_program(self, argv: Sequence[str]) -> bool:
        """Return whether a command can start, or setup commands may make its program."""
        may_be_made = bool(self._options.setup) and "/" in argv[0] and not argv[0].startswith("/")
        return may_be_made or any(find_program(argv, place) for place in (self._trees.root, self._trees.home))

    def _modules(self) -> set[str]:
        """Return the names of the modules that are installed in the project's own environments."""
        assert self._inputs is not None
        found: set[str] = set()
        for folder in self._inputs.folders:
            for place in self._trees.find(folder).glob("lib/python*/site-packages"):
                found.update(_module(entry) for entry in place.iterdir())
        return found

    async def try_scenario(self, scenario: Scenario, base: str | None, head: str) -> CheckResult:
        """Run a scenario on the head, and on the base unless that is None; return what it says."""
        after = await list_tree(self._objects, head)
        known_base = base if base is not None else self._last_base
        before = await list_tree(self._objects, head if known_base is None else known_base)
        place, known = await self._place(after)

        async def examine(base_place: Sandbox, place: Sandbox) -> Examined:
            async def try_out(argv: Sequence[str], tree: str, script: Path | None) -> Ended:
                where = place if tree == head else base_place
                return await where.try_out(argv, Composed(await list_tree(self._objects, tree)), script)

            return await run_scenario(try_out, scenario, base, head), ()

        classifier = Classifier((), self._options.control_files)
        trees = (before, after)
        return await self._judge(place, known, trees, classifier, examine, scenario.command, scenario=True)

    async def measure_scope(
        self,
        base: str,
        head: str,
        commands: Sequence[Sequence[str]],
        tested: Collection[str] | None = None,
    ) -> Scope:
        """Return what was changed, and whether a test could tell; `tested`: where checks run examples."""
        old, new = await asyncio.gather(list_tree(self._objects, base), list_tree(self._objects, head))
        paths, read = {**old, **new}, partial(read_text, self._objects, {**old, **new})
        everything = (*commands, *self._options.setup)
        named = [await find_named(argv, paths.keys(), read) for argv in everything]
        classifier = Classifier((), self._options.control_files)
        return await measure_scope(self._objects, old, new, classifier, frozenset().union(*named), tested)

    async def try_hooks(self, hooks: KeptHooks, commit: Commit) -> HookRun | None:
        """Run the repository's own hooks on a commit that is to be made; None: there are none."""
        place, known = await self._place(await list_tree(self._objects, commit.tree))
        check = HookCheck(hooks, self._objects, self._git_dir, self._options, frozenset(self._modules()))
        judged = Environments()
        try:
            # The agent's own build inputs do not decide what its work is judged with.
            judged = Environments(
                await place.build(await list_tree(self._objects, commit.base or commit.tree))
            )
            found = await check.run(place.within(judged.base), commit)
        except CheckSetupFailed as error:
            found = HookRun(error.to_result(f"{COMMIT_HOOKS[0]} hook"))
        return found and msgspec.structs.replace(found, result=self._label(found.result, known, judged))

    async def _place(self, head: Mapping[str, TreeEntry]) -> tuple[Sandbox, Dependencies]:
        """Return where commands run, and how dependencies differ from what they were."""
        if self._inputs is None:
            await self.prepare()
        assert self._inputs is not None
        known = await asyncio.to_thread(compare_inputs, self._trees, self._inputs, head)
        copied = self._choice.means is Means.NONE
        private = await asyncio.to_thread(self._isolation.find_hidden, self._trees.home)
        git = GitSource(self._git_dir, self._objects)
        means: Copied | Mounted = Copied(self._trees, git, private)
        if not copied:
            own = await asyncio.to_thread(self._isolation.try_means, Means.NAMESPACES)
            ordinary = self._choice if own.means is Means.NONE else own
            means = Mounted(self._choice, self._trees, private, git, ordinary)
        sandbox = Sandbox(
            means, self._trees, self._scratch, self._options, self._objects, self._inputs, known
        )
        return sandbox, known

    def _label(self, result: CheckResult, dependencies: Dependencies, found: Environments) -> CheckResult:
        """Say how well the check was sealed."""
        seal, why = seal_strength(self._choice)
        seal, more = lower_seal(seal, found, result)
        weaknesses = [*result.weaknesses, *([why] if why else []), *more]
        # What setup commands have made takes the place of what the agent installed in the work tree.
        if extended := found.not_made(dependencies.extended):
            seal = Seal.WEAK
            weaknesses.append(f"dependencies not sealed, files were added: {', '.join(extended)}")
        if rewritten := found.not_made(dependencies.rewritten):
            seal = Seal.NONE
            weaknesses.append(f"dependencies not sealed, files were changed: {list_ids(rewritten)}")
        if self._options.network or self._choice.means is Means.NONE:
            weaknesses.append("the network was open")
        return msgspec.structs.replace(result, seal=seal, weaknesses=tuple(dict.fromkeys(weaknesses)))

    async def survey(self, argv: Sequence[str], base: str) -> BaseCheck:
        """Run the command on a tree that nobody has worked on; say whether it can judge work at all."""
        command, tree = shlex.join(argv), await list_tree(self._objects, base)
        if not self._has_program(argv) and argv[0].removeprefix("./") not in tree:
            is_inside = "/" in argv[0] and not argv[0].startswith("/")
            state = BaseState.RED if is_inside else BaseState.UNREADY
            return BaseCheck(command, state, by_code=True, reason=_no_program(argv), missing=(argv[0],))
        read = partial(read_text, self._objects, tree)
        named = await find_named(argv, tree.keys(), read)
        place, _ = await self._place(tree)
        classifier = Classifier(named, self._options.control_files, self._modules())
        comparison = Comparison(self._objects, classifier, tree, tree)
        tests = [path for path, kind in comparison.kinds.items() if kind is PathKind.TEST]
        cache, began = await self._remember(argv, base), time.monotonic()
        is_known = cache.exists()
        try:
            place = place.within(await place.build(tree) or place.made_by(argv))
            check = SealedCheck(tuple(argv), named, comparison, place, place, self._options, self._redact)
            alone = partial(place.run, argv, Composed({}), ())
            around = Surroundings(tuple(argv), frozenset(tree), tests, read, alone, self._options.timeout)
            try:
                result = await conclude(await check.observe_base(cache, base), around)
                if NEEDS_NETWORK in result.reason and place.environment is None and not self._options.setup:
                    # Tox and others make an environment for themselves, which a sealed check cannot.
                    check.base_place = place.within(await place.make_by(argv, tree))
                    cache.unlink(missing_ok=True)
                    result = await conclude(await check.observe_base(cache, base), around)
            finally:
                await check.tear_down()
        except CheckSetupFailed as error:
            reason, _, said = error.message.partition("\n")
            result = BaseCheck(command, BaseState.UNREADY, reason=reason, output=said)
        if result.state is BaseState.UNREADY:  # whoever repairs it may do so outside of the tree
            cache.unlink(missing_ok=True)
        seconds = 0.0 if is_known else round(time.monotonic() - began, 3)
        return msgspec.structs.replace(result, output=self._redact(result.output), seconds=seconds)

    async def observe(self, argv: Sequence[str], tree: str) -> Observed:
        """Run the command once on a tree, sealed, and return how it ended, with its tests by id."""
        entries = await list_tree(self._objects, tree)
        named = await find_named(argv, entries.keys(), partial(read_text, self._objects, entries))
        place, _ = await self._place(entries)
        classifier = Classifier(named, self._options.control_files, self._modules())
        place = place.within(await place.build(entries) or place.made_by(argv))
        comparison = Comparison(self._objects, classifier, entries, entries)
        check = SealedCheck(tuple(argv), named, comparison, place, place, self._options, self._redact)
        try:
            return await check.observe_base(await self._remember(argv, tree), tree)
        finally:
            await check.tear_down()

    async def run_twice(
        self, argv: Sequence[str], base: str, tree: str, files: Collection[str]
    ) -> tuple[Observed, Observed] | None:
        """Return how the tests in some files of a tree end, two times; None: its setup commands fail.

        How the command reports its tests is found out on the base.
        """
        old, after = await asyncio.gather(list_tree(self._objects, base), list_tree(self._objects, tree))
        paths = {**after, **old}
        named = await find_named(argv, paths.keys(), partial(read_text, self._objects, paths))
        place, _ = await self._place(after)
        classifier = Classifier(named, self._options.control_files, self._modules())
        comparison = Comparison(self._objects, classifier, old, after)
        try:
            place = place.within(await place.build(after) or place.made_by(argv))
        except CheckSetupFailed:
            return None
        check = SealedCheck(tuple(argv), named, comparison, place, place, self._options, self._redact)
        try:
            return await check.run_twice(await self._remember(argv, base), base, files)
        finally:
            await check.tear_down()

    async def describe_result(self, base: str, head: str) -> str:
        """Return the public names that the work has made or altered: no bodies, and none of its tests."""
        from segue.proof.interface import describe_new_names

        old, new = await asyncio.gather(list_tree(self._objects, base), list_tree(self._objects, head))
        classifier = Classifier((), self._options.control_files)
        return await describe_new_names(self._objects, old, new, classifier)

    async def _remember(self, argv: Sequence[str], base: str, left_out: Sequence[str] = ()) -> Path:
        """Return where a result on the base is kept: by tree, command, means and environment."""
        tree = (await self._objects.git("rev-parse", f"{base}^{{tree}}")).out.decode() if base else ""
        options = msgspec.structs.replace(
            self._options, known_failures=(), bases=None, setups=None, environments=None, effort=Effort()
        )
        inputs = input_facts(self._inputs, self._scratch) if self._inputs is not None else []
        sealed = (
            str(self._choice.means),
            str(self._trees.home),
            machine_facts(environment({}, network=True)),
            self._isolation.opened,
        )
        facts = os.fsencode(repr((list(argv), tree, options, inputs, sealed, *left_out)))
        name = f"{hashlib.sha256(facts).hexdigest()[:32]}.json"
        return (self._options.bases or self._scratch / "base") / name


def _recall(place: Sandbox, base: Environment, classifier: Classifier) -> Environment:
    """Note how the environment of a task's base differs from the one that the run began with."""
    first = place.first_environment()
    if first is None or first.place == base.place:
        return base.keep(doubts=[])
    return base.keep(doubts=add_doubts(first, compare(first, base, place.root, classifier).rewritten))


def _no_program(argv: Sequence[str]) -> str:
    return f"There is no program {argv[0]}: install it, or correct the check."


def choose_means(isolation: Isolation, wanted: str = "auto") -> SandboxChoice:
    """Return what shows checks their tree; NONE stands for a copy in another folder, and says why."""
    if wanted == "copy":
        return SandboxChoice(Means.NONE, why="a copy is wanted")
    return isolation.mounter if wanted == "auto" else isolation.try_means(Means(wanted))


def seal_strength(choice: SandboxChoice) -> tuple[Seal, str]:
    """Return how well checks are sealed by these means, and what is missing."""
    if choice.means is Means.NONE:
        return Seal.WEAK, f"checks run on a copy in another folder ({choice.why})"
    return Seal.SEALED, choice.why


def _module(entry: Path) -> str:
    """Return the name of the module that an entry of site-packages is; empty: it is none."""
    if entry.suffix in (".dist-info", ".egg-info", ".pth", ".data", ".egg-link"):
        return ""
    return entry.name.partition(".")[0]
