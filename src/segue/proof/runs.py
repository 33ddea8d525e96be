"""How a check ended on the trees that it ran on, and which of its failures were there before the run."""

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
    opened: tuple[str, ...] | None = None
    """Files of the tree that were opened while it ran; None: not known."""
    seconds: float = 0.0
    is_open: bool = False
    """Whether tests of the base write to files of the tests, so that these can only be watched."""

    @property
    def tests(self) -> int:
        """How many tests ran, files that could not be loaded included."""
        return len(self.report.tests) if self.report else 0


class Runs(Struct, frozen=True):
    """What a check said on the trees that it ran on."""

    base: Observed
    """Code and tests of the base."""
    regress: Observed
    """New code, tests and control files of the base."""
    new: Observed
    """New code and new tests."""
    old_code: Observed | None = None
    """Code of the base with the new tests; None: no test was added or changed, or no code."""
    sabotage: Observed | None = None
    """Like `new`, but the changed code raises; None: not tried."""
    unbreakable: bool = False
    """Whether nothing of the change could raise, as in a file of data: then its absence decides."""
    ordinary: Observed | None = None
    """Like `new`, but started as the user would, where that ends otherwise."""
    kind: TaskKind = TaskKind.BUILD
    touched: Collection[str] = ()
    """Tests and control files that the agent changed, added or removed."""
    control_touched: bool = False
    """Whether control files are among them."""
    product: Collection[str] = ()
    """Files of the product that the agent changed or removed."""
    command_is_new: bool = False
    """Whether the base has none of the files that the command names."""
    command_touched: bool = False
    """Whether the task has changed one of them."""
    code_changed: bool = True
    allowed: Collection[str] = ()
    """Globs of tests that may fail."""
    expected_red: Collection[str] = ()
    """Tests of earlier test-first tasks, which may fail."""
    command: str = ""
    known: KnownFailures = KnownFailures()
    """What was red before the run."""
    unready: bool = False
    """Whether the command could not start on the base."""
    still_unready: bool = False
    """Whether it cannot start on the new code either."""

    def forgives(self, case: CaseResult) -> bool:
        """Return whether a test that fails now was red before, as far as anybody can know."""
        before = self.base.report
        if case.id in self.known.tests:
            return self.known.forgive(case.id, red=self._is_red(case.id))
        if before is None:
            # Nothing was reported because the command failed earlier: what that hid may be red as well.
            return self.failed_before and bool(case.file) and case.file not in self.touched
        if case.whole_file:
            return self._is_all_red(before, case.file or case.id)
        hidden = before.unloaded(case)
        return hidden is not None and hidden.id in self.known.tests and case.file not in self.touched

    @property
    def has_inner_tests(self) -> bool:
        """Whether files of the product were changed that may contain tests, as in Rust."""
        return any(path.endswith(".rs") for path in self.product)

    @property
    def failed_before(self) -> bool:
        """Whether the command itself was red before the run, and is where the task began."""
        return self.base.exit_code not in (0, None) and self.known.forgive(self.command, red=True)

    def _is_red(self, test: str) -> bool:
        return self.base.report is not None and test in self.base.report.failed

    def _is_all_red(self, report: Report, file: str) -> bool:
        """Return whether a file that cannot be loaded now had known failures and nothing that passed."""
        own = [case for case in report.tests.values() if case.file == file]
        known = any(case.id in self.known.tests for case in own)
        return known and all(case.outcome is TestOutcome.FAILED for case in own)

    def repaired(self, *runs: Observed) -> tuple[str, ...]:
        """Return the known failures that were red where the task began and pass in all of these runs.

        Without any: in those with the new code.
        """
        runs = runs or (self.regress, self.new)
        red = {key for key in self.known.tests if self._is_red(key)}
        found = [key for key in red if all(self._passes(run.report, key) for run in runs)]
        if self.failed_before and all(run.exit_code == 0 for run in runs):
            found.append(self.command)
        return tuple(sorted(found))

    def _passes(self, now: Report | None, key: str) -> bool:
        before = self.base.report
        if now is None or before is None:
            return False
        if not before.tests[key].whole_file:
            return key in now.ids(TestOutcome.PASSED)
        own = [case for case in now.tests.values() if case.file == before.tests[key].file]
        return bool(own) and not any(case.whole_file for case in own)
