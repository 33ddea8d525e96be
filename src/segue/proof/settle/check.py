"""Collect what one check knows of changed tests, and settle it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from segue.domain.proof import ChangedTest, CheckState, Contested, HowSettled
from segue.proof.compose import Comparison
from segue.proof.decide import Decision
from segue.proof.paths import PathKind
from segue.proof.report import CaseResult, TestOutcome
from segue.proof.runs import Runs
from segue.proof.settle.changes import Change, OldTest, settle, settle_inputs

CONTESTED_BYTES = 20 * 1024
_LARGEST = 200_000
_MOST_FILES = 400
Settled = tuple[tuple[ChangedTest, ...], tuple[Contested, ...]]
"""What became of old tests, and both versions of what nothing has settled."""


async def settle_check(
    comparison: Comparison, decision: Decision, runs: Runs, control: Sequence[str], words: str
) -> Settled:
    """Return what became of the old tests that a task changed, moved or removed."""
    tests = comparison.changed_tests()
    is_old = any(path in comparison.base for path in tests)
    if decision.state is not CheckState.PASSED or not (decision.contested or is_old or runs.has_inner_tests):
        return (), ()
    code = comparison.changed(PathKind.CODE)
    inner = [path for path in code if path.endswith(".rs")]
    support = (*tests, *inner, *(control if decision.contested else ()))
    change = Change(
        words,
        await _texts(comparison, "base", support),
        await _texts(comparison, "head", support),
        await _texts(comparison, "base", code),
        await _texts(comparison, "head", code),
    )
    old = _old_tests(decision, runs, {*tests, *inner})
    found = await asyncio.to_thread(settle, change, old)
    return found, contest(found, change.before, change.after)


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
    found = settle_inputs(Change(words, before, after))
    return found, contest(found, before, after)


async def _texts(comparison: Comparison, side: str, paths: Sequence[str]) -> dict[str, str]:
    tree = comparison.base if side == "base" else comparison.head
    known = [path for path in dict.fromkeys(paths) if path in tree and not tree[path].is_module][:_MOST_FILES]
    texts = {path: await comparison.text(side, path) for path in known}
    return {path: text for path, text in texts.items() if len(text) <= _LARGEST}


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
                decides=decides,
                is_silent=after is not None and after.outcome is TestOutcome.SKIPPED,
                ran=then is not None and key in then.tests,
                whole=case.whole_file,
            )
        )
    return found
