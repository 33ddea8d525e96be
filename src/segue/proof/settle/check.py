"""Collect what one check knows of changed tests, and settle it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from segue.domain.proof import ChangedTest, CheckResult, CheckState, Contested, HowSettled
from segue.proof.compose import Comparison
from segue.proof.decide import Decision
from segue.proof.paths import PathKind
from segue.proof.report import CaseResult, Reason, Report, TestOutcome
from segue.proof.runs import Runs
from segue.proof.settle.changes import settle, settle_inputs
from segue.proof.settle.task import OldTest, TaskChange

CONTESTED_BYTES = 20 * 1024
_LARGEST = 200_000
_MOST_FILES = 400
Settled = tuple[tuple[ChangedTest, ...], tuple[Contested, ...]]
"""What became of old tests, and both versions of what nothing has settled."""


async def settle_check(
    result: CheckResult, comparison: Comparison, decision: Decision, runs: Runs, words: str
) -> CheckResult:
    """Return a result with what became of the old tests that the task changed, moved or removed."""
    tests = comparison.changed_tests()
    is_old = any(path in comparison.base for path in tests)
    if decision.state is not CheckState.PASSED or not (decision.contested or is_old or runs.has_inner_tests):
        return result
    code = comparison.changed(PathKind.CODE)
    inner = [path for path in code if path.endswith(".rs")]
    # What tests take from a conftest.py is part of what they assert.
    shared = [path for path in result.changed if decision.contested or path.endswith(".py")]
    support = (*tests, *inner, *shared)
    now = runs.new.report
    change = TaskChange(
        words,
        await _texts(comparison, "base", support),
        await _texts(comparison, "head", support),
        await _texts(comparison, "base", code),
        await _texts(comparison, "head", code),
        None if now is None else now.ids(TestOutcome.PASSED) | now.failed,
    )
    old = _old_tests(decision, runs, {*tests, *inner})
    found = await asyncio.to_thread(settle, change, old)
    # A test that passes only as it was changed unasked proves nothing.
    settled = {_stem(one.test) for one in found if one.how is not HowSettled.UNSETTLED}
    open_ones = {key for key in decision.contested if _stem(key) not in settled}
    places = {one.path for one in found if one.how is HowSettled.UNSETTLED}
    return replace(
        result,
        noticed=result.noticed and _is_noticed(runs, open_ones, places),
        proved=tuple(key for key in result.proved if key not in open_ones),
        changed_tests=found,
        contested=contest(found, change.before, change.after),
    )


def _is_noticed(runs: Runs, open_ones: Collection[str], places: Collection[str]) -> bool:
    """Return whether sabotage is noticed by more than tests that need other support than they had."""
    now, broken = runs.new.report, runs.sabotage.report if runs.sabotage is not None else None
    if now is None or broken is None:
        return True
    weak = {key for key in open_ones if key in now.tests and now.tests[key].file not in places}
    passed = now.ids(TestOutcome.PASSED)
    return not passed or not passed - broken.ids(TestOutcome.PASSED) <= weak


def _stem(test: str) -> str:
    return test.partition("[")[0]


def contest(
    found: Sequence[ChangedTest], before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[Contested, ...]:
    """Return both versions of what nothing has settled, for a judge."""
    owners: dict[str, list[str]] = {}
    for one in found:
        if one.how is HowSettled.UNSETTLED:
            owners.setdefault(one.path, []).append(one.test)
    return tuple(
        Contested(
            path,
            before.get(path, "")[:CONTESTED_BYTES],
            after.get(path, "")[:CONTESTED_BYTES],
            tuple(filter(None, tests)),
        )
        for path, tests in owners.items()
    )


def settle_environment(files: Mapping[str, tuple[str, str]], words: str) -> Settled:
    """Settle changes of what an environment is built from, by both versions of each file."""
    before = {path: texts[0] for path, texts in files.items()}
    after = {path: texts[1] for path, texts in files.items()}
    found = settle_inputs(TaskChange(words, before, after))
    return found, contest(found, before, after)


async def _texts(comparison: Comparison, side: str, paths: Sequence[str]) -> dict[str, str]:
    tree = comparison.base if side == "base" else comparison.head
    known = [path for path in dict.fromkeys(paths) if path in tree and not tree[path].is_module][:_MOST_FILES]
    texts = {path: await comparison.text(side, path) for path in known}
    return {path: text for path, text in texts.items() if len(text) <= _LARGEST}


def _fails_by(report: Report | None, key: str, *reasons: Reason) -> bool:
    case = report.tests.get(key) if report is not None else None
    return case is not None and case.reason in reasons


def _old_tests(decision: Decision, runs: Runs, touched: Collection[str]) -> list[OldTest]:
    """Return the tests of the base that were changed, or that pass only because something else was."""
    base, then, now = runs.base.report, runs.regress.report, runs.new.report
    known: dict[str, CaseResult] = {**(then.tests if then else {}), **(base.tests if base else {})}
    if "" in decision.contested:
        return [OldTest("", "")]
    found = []
    for key, case in known.items():
        decides = key in decision.contested
        is_inner = not case.file and runs.has_inner_tests
        if not decides and not (case.file in touched or is_inner):
            continue
        if not decides and (base is None or key not in base.tests or case.outcome is TestOutcome.SKIPPED):
            continue
        after = now.tests.get(key) if now is not None else None
        found.append(
            OldTest(
                key,
                case.file,
                was_red=case.outcome is TestOutcome.FAILED,
                is_known=key in runs.known.tests,
                decides=decides,
                is_silent=after is not None and after.outcome is TestOutcome.SKIPPED,
                ran=then is not None and key in then.tests,
                whole=case.whole_file,
                contradicts=decides and _fails_by(then, key, Reason.ASSERTION),
                breaks=decides and _fails_by(then, key, Reason.ASSERTION, Reason.RAISED, Reason.OTHER),
            )
        )
    return found
