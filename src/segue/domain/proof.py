"""Proof: the evidence that a task is done, how strong it is, and what was red before the run."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from segue.domain.amounts import format_count, list_some


class Level(StrEnum):
    """How strong the evidence is: a ladder on which each level includes those below it."""

    CHANGED = "changed"
    """There is a change; nothing more is known."""
    CHECKED = "checked"
    """Nothing that worked is broken, and sealed checks notice when the changed code is sabotaged."""
    TESTED = "tested"
    """A test fails without the change and passes with it."""
    INDEPENDENT = "independent"
    """It also passes tests that the agent never saw."""

    @property
    def rank(self) -> int:
        """0 is the weakest."""
        return list(Level).index(self)

    @property
    def proven(self) -> bool:
        """Whether the words *proven* and PASS may be used."""
        return self.rank >= Level.CHECKED.rank


class CheckState(StrEnum):
    """What a check says about a task."""

    PASSED = "passed"
    FAILED = "failed"
    """The checks complain about the work."""
    REFUTED = "refuted"
    """The checks cannot be believed: no report, missing tests, a runner that cannot say no."""
    CONTESTED = "contested"
    """An old test that fails now was changed or switched off: somebody must decide which version is right."""
    NOTHING = "nothing"
    """It says nothing about the task: there are no tests yet, or it failed before as it does now."""
    BROKEN = "broken"
    """The check itself could not be run."""


class Seal(StrEnum):
    """How well a check was kept out of the agent's reach."""

    SEALED = "sealed"
    WEAK = "weakly sealed"
    NONE = "not sealed"


class Contested(msgspec.Struct, frozen=True, omit_defaults=True):
    """A control file that the agent changed and that decides whether the checks pass."""

    path: str
    before: str = ""
    """Its text at the base; empty: it did not exist."""
    after: str = ""
    """Its text now; empty: it was removed."""
    tests: tuple[str, ...] = ()
    """The tests that fail with the version of the base."""


class HowSettled(StrEnum):
    """What settled the change of an old test, in the order in which it is tried."""

    ASKED = "asked"
    """The task's own words ask for it."""
    MECHANICAL = "mechanical"
    """It asserts the same as before, under a new name or path or with adapted imports."""
    JUDGED = "judged"
    """A judge saw both versions and found that the task asks for it."""
    UNSETTLED = "unsettled"
    """Nothing did: the task continues, at most `checked` for what the test covered."""


class ChangedTest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A test of the base that was changed, moved or removed."""

    path: str
    """Where to look: the file now, or the old one if it was removed."""
    line: int = 0
    """The first line to look at; 0: the whole file."""
    test: str = ""
    """Its id at the base; empty: the file as a whole."""
    how: HowSettled = HowSettled.UNSETTLED
    why: str = ""
    """In one sentence: what settled it, or why nothing did."""
    off: bool = False
    """Whether its old version fails, and it is skipped, removed or run by nothing: then the check failed."""


NOT_EXERCISED = "not shown that the checks exercise the change"
"""The weakness of a check that passes, where sabotage of the changed code could not be tried."""


class CheckResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one check said."""

    command: str
    exit_code: int | None
    """The exit code of the run that decided; None: it could not be run."""
    output: str
    state: CheckState | None = None
    """What it says about the task; None: its exit code does."""
    reason: str = ""
    """In one or two sentences: what is wrong, for the agent and for people."""
    runner: str = ""
    """Who reported the tests: pytest, jest, go, …; empty: only the exit code is known."""
    passed: int = 0
    """How many tests passed."""
    failing: tuple[str, ...] = ()
    """Tests that fail now."""
    broken: tuple[str, ...] = ()
    """Tests that passed at the base and do not any more."""
    proved: tuple[str, ...] = ()
    """Tests that failed at the base, for the right reason, and pass now; of a test-first task those that
    were added and fail for the right reason. For a check without test ids, its command."""
    idle: tuple[str, ...] = ()
    """Tests that the task added and that pass without its change, so they show nothing."""
    contested: tuple[Contested, ...] = ()
    noticed: bool | None = None
    """Whether the check fails when the changed code is sabotaged; None: that could not be tried."""
    seal: Seal = Seal.NONE
    weaknesses: tuple[str, ...] = ()
    """Where the seal is weaker than it could be, and what was not shown."""
    changed: tuple[str, ...] = ()
    """Control files that the agent changed, added or removed; the check used those of the base."""
    scenario: bool = False
    """Whether it is a black-box scenario."""
    of: str = ""
    """The earlier task whose proof was run again; empty: it is about the task itself."""
    known: tuple[str, ...] = ()
    """Tests that fail and did before the run; the command itself, where its exit code is meant."""
    repaired: tuple[str, ...] = ()
    """Those among the failures known before the run that pass now, each time they were tried."""
    environment: str = ""
    """Which environment judged, where the task changed what `check_setup` builds it from."""

    changed_tests: tuple[ChangedTest, ...] = ()
    """Tests of the base that the task changed, moved or removed, and what settled each."""
    flaky: tuple[str, ...] = ()
    """Tests whose results differed when they were repeated: they prove nothing and refute nothing."""
    both_sides: tuple[str, ...] = ()
    """Changed files that the product and the checks use, each with the lines to look at (`path:line`)."""
    cap: str = ""
    """Why the level is at most `checked` by this check; empty: it is not capped."""
    mutants: tuple[int, int] | None = None
    """How many mutants of the changed lines were tried against the proving tests, and how many noticed."""
    survivors: tuple[str, ...] = ()
    """Mutants that nobody noticed, each as a diff of one line (`path:line: - old + new`)."""
    blunt: str = ""
    """Why the proving tests cannot tell right from wrong; empty: they can."""

    own: tuple[str, ...] = ()
    """Those among `proved` that the task itself has written or changed."""
    lost: tuple[str, ...] = ()
    """Tests that proved earlier tasks by this command and do not pass now: failing, skipped or gone."""
    unnamed: tuple[tuple[str, str], ...] = ()
    """Independent tests that fail for want of a name, each with that name."""
    tested: tuple[str, ...] = ()
    """Changed files that the check found tests in, such as examples in documentation."""
    lucky: tuple[str, ...] = ()
    """Independent tests that pass as well where the changed functions do nothing, or something else."""

    @property
    def exercises(self) -> bool:
        """Whether it was seen to look at what was changed: more than that a name is there."""
        return bool(self.noticed or self.repaired or (self.proved and self.noticed is not False))

    @property
    def proving(self) -> tuple[str, ...]:
        """The tests that show the change: not those whose results differ from time to time."""
        return tuple(test for test in self.proved if test not in self.flaky)

    @property
    def unsettled(self) -> tuple[ChangedTest, ...]:
        """Old tests that were changed, where nothing shows that the task asks for it."""
        return tuple(one for one in self.changed_tests if one.how is HowSettled.UNSETTLED)

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against the work."""
        if self.state is None:
            return self.exit_code == 0
        return self.state in (CheckState.PASSED, CheckState.NOTHING)


class Tampering(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that an agent changed and that decides whether its work counts."""

    subject: str
    """What was changed: `ticks`, `task text`, `settings`, `history`, `git configuration`, …"""
    text: str
    """What happened and what Segue did about it, in one sentence."""
    path: str = ""


class IndependentTests(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Tests that were written from the task alone, by somebody who never saw the change."""

    commit: str
    """Where git keeps them: they are not part of the work."""
    files: tuple[str, ...]
    commands: tuple[str, ...]
    """The checks that run them."""
    by: str = ""
    """The agent that wrote them."""
    same_vendor: bool = False
    """Whether the work is by an agent of the same vendor, in another session."""
    proved: tuple[str, ...] = ()
    """Those that failed at the base, for the right reason, and pass now."""


class Proof(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The evidence for one task."""

    level: Level
    """What was measured, also where a person decided."""
    by: str = ""
    """Who accepted it, when a person decided."""
    reasons: tuple[str, ...] = ()
    """Why it is not stronger, and what is weak about it, in words."""
    checks: tuple[CheckResult, ...] = ()
    tree: str = ""
    """The git tree that was checked."""
    base: str = ""
    """The commit that it was compared with."""
    mutants: tuple[int, int] | None = None
    """Changed lines that were mutated, and how many of the mutants the tests noticed: supporting evidence."""
    independent: IndependentTests | None = None
    """The independent tests, if there are any."""
    dropped: tuple[str, ...] = ()
    """Independent tests, also of earlier tasks, that may fail from now on: they pass at the base, or were
    found to ask for something else."""
    held: tuple[int, int] | None = None
    """How many proofs of earlier tasks were run again, and how many of them still hold."""
    judged: bool = False
    """Whether a judge who looks at more than the checks found every criterion met."""
    untestable: str = ""
    """Why no test could tell the change, as measured: `only comments were changed`; empty: one could."""

    @property
    def is_accepted(self) -> bool:
        """Whether a person decided, whatever was measured."""
        return bool(self.by) or self.level.value == "accepted"


def accept(measured: Proof | None, by: str) -> Proof:
    """Return the proof of a task that a person accepts: what was measured, if anything was, and who did."""
    found = measured or Proof(level=Level.CHANGED)
    return msgspec.structs.replace(found, by=by)


_LISTED = 5


class BaseState(StrEnum):
    """How a check ends on the tree that a run begins with."""

    GREEN = "green"
    RED = "red"
    """It fails already: what fails is a known failure of the run."""
    EMPTY = "empty"
    """There are no tests yet, as in a young project."""
    UNREADY = "unready"
    """It cannot start, so it would say nothing about any task."""


class BaseCheck(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one check says about the tree that a run begins with."""

    command: str
    state: BaseState
    tests: int = 0
    """How many tests ran, files that could not be loaded included."""
    failing: tuple[str, ...] = ()
    """Tests that fail already, and files that cannot be loaded."""
    red_files: tuple[str, ...] = ()
    """Files with failing tests of which no test passes."""
    by_code: bool = False
    """Whether the command fails for another reason than its tests, as a linter does."""
    reason: str = ""
    """Why it cannot start, or cannot start yet."""
    missing: tuple[str, ...] = ()
    """What it lacks to start, by name; a task that names it may add it."""
    output: str = ""
    """The command's own last lines, where no test explains the failure."""
    seconds: float = 0.0
    """How long it took; 0: the result was known."""
    mute: bool = False
    """Whether it reports no tests although there are some, or runs none by its name, as a linter does."""
    too_long: bool = False
    """Whether it was ended because it took longer than `check_timeout`."""

    @property
    def known(self) -> frozenset[str]:
        """What may fail from now on: ids of tests, and the command itself where its exit code is meant."""
        own = (self.command,) if self.by_code or self.state is BaseState.UNREADY else ()
        return frozenset((*self.failing, *own))

    @property
    def words(self) -> str:
        """What people should know about it; empty: nothing, because it is green."""
        if self.state is BaseState.UNREADY:
            return f"`{self.command}` cannot start: {self.reason}"
        if self.reason:
            return f"`{self.command}` cannot start yet: {self.reason}"
        if self.failing:
            verb = "fails" if len(self.failing) == 1 else "fail"
            listed = list_some(self.failing, _LISTED)
            return f"{len(self.failing)} of {format_count(self.tests, 'test')} {verb} already: {listed}"
        return f"`{self.command}` fails already" if self.state is BaseState.RED else ""


class KnownFailures(msgspec.Struct, frozen=True):
    """What was red before the run, for one check; the command stands for its exit code."""

    tests: frozenset[str] = frozenset()
    repaired: frozenset[str] = frozenset()
    """Those that a task has repaired since: later tasks must keep them green."""

    def forgive(self, test: str, *, red: bool) -> bool:
        """Return whether a test may fail; `red`: it fails where the task began."""
        return test in self.tests and (red or test not in self.repaired)
