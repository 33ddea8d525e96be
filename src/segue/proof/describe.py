"""Put what the runs of a check show into the words of its result."""

from __future__ import annotations

from collections.abc import Sequence

from segue.domain.proof import CheckResult, CheckState
from segue.domain.text import cut_tail
from segue.proof.decide import Decision, list_ids, own_tests
from segue.proof.report import Reason, TestOutcome
from segue.proof.runs import Observed, Runs

_MESSAGE = 1500
_MOST_TESTS = 10
_TAIL = 4000


def describe(
    command: str,
    decision: Decision,
    runs: Runs,
    changed: Sequence[str],
    watched: frozenset[str] = frozenset(),
) -> CheckResult:
    """Return the result of a check; `watched` are tests that proved earlier tasks."""
    run = runs.regress if decision.decisive == "regress" else runs.new
    run = runs.ordinary or run
    report = runs.new.report
    return CheckResult(
        command,
        run.exit_code,
        _output(decision, run, runs),
        decision.state,
        _reason(decision, changed),
        ", ".join(report.runners) if report else "",
        len(report.ids(TestOutcome.PASSED)) if report else 0,
        decision.failing,
        decision.broken,
        tuple(key or command for key in decision.proved),
        decision.idle,
        noticed=decision.noticed,
        weaknesses=decision.weaknesses,
        changed=tuple(changed),
        known=decision.known,
        repaired=decision.repaired,
        own=own_tests(decision.proved, runs),
        lost=tuple(sorted(watched - report.ids(TestOutcome.PASSED))) if report else (),
    )


def _reason(decision: Decision, changed: Sequence[str]) -> str:
    if decision.state in (CheckState.PASSED, CheckState.NOTHING) or not changed:
        return decision.reason
    return f"{decision.reason} The check used the base's version of: {', '.join(changed[:10])}."


def _output(decision: Decision, run: Observed, runs: Runs) -> str:
    """Return the messages of failed tests, and the end of the output unless it also names known failures."""
    parts = []
    report = run.report
    if decision.state is not CheckState.PASSED and report is not None:
        shown = [key for key in (decision.failing or decision.broken) if key in report.tests]
        for key in shown[:_MOST_TESTS]:
            message = report.tests[key].message.strip()
            parts.append(f"{key}\n{cut_tail(message, _MESSAGE)}" if message else key)
    if not parts:
        parts.append(cut_tail(run.output.strip(), _TAIL))
    elif report is not None and not any(runs.forgives(report.tests[key]) for key in report.failed):
        parts.append("\n".join(run.output.strip().splitlines()[-10:]))
    return "\n\n".join(part for part in parts if part)


def equal_to_all(runs: Runs) -> str:
    """Return which values of the new code are equal to everything, so that comparing them shows nothing."""
    before, now = [run.report.equal if run.report else () for run in (runs.base, runs.new)]
    added = [name for name in now if name not in before]
    return f"values that are equal to everything: {list_ids(added)}" if added else ""


def only_silenced(result: CheckResult, runs: Runs) -> str:
    """Return which tests were red and pass only because something but the product was changed, if all that
    the task shows are those."""
    base, then = runs.base.report, runs.regress.report
    if base is None or then is None or result.proved:
        return ""
    red = base.failed - then.ids(TestOutcome.PASSED)
    found = [one.test for one in result.unsettled if one.test in red]
    return f"what failed passes only because its tests were changed: {list_ids(found)}" if found else ""


def is_wrong(test: str, runs: Runs) -> bool:
    """Return whether a test fails now, and not because a name is missing."""
    found = [
        run.report.tests[test] for run in (runs.regress, runs.new) if run.report and test in run.report.tests
    ]
    return any(case.reason not in (None, Reason.MISSING) for case in found)
