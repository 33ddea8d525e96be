"""The decision, for any runs: no way to pass with a test that the base had and that fails now."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from segue.domain.proof import CheckState
from segue.domain.task import TaskKind
from segue.proof.decide import decide
from segue.proof.report import Canary, CaseResult, Reason, Report, TestOutcome
from segue.proof.runs import Observed, Runs

PASSED, FAILED, SKIPPED = TestOutcome.PASSED, TestOutcome.FAILED, TestOutcome.SKIPPED
FILES = ("a.py", "b.py")
IDS = [f"{file}::{name}" for file in FILES for name in ("one", "two")]


def case(key: str, outcome: TestOutcome, reason: Reason = Reason.ASSERTION) -> CaseResult:
    return CaseResult(key, outcome, key.partition("::")[0], reason if outcome is FAILED else None)


def observed(outcomes: dict[str, TestOutcome], canary: Canary = Canary.FAILED) -> Observed:
    tests = {key: case(key, outcome) for key, outcome in outcomes.items()}
    failed = FAILED in outcomes.values()
    return Observed(1 if failed else 0 if tests else 5, Report(tests, 1, canary, ("pytest",)))


outcomes = st.dictionaries(st.sampled_from(IDS), st.sampled_from(TestOutcome))
canaries = st.sampled_from(Canary)
observations = st.one_of(
    st.builds(observed, outcomes, canaries),
    st.builds(Observed, st.sampled_from([0, 1, 5, None])),
)
histories = st.builds(
    Runs,
    base=observations,
    regress=observations,
    new=observations,
    old_code=st.none() | observations,
    sabotage=st.none() | observations,
    kind=st.sampled_from(TaskKind),
    touched=st.sets(st.sampled_from(FILES)),
    control_touched=st.booleans(),
    command_is_new=st.booleans(),
    code_changed=st.booleans(),
    allowed=st.just(()),
    expected_red=st.sets(st.sampled_from(IDS), max_size=1),
)


@given(histories)
def test_what_passed_on_the_base_passes_now_or_is_contested_or_the_check_fails(runs: Runs) -> None:
    decision = decide(runs)
    if decision.state is not CheckState.PASSED or runs.base.report is None:
        return
    now = runs.regress.report.ids(PASSED) if runs.regress.report else frozenset()
    assert runs.base.report.ids(PASSED) - set(runs.expected_red) - set(decision.contested) <= now


@given(histories)
def test_only_what_may_fail_fails_when_the_check_passes(runs: Runs) -> None:
    decision = decide(runs)
    if decision.state is CheckState.PASSED and runs.new.report is not None:
        fails = set(runs.new.report.failed) - set(runs.expected_red)
        assert fails <= (set(decision.proved) if runs.kind is TaskKind.TEST_FIRST else set())


@given(histories)
def test_a_runner_that_cannot_say_no_never_passes_a_check(runs: Runs) -> None:
    silent = Report({IDS[0]: case(IDS[0], PASSED)}, 1, Canary.SILENT, ("pytest",))
    assert decide(replace(runs, new=Observed(0, silent))).state is not CheckState.PASSED


@given(histories)
def test_what_is_proved_failed_without_the_change(runs: Runs) -> None:
    decision = decide(runs)
    if decision.state is not CheckState.PASSED or runs.kind is TaskKind.TEST_FIRST or runs.new.report is None:
        return
    before = (runs.old_code or runs.base).report
    for key in decision.proved:
        assert runs.new.report.tests[key].outcome is PASSED
        assert before is None or key not in before.tests or before.tests[key].outcome is FAILED
    assert not set(decision.proved) & set(decision.idle)


@given(histories)
def test_every_refusal_has_a_reason(runs: Runs) -> None:
    decision = decide(runs)
    assert decision.reason or decision.state is CheckState.PASSED


@given(outcomes)
def test_an_unchanged_tree_passes_if_nothing_fails(found: dict[str, TestOutcome]) -> None:
    run = observed({key: outcome for key, outcome in found.items() if outcome is not FAILED})
    state = decide(Runs(run, run, run, code_changed=False)).state
    assert state is (CheckState.PASSED if run.tests else CheckState.NOTHING)


def test_a_report_that_lacks_a_runner_is_refuted() -> None:
    base = observed({IDS[0]: PASSED})
    assert base.report is not None
    two = Observed(0, Report(base.report.tests, 2, Canary.FAILED, ("pytest",)))
    decision = decide(Runs(two, base, base))
    assert decision.state is CheckState.REFUTED
    assert "1 of 2" in decision.reason


def test_a_file_that_could_not_be_loaded_before_proves_only_what_sabotage_breaks() -> None:
    unloaded = CaseResult("a.py", FAILED, "a.py", Reason.MISSING, whole_file=True)
    old = Observed(1, Report({"a.py": unloaded}, 1, Canary.ABSENT, ("pytest",)))
    new = observed({"a.py::one": PASSED, "a.py::two": PASSED})
    base = observed({"b.py::one": PASSED})
    both = observed({"a.py::one": PASSED, "a.py::two": PASSED, "b.py::one": PASSED})
    sabotage = observed({"a.py::one": FAILED, "a.py::two": PASSED, "b.py::one": PASSED})
    decision = decide(Runs(base, both, both, old_code=old, sabotage=sabotage))
    assert decision.proved == ("a.py::one",)
    assert "a.py::two" in decision.idle
    assert new.tests == 2


def test_a_test_that_ends_otherwise_without_the_change_needs_it_if_sabotage_breaks_it() -> None:
    key = "a.py::one"
    crashed = Observed(1, Report({key: case(key, FAILED, Reason.OTHER)}, 1, Canary.FAILED, ("pytest",)))
    new, base = observed({key: PASSED}), observed({})
    broken, fine = observed({key: FAILED}), observed({key: PASSED})
    proved = [
        decide(Runs(base, new, new, old_code=crashed, sabotage=sabotage)).proved
        for sabotage in (broken, fine, None)
    ]
    assert proved == [(key,), (), ()]
    assert decide(Runs(base, new, new, old_code=crashed, unbreakable=True)).proved == (key,)
