"""Tell what was red before a run from what a task broke."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from segue.domain.proof import KnownFailures
from segue.proof.report import CaseResult, Report, TestOutcome


class Before(Struct, frozen=True):
    """What a check said where a task began, and what of it was known before the run."""

    command: str
    report: Report | None
    """The report of the base."""
    exit_code: int | None
    known: KnownFailures
    touched: Collection[str]
    """Tests and control files that the agent changed, added or removed."""

    def forgives(self, case: CaseResult) -> bool:
        """Return whether a test that fails now was red before, as far as anybody can know."""
        if case.id in self.known.tests:
            return self.known.forgive(case.id, red=self._is_red(case.id))
        if self.report is None:
            # Nothing was reported because the command failed earlier: what that hid may be red as well.
            return self.fails and bool(case.file) and case.file not in self.touched
        if case.whole_file:
            return self._is_all_red(self.report, case.file or case.id)
        hidden = self.report.unloaded(case)
        return hidden is not None and hidden.id in self.known.tests and case.file not in self.touched

    @property
    def fails(self) -> bool:
        """Whether the command itself was red before the run, and is where the task began."""
        return self.exit_code not in (0, None) and self.known.forgive(self.command, red=True)

    def _is_red(self, test: str) -> bool:
        return self.report is not None and test in self.report.failed

    def _is_all_red(self, report: Report, file: str) -> bool:
        """Return whether a file that cannot be loaded now had known failures and nothing that passed."""
        own = [case for case in report.tests.values() if case.file == file]
        known = any(case.id in self.known.tests for case in own)
        return known and all(case.outcome is TestOutcome.FAILED for case in own)

    def repaired(self, *runs: tuple[Report | None, int | None]) -> tuple[str, ...]:
        """Return the known failures that were red where the task began and pass in all of these runs."""
        red = {key for key in self.known.tests if self._is_red(key)}
        found = [key for key in red if all(_passes(self.report, report, key) for report, _ in runs)]
        if self.fails and all(code == 0 for _, code in runs):
            found.append(self.command)
        return tuple(sorted(found))


def _passes(before: Report | None, now: Report | None, key: str) -> bool:
    if now is None or before is None:
        return False
    if not before.tests[key].whole_file:
        return key in now.ids(TestOutcome.PASSED)
    own = [case for case in now.tests.values() if case.file == before.tests[key].file]
    return bool(own) and not any(case.whole_file for case in own)
