"""Proof: the evidence that a task is done, how strong it is, and what was red before the run."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from segue.domain.amounts import format_count, list_some


class Level(StrEnum):
    """How strong the evidence is. Each level says more than the one before it."""

    CHANGED = "changed"
    """There is a change; nothing more is known."""
    JUDGED = "judged"
    """A judge found every criterion met and quoted the evidence."""
    CHECKED = "checked"
    """Sealed checks passed, and they exercise the change."""
    TESTED = "tested"
    """Tests that failed before the task pass now, or what the task's kind asks for instead was shown."""
    INDEPENDENT = "independent"
    """Tests by somebody who never saw the change, or a black-box scenario, say the same."""
    HELD = "held"
    """All of that, and the proofs of all earlier tasks still hold."""
    ACCEPTED = "accepted"
    """A person decided."""

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
    """A test that fails now was changed by the agent: somebody must decide which version is right."""
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

    @property
    def exercises(self) -> bool:
        """Whether it looks at what was changed; where no program was changed, it need not."""
        if self.noticed is None:
            return bool(self.proved) or NOT_EXERCISED not in self.weaknesses
        return self.noticed or bool(self.repaired)

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
    proved: tuple[str, ...] = ()
    """Those that failed at the base, for the right reason, and pass now."""


class Proof(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The evidence for one task."""

    level: Level
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

    @property
    def words(self) -> str:
        """The level as people read it."""
        return f"accepted by {self.by}" if self.level is Level.ACCEPTED and self.by else self.level.value


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
