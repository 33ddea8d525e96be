"""How a check ended on the trees that it ran on, and what else is known of the change that it judges."""

from __future__ import annotations

from collections.abc import Collection

import msgspec
from msgspec import Struct

from segue.domain.proof import KnownFailures
from segue.domain.task import TaskKind
from segue.proof.report import CaseResult, Report, TestOutcome


class Observed(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a check ended on one tree."""

    exit_code: int | None
    """None: it took too long."""
    report: Report | None = None
    output: str = ""
    runners: tuple[str, ...] = ()
    """How it was asked for its report."""
    hook_failed: bool = False
    """Whether a hook could not be loaded, so that another way must be tried."""
    changed: tuple[str, ...] = ()
    """Tests and control files that were rewritten while it ran."""
    seconds: float = 0.0

    @property
    def tests(self) -> int:
        """How many tests ran, files that could not be loaded included."""
        return len(self.report.tests) if self.report else 0

    @property
    def ok(self) -> bool:
        """Whether the command ended with exit code 0."""
        return self.exit_code == 0

    def passes(self, test: str) -> bool:
        """Return whether a test passed."""
        return self.report is not None and test in self.report.ids(TestOutcome.PASSED)

    def find(self, test: str) -> CaseResult | None:
        """Return how a test ended; None: it did not run."""
        return self.report.tests.get(test) if self.report is not None else None

    def without(self, tests: Collection[str]) -> Observed:
        """Return the same without these tests."""
        if self.report is None or not tests:
            return self
        kept = {key: case for key, case in self.report.tests.items() if key not in tests}
        left = any(case.outcome is TestOutcome.FAILED for case in kept.values())
        code = 0 if self.report.failed and not left and self.exit_code else self.exit_code
        return msgspec.structs.replace(
            self, report=msgspec.structs.replace(self.report, tests=kept), exit_code=code
        )


NOTHING_RAN = Observed(None)


class Runs(Struct, frozen=True):
    """How a check ended on each tree."""

    base: Observed
    """Code and tests of the base."""
    regress: Observed
    """New code with the tests and control files of the base."""
    new: Observed
    """New code and new tests."""
    old_code: Observed | None = None
    """Code of the base with the new tests; None: not tried."""
    sabotage: Observed | None = None
    """Like `new`, but the changed code raises; None: not tried."""

    def without(self, tests: Collection[str]) -> Runs:
        """Return the runs without these tests."""
        base, regress, old, broken = self.base, self.regress.without(tests), self.old_code, self.sabotage
        new = regress if self.new is self.regress else self.new.without(tests)
        return Runs(
            base.without(tests), regress, new, old and old.without(tests), broken and broken.without(tests)
        )


class Change(Struct, frozen=True):
    """What is known about a task beside its runs."""

    command: str = ""
    kind: TaskKind = TaskKind.BUILD
    touched: frozenset[str] = frozenset()
    """Tests and control files that the agent changed, added or removed."""
    control: tuple[str, ...] = ()
    """The control files among them; the check used those of the base."""
    product: frozenset[str] = frozenset()
    """Files of the product that the agent changed or removed."""
    code_changed: bool = True
    can_break: bool = True
    """Whether the changed code can be made to raise; not so in a file of data, for example."""
    command_is_new: bool = False
    """Whether the base has none of the files that the command names."""
    command_touched: bool = False
    """Whether the task has changed one of them."""
    could_not_start: bool = False
    """Whether the command could not start on the base."""
    allowed: tuple[str, ...] = ()
    """Globs of tests that may fail."""
    expected_red: frozenset[str] = frozenset()
    """Tests of earlier test-first tasks, which may fail."""
    known: KnownFailures = KnownFailures()
    """What was red before the run."""
    watched: frozenset[str] = frozenset()
    """Tests that proved earlier tasks by this command."""
    may_wait: bool = False
    """Whether a later task may build what new tests call."""

    @property
    def has_inner_tests(self) -> bool:
        """Whether files of the product were changed that may contain tests, as in Rust."""
        return any(path.endswith(".rs") for path in self.product)

    def failed_before(self, base: Observed) -> bool:
        """Return whether the command itself was red before the run, and is where the task began."""
        return base.exit_code not in (0, None) and self.known.forgive(self.command, red=True)

    def forgives(self, case: CaseResult, base: Observed) -> bool:
        """Return whether a test that fails now was red before, as far as that is known."""
        before = base.report
        if case.id in self.known.tests:
            return self.known.forgive(case.id, red=before is not None and case.id in before.failed)
        if before is None:
            # Nothing was reported because the command failed earlier: what that hid may be red as well.
            return self.failed_before(base) and bool(case.file) and case.file not in self.touched
        if case.whole_file:
            return self._was_all_red(before, case.file or case.id)
        hidden = before.unloaded(case)
        return hidden is not None and hidden.id in self.known.tests and case.file not in self.touched

    def _was_all_red(self, before: Report, file: str) -> bool:
        """Return whether a file that cannot be loaded now had known failures and nothing that passed."""
        cases = [case for case in before.tests.values() if case.file == file]
        known = any(case.id in self.known.tests for case in cases)
        return known and all(case.outcome is TestOutcome.FAILED for case in cases)

    def find_repaired(self, runs: Runs) -> tuple[str, ...]:
        """Return the known failures that were red where the task began and pass with the new code."""
        before, ends = runs.base.report, (runs.regress, runs.new)
        red = self.known.tests & before.failed if before is not None else frozenset[str]()
        found = [test for test in red if all(_is_repaired(before, end, test) for end in ends)]
        if self.failed_before(runs.base) and all(end.ok for end in ends):
            found.append(self.command)
        return tuple(sorted(found))


def _is_repaired(before: Report | None, now: Observed, test: str) -> bool:
    if before is None or now.report is None:
        return False
    if not before.tests[test].whole_file:
        return now.passes(test)
    cases = [case for case in now.report.tests.values() if case.file == before.tests[test].file]
    return bool(cases) and not any(case.whole_file for case in cases)
