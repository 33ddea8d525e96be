"""Decide from test ids what a check says about a task: a pure function over its runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from msgspec.structs import replace

from segue.domain.amounts import list_some
from segue.domain.proof import CheckResult, CheckState
from segue.domain.task import TaskKind
from segue.domain.text import cut_tail
from segue.proof.paths import matches_any
from segue.proof.report import Canary, CaseResult, Reason, Report, TestOutcome
from segue.proof.runs import Change, Observed, Runs

PASSED, FAILED, SKIPPED = TestOutcome.PASSED, TestOutcome.FAILED, TestOutcome.SKIPPED
COMMAND = ""
"""Stands for a command whose exit code is all that is known."""
_SHOWN = 10
_MESSAGE, _TAIL = 1500, 4000


def decide(runs: Runs, change: Change) -> CheckResult:
    """Return what the runs say about the task."""
    for run in (runs.regress, runs.new):
        if rewritten := sorted(set(run.changed) - set(runs.base.changed)):
            reason = f"The check's own files were rewritten while it ran: {list_ids(rewritten)}."
            return _conclude(runs, change, CheckState.REFUTED, reason, run)
    if runs.new.report is None and runs.base.report is None:
        return _by_exit_code(runs, change)
    if not runs.base.tests and not runs.new.tests and runs.new.report is not None:
        return _without_tests(runs, change)
    refused = _disbelieve(runs, change) or _find_broken(runs, change)
    if refused is not None:
        return refused
    if change.kind is TaskKind.TEST_FIRST or _is_test_first(runs, change):
        return _test_first(runs, change)
    return _by_tests(runs, change)


def _conclude(
    runs: Runs, change: Change, state: CheckState, reason: str = "", run: Observed | None = None, **facts: Any
) -> CheckResult:
    """Return the result of a check; `run` is the run that explains it."""
    run, report = run or runs.new, runs.new.report
    if state not in (CheckState.PASSED, CheckState.NOTHING) and change.control:
        reason += f" The check used the base's version of: {list_ids(change.control)}."
    result = CheckResult(
        change.command,
        run.exit_code,
        "",
        state,
        reason,
        ", ".join(report.runners) if report else "",
        len(report.ids(PASSED)) if report else 0,
        changed=change.control,
        lost=tuple(sorted(change.watched - report.ids(PASSED))) if report else (),
        repaired=change.find_repaired(runs) if state is CheckState.PASSED else (),
        **facts,
    )
    own = _find_own(result.proved, runs, change)
    proved = tuple(test or change.command for test in result.proved)
    return replace(result, output=_cut_output(result, run, runs, change), own=own, proved=proved)


def _find_own(proved: Iterable[str], runs: Runs, change: Change) -> tuple[str, ...]:
    """Return those among the proving tests which the task has written or changed."""
    if runs.new.report is None:
        return (change.command,) if change.command_touched and tuple(proved) else ()
    now, known = runs.new.report.tests, runs.base.report.tests if runs.base.report is not None else {}
    return tuple(
        test for test in proved if test in now and (test not in known or now[test].file in change.touched)
    )


def _cut_output(result: CheckResult, run: Observed, runs: Runs, change: Change) -> str:
    """Return the messages of failed tests, and the end of the output unless it also names known failures."""
    tests = run.report.tests if run.report is not None else {}
    parts = []
    if result.state is not CheckState.PASSED:
        for test in [test for test in (result.failing or result.broken) if test in tests][:_SHOWN]:
            message = tests[test].message.strip()
            parts.append(f"{test}\n{cut_tail(message, _MESSAGE)}" if message else test)
    if not parts:
        return cut_tail(run.output.strip(), _TAIL)
    if not any(case.outcome is FAILED and change.forgives(case, runs.base) for case in tests.values()):
        parts.append("\n".join(run.output.strip().splitlines()[-10:]))
    return "\n\n".join(part for part in parts if part)


def _by_exit_code(runs: Runs, change: Change) -> CheckResult:
    """Without test ids, the exit code counts; the command proves something if it failed on the base."""
    noticed, new = _is_noticed(runs), runs.new
    if runs.regress.ok and new.ok:
        # A stricter check of the agent's own proves something if it fails without the change.
        before = (runs.base, runs.old_code or runs.base)
        proved = (COMMAND,) if any(run.exit_code not in (0, None) for run in before) else ()
        return _conclude(runs, change, CheckState.PASSED, proved=proved, noticed=noticed)
    if new.ok and (change.command_is_new or change.could_not_start):
        weak = ("the command's own files are new, so the agent wrote its own check",)
        return _conclude(runs, change, CheckState.PASSED, noticed=noticed, weaknesses=weak)
    if change.failed_before(runs.base) and new.exit_code not in (0, None) and not change.command_is_new:
        words = "could not start" if change.could_not_start else "failed"
        reason = f"It {words} before the run, and still does, so it says nothing about the task."
        weak = (f"`{change.command}` {words} before the run too, so it shows nothing",)
        known = (change.command,)
        return _conclude(runs, change, CheckState.NOTHING, reason, known=known, weaknesses=weak)
    if change.touched and new.ok:  # it passes only with the agent's tests or settings: a changed test
        return _conclude(runs, change, CheckState.PASSED, noticed=noticed)
    run = runs.regress if new.ok else new
    return _conclude(runs, change, CheckState.FAILED, _name_end(run), run)


def _name_end(run: Observed) -> str:
    return "It took too long." if run.exit_code is None else f"It failed with exit code {run.exit_code}."


def _without_tests(runs: Runs, change: Change) -> CheckResult:
    new = runs.new
    if new.exit_code in (0, 5) or (change.failed_before(runs.base) and new.exit_code is not None):
        return _conclude(runs, change, CheckState.NOTHING, "There are no tests yet.")
    return _conclude(runs, change, CheckState.FAILED, f"No tests ran. {_name_end(new)}")


def _disbelieve(runs: Runs, change: Change) -> CheckResult | None:
    """Return why the reports cannot be believed; a run that admits failure is believed."""
    for run in (runs.regress, runs.new):
        expected = runs.base.report if run is runs.regress or runs.base.tests else None
        reason = "" if _admits(run, runs, change) else _find_doubt(run, expected)
        if reason:
            return _conclude(runs, change, CheckState.REFUTED, reason, run)
    before = runs.base.report
    gone = (
        []
        if before is None
        else [
            test
            for test in sorted(before.ids(PASSED))
            if runs.regress.find(test) is None and not _is_inside(before.tests[test], change)
        ]
    )
    if gone and not _admits(runs.regress, runs, change):
        reason = f"Tests that passed before the task did not run: {list_ids(gone)}."
        return _conclude(runs, change, CheckState.REFUTED, reason, runs.regress, broken=tuple(gone))
    skipped = (
        set[str]()
        if before is None
        else {
            test
            for run in (runs.regress, runs.new)
            if run.report is not None
            for test in before.ids(PASSED) & run.report.ids(SKIPPED)
        }
    )
    if skipped := skipped.difference(_skipped_by_edit(runs, change)):
        reason = f"Tests that passed before the task are skipped now: {list_ids(sorted(skipped))}."
        broken = tuple(sorted(skipped))
        return _conclude(runs, change, CheckState.REFUTED, reason, runs.regress, broken=broken)
    return None


def _admits(run: Observed, runs: Runs, change: Change) -> bool:
    """Return whether the run itself says that something is wrong, beyond what may fail."""
    return bool(_find_failing(run.report, runs, change)) if run.report is not None else run.exit_code != 0


def _find_doubt(run: Observed, expected: Report | None) -> str:
    if run.report is None:
        return "The tests ended without a report, as if all had passed."
    if expected is not None and run.report.files < expected.files:
        return f"{run.report.files} of {expected.files} test runs reported their end."
    if run.report.canary is Canary.SILENT:
        return "A test that must fail was reported as passed: the test runner was tampered with."
    if run.report.canary is Canary.ABSENT and expected is not None and expected.canary is Canary.FAILED:
        if not run.tests:
            return "No test runs any more."
        return "A test that must fail did not run: the test runner was tampered with."
    return ""


def _is_inside(case: CaseResult, change: Change) -> bool:
    """Return whether a test is part of a changed file of the product: its old version cannot be run alone."""
    return case.file in change.product if case.file else change.has_inner_tests


def _is_touched(case: CaseResult, change: Change) -> bool:
    return case.file in change.touched if case.file else change.has_inner_tests


def _skipped_by_edit(runs: Runs, change: Change) -> list[str]:
    """Return the tests that are skipped because the agent edited their file."""
    base, now = runs.base.report, runs.new.report
    if base is None or now is None:
        return []
    then = runs.regress.report if runs.regress is not runs.new else None
    kept = then.ids(SKIPPED) if then is not None else frozenset[str]()
    skipped = (base.ids(PASSED) & now.ids(SKIPPED)) - kept
    return [test for test in skipped if _is_touched(base.tests[test], change)]


def _find_broken(runs: Runs, change: Change) -> CheckResult | None:
    """Return what follows when tests that nobody changed passed at the base and fail with the new code."""
    base = runs.base.report
    if base is None:
        return None
    broken = _find_lost(runs, change)
    sure = [test for test in broken if not _is_disputed(base.tests[test], runs, change)]
    if not sure:
        return None
    reason = f"Tests that passed before the task fail now: {list_ids(sure)}."
    return _conclude(runs, change, CheckState.FAILED, reason, runs.regress, failing=broken, broken=broken)


def _find_lost(runs: Runs, change: Change) -> tuple[str, ...]:
    """Return the tests that passed at the base and do not with the new code."""
    base, now = runs.base.report, runs.regress.report
    if base is None:
        return ()
    missing = base.ids(PASSED) - (now.ids(PASSED) if now is not None else frozenset())
    missing = missing.difference(_skipped_by_edit(runs, change))
    return tuple(sorted(test for test in missing if not _may_fail(base.tests[test], runs, change)))


def find_changed(runs: Runs, change: Change) -> tuple[str, ...]:
    """Return the tests whose result changed only because the agent edited tests or settings.

    The empty text stands for a command that reports no tests.
    """
    base, then, now = runs.base.report, runs.regress.report, runs.new.report
    if base is None and now is None:
        by_edit = runs.new.ok and not runs.regress.ok and bool(change.touched)
        return (COMMAND,) if by_edit and not (change.command_is_new or change.could_not_start) else ()
    if base is None:
        return ()
    passing = then.ids(PASSED) if then is not None else frozenset[str]()
    silenced = {
        case.id
        for case in base.tests.values()
        if case.outcome is FAILED and case.id not in passing and _is_silenced(case, runs, change)
    }
    reworded = {
        test
        for test in (then.failed - now.failed if then and now and then is not now else ())
        if test not in base.tests and base.unloaded(then.tests[test]) is not None  # type: ignore[union-attr]
    }
    gone = {test for test in change.watched if test in base.tests and now and test not in now.tests}
    lost = {
        *_find_lost(runs, change),
        *(test for test in gone if now and now.unloaded(base.tests[test]) is None),
    }
    return tuple(sorted({*lost, *silenced, *_skipped_by_edit(runs, change), *reworded}))


def _is_silenced(case: CaseResult, runs: Runs, change: Change) -> bool:
    """Return whether a test that must be repaired fails no more because not only code was changed."""
    if matches_any(case.id, change.allowed) or change.forgives(case, runs.base):
        return False
    then, now = runs.regress.report, runs.new.report
    if case.whole_file and then is not None and case.id not in then.tests:
        return False  # the task has built what its tests were waiting for
    if now is not None and not case.whole_file and case.id not in now.tests:
        return now.unloaded(case) is None
    return _is_disputed(case, runs, change)


def _is_disputed(case: CaseResult, runs: Runs, change: Change) -> bool:
    """Return whether a test that fails with the base's tests does not with the new ones, or was removed."""
    new = runs.new.report
    if new is None:
        return False
    now = new.tests.get(case.id)
    if now is None and _is_inside(case, change) and new.unloaded(case) is None:
        return True
    if runs.new is runs.regress:
        return False
    if now is not None:
        return now.outcome is not FAILED
    if case.whole_file and any(other.file == case.file for other in new.tests.values()):
        return not any(other.file == case.file and other.outcome is FAILED for other in new.tests.values())
    removed = case.file in change.touched or bool(change.control)
    return removed and new.unloaded(case) is None


def _by_tests(runs: Runs, change: Change) -> CheckResult:
    report = runs.new.report
    if report is None:
        return _conclude(runs, change, CheckState.FAILED, f"No test reported its end. {_name_end(runs.new)}")
    if failing := _find_failing(report, runs, change):
        return _fail(runs, change, failing)
    weak, known = list(report.weaknesses), tuple[str, ...]()
    if not runs.new.ok and not report.failed:
        reason = f"All tests passed, but the command failed. {_name_end(runs.new)}"
        was_empty = runs.base.report is not None and not runs.base.tests
        if not change.failed_before(runs.base) or was_empty or runs.new.exit_code is None:
            return _conclude(runs, change, CheckState.FAILED, reason)
        weak.append(f"`{change.command}` failed before the run too, although its tests passed")
        known = (change.command,)
    forgiven = (test for test in report.failed if change.forgives(report.tests[test], runs.base))
    proved, idle = _find_proving(runs, change)
    return _conclude(
        runs,
        change,
        CheckState.PASSED,
        failing=tuple(sorted(report.failed)),
        proved=proved,
        idle=idle,
        noticed=_is_noticed(runs),
        weaknesses=tuple(weak),
        known=(*sorted(forgiven), *known),
    )


def _fail(runs: Runs, change: Change, failing: Collection[str]) -> CheckResult:
    count = "1 test fails" if len(failing) == 1 else f"{len(failing)} tests fail"
    reason = f"{count}: {list_ids(failing)}."
    return _conclude(runs, change, CheckState.FAILED, reason, failing=tuple(failing))


def _added(runs: Runs) -> list[str]:
    known = runs.base.report.tests if runs.base.report is not None else {}
    return sorted(test for test in runs.new.report.tests if test not in known) if runs.new.report else []


def _is_test_first(runs: Runs, change: Change) -> bool:
    """Return whether a task changes nothing but new tests, which fail because what they call is missing."""
    report = runs.new.report
    if not change.may_wait or change.code_changed or report is None:
        return False
    red = [report.tests[test] for test in _added(runs) if report.tests[test].outcome is FAILED]
    missing = all(case.reason in (Reason.MISSING, Reason.UNFINISHED) for case in red)
    return bool(red) and missing and not find_changed(runs, change)


def _test_first(runs: Runs, change: Change) -> CheckResult:
    """Tests that were added must fail, for the right reason."""
    report = runs.new.report
    if report is None:
        return _conclude(runs, change, CheckState.FAILED, f"No test reported its end. {_name_end(runs.new)}")
    added = _added(runs)
    red = tuple(test for test in added if report.tests[test].outcome is FAILED)
    if others := [test for test in _find_failing(report, runs, change) if test not in red]:
        return _fail(runs, change, others)
    if not added:
        return _conclude(runs, change, CheckState.FAILED, "No test was added.")
    if wrong := tuple(test for test in red if not _is_right(report.tests[test])):
        why = "; ".join(sorted({(report.tests[test].reason or "other") for test in wrong}))
        reason = f"New tests must fail because something is missing, not for this ({why}): {list_ids(wrong)}."
        return _conclude(runs, change, CheckState.FAILED, reason, failing=wrong)
    if not red:
        reason = "The new tests pass already, so they do not test what is missing."
        return _conclude(runs, change, CheckState.FAILED, reason, idle=tuple(added))
    idle = tuple(test for test in added if report.tests[test].outcome is PASSED)
    return _conclude(runs, change, CheckState.PASSED, failing=red, proved=red, awaited=red, idle=idle)


def _is_right(case: CaseResult) -> bool:
    return case.reason is not None and case.reason.is_right


def _find_failing(report: Report, runs: Runs, change: Change) -> tuple[str, ...]:
    """Return what fails and may not."""
    return tuple(sorted(test for test in report.failed if not _may_fail(report.tests[test], runs, change)))


def _may_fail(case: CaseResult, runs: Runs, change: Change) -> bool:
    red = case.id in change.expected_red or (bool(case.file) and case.file in change.expected_red)
    return red or matches_any(case.id, change.allowed) or change.forgives(case, runs.base)


def _find_proving(runs: Runs, change: Change) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the tests that needed the change, and those that were added and did not."""
    report, before = runs.new.report, runs.old_code or runs.base
    if report is None or not change.code_changed:
        return (), ()
    proved, idle = [], []
    base = runs.base.report
    for test in sorted(report.ids(PASSED)):
        if base is not None and test in base.ids(PASSED) and before.find(test) is None:
            continue  # it passed before the task, and its file cannot be loaded with the old code
        needed = _is_needed(report.tests[test], before.report, runs.sabotage)
        if needed is None and not change.can_break:
            case = before.find(test)
            needed = (case is not None and case.outcome is FAILED and not case.whole_file) or None
        if needed:
            proved.append(test)
        elif needed is False and (base is None or test not in base.tests):
            idle.append(test)
    return tuple(proved), tuple(idle)


def _is_needed(case: CaseResult, before: Report | None, sabotage: Observed | None) -> bool | None:
    """Return whether a test that passes now failed without the change, for the right reason."""
    known = before.tests.get(case.id) if before is not None else None
    if known is not None:
        if known.outcome is FAILED:
            # Such as a program that is not there: then sabotage tells whether it needs the change.
            return _is_right(known) or _fails_on(case, sabotage) or None
        return False if known.outcome is PASSED else None
    unloaded = before.unloaded(case) if before is not None else None
    if unloaded is not None and not _is_right(unloaded):
        return None
    # Its file could not be loaded, or nothing could: only sabotage tells which of its tests need the change.
    return _fails_on(case, sabotage)


def _fails_on(case: CaseResult, sabotage: Observed | None) -> bool | None:
    """Return whether a test fails on sabotaged code; None: not known."""
    if sabotage is None or sabotage.exit_code is None:
        return None
    if sabotage.report is None:
        return True if sabotage.exit_code else None
    return not sabotage.passes(case.id)


def _is_noticed(runs: Runs) -> bool | None:
    """Return whether the check fails when the changed code is sabotaged; what takes too long says nothing."""
    if runs.sabotage is None or runs.sabotage.exit_code is None:
        return None
    now, broken = runs.new.report, runs.sabotage.report
    if now is None or broken is None:
        return runs.sabotage.exit_code != 0
    return bool(now.ids(PASSED) - broken.ids(PASSED))


def list_ids(ids: Iterable[str]) -> str:
    """Return the first ids, and how many more there are."""
    return list_some(list(ids), _SHOWN)
