"""What a proof says, in words: its marks, what is shown and what is not. The only place that words them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from segue.domain.amounts import format_count, list_some
from segue.domain.proof import ChangedTest, CheckResult, CheckState, HowSettled, Level, Proof, Seal

_LISTED = 3
_PLACE = re.compile(r"\S+?:\d+(?=[:\s]|$)")
_SEALS = (Seal.NONE, Seal.WEAK, Seal.SEALED)
"""The weakest first."""

_WHY = {
    HowSettled.UNSETTLED: "",
    HowSettled.JUDGED: ", as a judge found the task to ask",
    HowSettled.ASKED: ", as the task asks",
}
"""What is said of changed tests; those that assert the same as before need not be looked at."""

MEANINGS: dict[Level, str] = {
    Level.CHANGED: "There is a change; nothing more is known.",
    Level.CHECKED: "Nothing that worked is broken, and the checks fail when the changed code is sabotaged.",
    Level.TESTED: "A test fails without the change, passes with it, and notices wrong results.",
    Level.INDEPENDENT: "It also passes tests that the agent never saw.",
}
"""What each level means, in one sentence."""

UNVERIFIED = "changed, not verified"
OWN, BEFORE, HELD, JUDGED = "by its own tests", "by tests that were there before", "held", "judged"
TESTS_CHANGED, FLAKY = "tests changed", "flaky"
MARKS: dict[str, str] = {
    OWN: "The task itself has written the tests that prove it.",
    BEFORE: "Tests or scenarios prove it that the task has not written.",
    HELD: "The proofs of earlier tasks were tried again, and all of them still pass.",
    JUDGED: "A judge found every criterion met and quoted the evidence.",
    "accepted by NAME": "A person decided that it is done; the level is what was measured.",
    TESTS_CHANGED: "Tests that were there before were changed: the card names the lines to look at.",
    FLAKY: "Some tests gave different results when they were repeated: they prove and refute nothing.",
    "sealed": "Nothing that the checks rely on was in the agent's reach; else `weakly sealed`, `not sealed`.",
}
"""What may stand beside a level, and what it means."""


class ProofMark(Struct, frozen=True):
    """What is known beside the level, in a word or two."""

    name: str
    is_doubt: bool = False
    """Whether a person should know it wherever the level is shown."""


class ProofStatement(Struct, frozen=True):
    """What a proof shows, and what it does not."""

    summary: str
    """In one sentence."""
    shown: tuple[str, ...]
    not_shown: tuple[str, ...]
    look_at: tuple[str, ...]
    """Places that a person should look at, as `path:line`."""


def describe_proof(proof: Proof) -> str:
    """Return what people read about a task that is done: PASS only from `checked` on, and by evidence."""
    level = proof.level
    inside = ", ".join((level.value, *(one.name for one in list_marks(proof) if one.is_doubt)))
    if proof.is_accepted:
        return _accepted(proof) + (f" ({inside})" if level.proven else "")
    if level.proven:
        return f"PASS ({inside})"
    if proof.judged:
        return "changed, judged"
    return "changed, nothing to test" if proof.untestable else UNVERIFIED


def name_level(proof: Proof) -> str:
    """Return the level in a word, as programs read it; an old record that a person accepted names them."""
    return _accepted(proof) if proof.level.value == "accepted" else proof.level.value


def list_marks(proof: Proof) -> list[ProofMark]:
    """Return what is known beside the level."""
    return [one for one in _find_marks(proof) if one.name != proof.level.value]


def _find_marks(proof: Proof) -> Iterator[ProofMark]:
    checks = _own_checks(proof)
    own, before = _proving(proof)
    if proof.level.rank >= Level.TESTED.rank:
        if own:
            yield ProofMark(OWN)
        if before:
            yield ProofMark(BEFORE)
    if proof.held is not None and proof.held[0] == proof.held[1]:
        yield ProofMark(HELD)
    if proof.judged:
        yield ProofMark(JUDGED)
    if proof.is_accepted:
        yield ProofMark(_accepted(proof))
    if any(one.how in _WHY for one in _changed_tests(checks)):
        yield ProofMark(TESTS_CHANGED, is_doubt=True)
    if any(check.flaky for check in checks):
        yield ProofMark(FLAKY, is_doubt=True)
    if checks:
        yield ProofMark(min((check.seal for check in checks), key=_SEALS.index).value)


def state_proof(proof: Proof) -> ProofStatement:
    """Say what a proof shows and what it does not."""
    shown, checks = tuple(_show(proof)), _own_checks(proof)
    missing = list(proof.reasons)
    if proof.level is Level.TESTED:
        missing.append("no tests by somebody who never saw the change")
    look_at = _collect(map(_places, checks))
    summary = "; ".join([*shown, *_lacks(proof), *_name_changed(_changed_tests(checks))])
    summary += f": look at {list_some(look_at, _LISTED)}" if look_at else ""
    return ProofStatement(f"{summary[:1].upper()}{summary[1:]}.", shown, tuple(missing), look_at)


def _show(proof: Proof) -> Iterator[str]:
    """Yield what is shown, the most important first."""
    checks = _own_checks(proof)
    if proof.is_accepted:
        yield _accepted(proof)
    if proof.level.rank >= Level.TESTED.rank:
        yield f"tested by {_name_proving(proof)}".removesuffix(" by ")
    elif proof.level is Level.CHECKED:
        proving = _name_proving(proof)
        verb = "fails" if sum(map(len, _proving(proof))) == 1 else "fail"
        by_tests = f"{proving} {verb} without the change" if proving else ""
        yield f"checked; {by_tests}" if by_tests else "checked by sabotage of the changed code"
    else:
        passed = any(check.ok and check.state is not CheckState.NOTHING for check in checks)
        yield "changed; the checks pass" if passed else "changed"
    if proof.level is Level.INDEPENDENT and proof.independent is not None:
        yield f"passes {format_count(len(proof.independent.proved), 'test')} that the agent never saw"
    if proof.level.proven:
        unsettled = any(check.unsettled for check in checks)
        yield "nothing else that worked is broken" if unsettled else "nothing that worked is broken"
    if proof.held is not None and proof.held[0] == proof.held[1]:
        count = proof.held[0]
        yield f"{format_count(count, 'earlier proof')} still {'holds' if count == 1 else 'hold'}"
    if proof.judged:
        yield "a judge found every criterion met"


def _lacks(proof: Proof) -> Iterator[str]:
    """Yield what the first line must say although it is not shown."""
    if proof.untestable:
        yield f"{proof.untestable}, so there is nothing that a test could tell"
    elif proof.level.rank < Level.TESTED.rank and proof.reasons:
        yield f"not shown: {proof.reasons[0]}"
    if proof.held is not None and proof.held[1] < proof.held[0]:
        gone = proof.held[0] - proof.held[1]
        yield f"{format_count(gone, 'earlier proof')} no longer {'holds' if gone == 1 else 'hold'}"
    if flaky := _collect(check.flaky for check in _own_checks(proof)):
        yield f"{format_count(len(flaky), 'flaky test')} {'shows' if len(flaky) == 1 else 'show'} nothing"


def _name_changed(tests: Sequence[ChangedTest]) -> Iterator[str]:
    """Yield how many old tests were changed; not those that assert the same as before."""
    for how, why in _WHY.items():
        if count := sum(one.how is how for one in tests):
            yield f"{format_count(count, 'old test')} {'was' if count == 1 else 'were'} changed{why}"


def _name_proving(proof: Proof) -> str:
    """Name who proves the task: its own 2 tests and 1 test that was there before."""
    own, before = _proving(proof)
    said = [f"its own {format_count(len(own), 'test')}"] if own else []
    commands = {check.command for check in _own_checks(proof)}
    if tests := [test for test in before if test not in commands]:
        verb = "was" if len(tests) == 1 else "were"
        said.append(f"{format_count(len(tests), 'test')} that {verb} there before")
    said += [f"`{test}`" for test in before if test in commands]
    return " and ".join(said)


def _proving(proof: Proof) -> tuple[list[str], list[str]]:
    """Return the tests that prove the task: its own, and those that were there before."""
    unseen = set(proof.independent.proved) if proof.independent is not None else set()
    checks = _own_checks(proof)
    proving = [test for test in _collect(check.proving for check in checks) if test not in unseen]
    own = {test for check in checks for test in check.own}
    return [test for test in proving if test in own], [test for test in proving if test not in own]


def _accepted(proof: Proof) -> str:
    if proof.level.value == "accepted" and not proof.by:
        return proof.level.value
    return f"accepted by {proof.by}"


def _own_checks(proof: Proof) -> list[CheckResult]:
    return [check for check in proof.checks if not check.of]


def _changed_tests(checks: Sequence[CheckResult]) -> list[ChangedTest]:
    return list(dict.fromkeys(one for check in checks for one in check.changed_tests))


def _places(check: CheckResult) -> Iterator[str]:
    yield from (_place(one) for one in check.changed_tests if one.how in _WHY)
    yield from check.both_sides
    for one in check.survivors:
        if found := _PLACE.match(one):
            yield found[0]


def _place(one: ChangedTest) -> str:
    return f"{one.path}:{one.line}" if one.line else one.path


def _collect(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Return what several checks name, each once."""
    return tuple(dict.fromkeys(one for group in groups for one in group))
