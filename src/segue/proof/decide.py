"""Decide from test ids what a check says about a task."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from segue.domain.amounts import list_some
from segue.domain.proof import CheckState
from segue.domain.task import TaskKind
from segue.proof.evidence import contradiction
from segue.proof.paths import matches_any
from segue.proof.report import Canary, CaseResult, Report, TestOutcome
from segue.proof.runs import Observed, Runs

PASSED, FAILED, SKIPPED = TestOutcome.PASSED, TestOutcome.FAILED, TestOutcome.SKIPPED
_SHOWN = 10


class Decision(Struct, frozen=True):
    """What the runs say."""

    state: CheckState
    reason: str = ""
    decisive: str = "new"
    """The run whose output explains it: `new` or `regress`."""
    failing: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    proved: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    contested: tuple[str, ...] = ()
    """Tests that pass, or run no more, only because the agent changed tests or control files; empty text: the
    command itself."""
    noticed: bool | None = None
    weaknesses: tuple[str, ...] = field(default=())
    known: tuple[str, ...] = ()
    repaired: tuple[str, ...] = ()


def decide(runs: Runs) -> Decision:
    """Return what the runs say about the task."""
    for name, run in (("regress", runs.regress), ("new", runs.new)):
        if rewritten := sorted(set(run.changed) - set(runs.base.changed)):
            reason = f"The check's own files were rewritten while it ran: {list_ids(rewritten)}."
            return Decision(CheckState.REFUTED, reason, name)
    if runs.new.report is None and runs.base.report is None:
        return _by_exit_code(runs)
    if not runs.base.tests and not runs.new.tests and runs.new.report is not None:
        return _nothing(runs)
    doubt = _doubt(runs)
    if doubt:
        return doubt
    broken = _broken(runs)
    if broken:
        return broken
    decision = _test_first(runs) if runs.kind is TaskKind.TEST_FIRST else _by_tests(runs)
    return replace(decision, contested=_contested(runs)) if decision.state is CheckState.PASSED else decision


def _by_exit_code(runs: Runs) -> Decision:
    """Without test ids, the exit code counts; the command proves something if it failed on the base."""
    if runs.regress.exit_code == 0 and runs.new.exit_code == 0:
        # A stricter check of the agent's own proves something if it fails without the change.
        before = (runs.base, runs.old_code or runs.base)
        proved = ("",) if any(run.exit_code not in (0, None) for run in before) else ()
        return Decision(
            CheckState.PASSED,
            proved=proved,
            noticed=_noticed(runs),
            repaired=runs.repaired(),
        )
    if runs.new.exit_code == 0 and (runs.command_is_new or runs.unready):
        weak = "the command's own files are new, so the agent wrote its own check"
        return Decision(
            CheckState.PASSED,
            noticed=_noticed(runs),
            weaknesses=(weak,),
            repaired=runs.repaired(),
        )
    if _is_known(runs):
        return _says_nothing(runs)
    if runs.touched and runs.new.exit_code == 0:
        return Decision(CheckState.PASSED, contested=("",), noticed=_noticed(runs))
    return Decision(CheckState.FAILED, _exit_words(runs.new), "new" if runs.new.exit_code else "regress")


def _is_known(runs: Runs) -> bool:
    """Return whether the command fails as it did before the run, so that its exit code says nothing."""
    if not runs.failed_before or runs.new.exit_code in (0, None) or runs.new.report is not None:
        return False
    # A check that the task made able to start, and that fails then, is about the task.
    return not runs.command_is_new and (runs.still_unready or not runs.unready)


def _says_nothing(runs: Runs) -> Decision:
    words = "could not start" if runs.unready else "failed"
    reason = f"It {words} before the run, and still does, so it says nothing about the task."
    weak = f"`{runs.command}` {words} before the run too, so it shows nothing"
    return Decision(CheckState.NOTHING, reason, known=(runs.command,), weaknesses=(weak,))


def _exit_words(run: Observed) -> str:
    return "It took too long." if run.exit_code is None else f"It failed with exit code {run.exit_code}."


def _nothing(runs: Runs) -> Decision:
    if runs.new.exit_code in (0, 5) or (runs.failed_before and runs.new.exit_code is not None):
        return Decision(CheckState.NOTHING, "There are no tests yet.")
    return Decision(CheckState.FAILED, f"No tests ran. {_exit_words(runs.new)}")


def _doubt(runs: Runs) -> Decision | None:
    """Return why the reports cannot be believed; a run that admits failure is believed."""
    for name, run in (("regress", runs.regress), ("new", runs.new)):
        expected = runs.base.report if name == "regress" or runs.base.tests else None
        reason = "" if _admits(run, runs) else _unbelievable(run, expected) or contradiction(runs.base, run)
        if reason:
            return Decision(CheckState.REFUTED, reason, name)
    gone = _gone(runs)
    if gone and not _admits(runs.regress, runs):
        reason = f"Tests that passed before the task did not run: {list_ids(gone)}."
        return Decision(CheckState.REFUTED, reason, "regress", broken=gone)
    skipped = _skipped(runs)
    if skipped:
        reason = f"Tests that passed before the task are skipped now: {list_ids(skipped)}."
        return Decision(CheckState.REFUTED, reason, "regress", broken=skipped)
    return None


def _admits(run: Observed, runs: Runs) -> bool:
    """Return whether the run itself says that something is wrong, beyond what may fail."""
    if run.report is None:
        return run.exit_code != 0
    return bool(_unexpected(run.report, runs))


def _unbelievable(run: Observed, expected: Report | None) -> str:
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


def _missing(before: Report | None, after: Report | None) -> tuple[str, ...]:
    if before is None:
        return ()
    ids = after.tests if after is not None else {}
    return tuple(sorted(key for key in before.ids(PASSED) if key not in ids))


def _gone(runs: Runs) -> tuple[str, ...]:
    """Return the tests that should have run with the new code; those in the product's own files may go."""
    before = runs.base.report
    missing = _missing(before, runs.regress.report)
    return tuple(key for key in missing if before is not None and not _is_inside(before.tests[key], runs))


def _is_inside(case: CaseResult, runs: Runs) -> bool:
    """Return whether a test is part of a file of the product that was changed: nobody has its old version."""
    return runs.has_inner_tests if not case.file else case.file in runs.product


def _skipped(runs: Runs) -> tuple[str, ...]:
    """Return what the product itself skips; tests that were edited to be skipped are changed tests."""
    if runs.base.report is None:
        return ()
    found: set[str] = set()
    for run in (runs.regress, runs.new):
        if run.report is not None:
            found |= runs.base.report.ids(PASSED) & run.report.ids(SKIPPED)
    return tuple(sorted(found - set(_silenced_by_edit(runs))))


def _silenced_by_edit(runs: Runs) -> list[str]:
    base, now, then = runs.base.report, runs.new.report, runs.regress.report
    if base is None or now is None:
        return []
    skipped = base.ids(PASSED) & now.ids(SKIPPED)
    kept = then.ids(SKIPPED) if then is not None and then is not now else frozenset()
    return [key for key in skipped if key not in kept and _is_own(base.tests[key], runs)]


def _is_own(case: CaseResult, runs: Runs) -> bool:
    """Return whether the agent has edited the file of a test."""
    return case.file in runs.touched if case.file else runs.has_inner_tests


def _broken(runs: Runs) -> Decision | None:
    """Return what follows when tests that nobody changed passed at the base and fail with the new code."""
    base = runs.base.report
    if base is None:
        return None
    broken = _lost(runs)
    sure = tuple(key for key in broken if not _is_disputed(base.tests[key], runs))
    if not sure:
        return None
    reason = f"Tests that passed before the task fail now: {list_ids(sure)}."
    return Decision(CheckState.FAILED, reason, "regress", failing=broken, broken=broken)


def _lost(runs: Runs) -> tuple[str, ...]:
    """Return the tests that passed at the base and do not with the new code."""
    base, now = runs.base.report, runs.regress.report
    if base is None:
        return ()
    passing = now.ids(PASSED) if now is not None else frozenset()
    edited = set(_silenced_by_edit(runs))
    return tuple(
        sorted(
            key
            for key in base.ids(PASSED) - passing
            if key not in edited and not _may_fail(base.tests[key], runs)
        )
    )


def _contested(runs: Runs) -> tuple[str, ...]:
    """Return the tests that pass, or run no more, only because something but the product was changed."""
    base, now = runs.base.report, runs.regress.report
    if base is None:
        return ()
    passing = now.ids(PASSED) if now is not None else frozenset()
    silenced = {key for key, case in base.tests.items() if key not in passing and _is_silenced(case, runs)}
    return tuple(sorted({*_lost(runs), *silenced, *_silenced_by_edit(runs), *_reworded(runs)}))


def _reworded(runs: Runs) -> set[str]:
    """Return tests of files that could not be loaded before, which pass only as the agent changed them."""
    base, then, now = runs.base.report, runs.regress.report, runs.new.report
    if base is None or then is None or now is None or then is now:
        return set()
    failed = {key for key in then.failed - now.failed if key not in base.tests}
    return {
        key
        for key in failed
        if base.unloaded(then.tests[key]) is not None and not _may_fail(then.tests[key], runs)
    }


def _is_silenced(case: CaseResult, runs: Runs) -> bool:
    """Return whether a test that failed on the base fails no more because not only code was changed."""
    if case.outcome is not FAILED or matches_any(case.id, runs.allowed):
        return False
    if case.whole_file and _loads(case, runs.regress.report):
        return False  # the task has built what its tests were waiting for
    return _is_disputed(case, runs) or _has_vanished(case, runs)


def _loads(case: CaseResult, report: Report | None) -> bool:
    """Return whether a file that could not be loaded can be."""
    if report is None or case.id in report.tests:
        return False
    return not case.file or any(one.file == case.file and not one.whole_file for one in report.tests.values())


def _has_vanished(case: CaseResult, runs: Runs) -> bool:
    """Return whether a test that failed does not run any more; cases may have got other names."""
    before, now = runs.base.report, runs.new.report
    if before is None or now is None or case.whole_file or case.id in now.tests:
        return False
    stem = case.id.partition("[")[0]
    counts = [sum(key.partition("[")[0] == stem for key in report.tests) for report in (before, now)]
    return counts[1] < counts[0] and now.unloaded(case) is None


def _is_disputed(case: CaseResult, runs: Runs) -> bool:
    """Return whether a test that fails with the base's tests does not with the new ones, or was removed."""
    new = runs.new.report
    if new is None:
        return False
    now = new.tests.get(case.id)
    if now is None and _is_inside(case, runs) and new.unloaded(case) is None:
        return True
    if new is runs.regress.report:
        return False
    if now is not None:
        return now.outcome is not FAILED
    if case.whole_file and any(other.file == case.file for other in new.tests.values()):
        return not any(other.file == case.file and other.outcome is FAILED for other in new.tests.values())
    removed = case.file in runs.touched or runs.control_touched
    return removed and new.unloaded(case) is None


def _by_tests(runs: Runs) -> Decision:
    report = runs.new.report
    if report is None:
        return Decision(CheckState.FAILED, f"No test reported its end. {_exit_words(runs.new)}")
    failing = _unexpected(report, runs)
    if failing:
        return Decision(CheckState.FAILED, f"{count_failing(failing)}: {list_ids(failing)}.", failing=failing)
    also: tuple[str, ...] = ()
    if runs.new.exit_code != 0 and not report.failed:
        reason = f"All tests passed, but the command failed. {_exit_words(runs.new)}"
        was_empty = runs.base.report is not None and not runs.base.tests
        if not runs.failed_before or was_empty or runs.new.exit_code is None:
            return Decision(CheckState.FAILED, reason)
        also = (f"`{runs.command}` failed before the run too, although its tests passed",)
    proved, idle = _shown(runs)
    return Decision(
        CheckState.PASSED,
        failing=tuple(sorted(report.failed)),
        proved=proved,
        idle=idle,
        noticed=_noticed(runs),
        weaknesses=(*_removed(runs), *report.weaknesses, *also),
        known=(*_known(report, runs), *((runs.command,) if also else ())),
        repaired=runs.repaired(),
    )


def _known(report: Report, runs: Runs) -> tuple[str, ...]:
    """Return what fails and did before the run."""
    return tuple(sorted(key for key in report.failed if runs.forgives(report.tests[key])))


def _removed(runs: Runs) -> tuple[str, ...]:
    """Name tests that run no more although nobody changed their file; those of changed files are settled."""
    before = runs.base.report
    missing = _missing(before, runs.new.report)
    gone = [key for key in missing if before is not None and not _is_own(before.tests[key], runs)]
    return (f"tests were removed or renamed: {list_ids(gone)}",) if gone else ()


def _test_first(runs: Runs) -> Decision:
    """Tests that were added must fail, for the right reason."""
    report = runs.new.report
    if report is None:
        return Decision(CheckState.FAILED, f"No test reported its end. {_exit_words(runs.new)}")
    added = sorted(
        key for key in report.tests if runs.base.report is None or key not in runs.base.report.tests
    )
    red = [key for key in added if report.tests[key].outcome is FAILED]
    other = tuple(key for key in _unexpected(report, runs) if key not in red)
    if other:
        return Decision(CheckState.FAILED, f"{count_failing(other)}: {list_ids(other)}.", failing=other)
    if not added:
        return Decision(CheckState.FAILED, "No test was added.")
    wrong = tuple(key for key in red if not _is_right(report.tests[key]))
    if wrong:
        why = "; ".join(sorted({(report.tests[key].reason or "other") for key in wrong}))
        reason = f"New tests must fail because something is missing, not for this ({why}): {list_ids(wrong)}."
        return Decision(CheckState.FAILED, reason, failing=wrong)
    if not red:
        reason = "The new tests pass already, so they do not test what is missing."
        return Decision(CheckState.FAILED, reason, idle=tuple(added))
    idle = tuple(key for key in added if report.tests[key].outcome is PASSED)
    return Decision(CheckState.PASSED, failing=tuple(red), proved=tuple(red), idle=idle)


def _is_right(case: CaseResult) -> bool:
    return case.reason is not None and case.reason.is_right


def _unexpected(report: Report, runs: Runs) -> tuple[str, ...]:
    """Return what fails and may not."""
    return tuple(sorted(key for key in report.failed if not _may_fail(report.tests[key], runs)))


def _may_fail(case: CaseResult, runs: Runs) -> bool:
    red = case.id in runs.expected_red or (bool(case.file) and case.file in runs.expected_red)
    return red or matches_any(case.id, runs.allowed) or runs.forgives(case)


def _shown(runs: Runs) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the tests that needed the change, and those that were added and did not."""
    report, before = runs.new.report, runs.old_code or runs.base
    if report is None or not runs.code_changed:
        return (), ()
    proved, idle = [], []
    known = before.report.tests if before.report is not None else {}
    fine = runs.base.report.ids(PASSED) if runs.base.report is not None else frozenset()
    for key in sorted(report.ids(PASSED)):
        if key in fine and key not in known:
            continue  # it passed before the task, and its file cannot be loaded with the old code
        needed = _needed(report.tests[key], before.report, runs.sabotage)
        if needed is None and runs.unbreakable:
            needed = _fails_in_test(before.report, key) or None
        if needed:
            proved.append(key)
        elif needed is False and (runs.base.report is None or key not in runs.base.report.tests):
            idle.append(key)
    return tuple(proved), tuple(idle)


def _fails_in_test(before: Report | None, key: str) -> bool:
    """Return whether a test was loaded and failed."""
    case = before.tests.get(key) if before is not None else None
    return case is not None and case.outcome is FAILED and not case.whole_file


def own_tests(proved: Iterable[str], runs: Runs) -> tuple[str, ...]:
    """Return those among the tests that show the change which the task has written or changed."""
    known = runs.base.report.tests if runs.base.report is not None else {}
    if runs.new.report is None:
        return tuple(proved) if runs.command_touched else ()
    now = runs.new.report.tests
    return tuple(key for key in proved if key in now and (key not in known or now[key].file in runs.touched))


def _needed(case: CaseResult, before: Report | None, sabotage: Observed | None) -> bool | None:
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
    now = sabotage.report.tests.get(case.id)
    return now is None or now.outcome is not PASSED


def _noticed(runs: Runs) -> bool | None:
    """Return whether the check fails when the changed code is sabotaged."""
    if runs.sabotage is None or runs.sabotage.exit_code is None:  # what takes too long was not noticed
        return None
    now, broken = runs.new.report, runs.sabotage.report
    if now is None or broken is None:
        return runs.sabotage.exit_code != 0
    return bool(now.ids(PASSED) - broken.ids(PASSED))


def count_failing(ids: Collection[str]) -> str:
    """Return how many tests fail, in words."""
    return "1 test fails" if len(ids) == 1 else f"{len(ids)} tests fail"


def list_ids(ids: Iterable[str]) -> str:
    """Return the first ids, and how many more there are."""
    return list_some(list(ids), _SHOWN)
