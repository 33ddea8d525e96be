"""Which findings are set aside by the user's rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.options import OptionError, read_options
from segue.domain.verdict import DismissReason, Finding, Severity
from segue.reviewers.triage import DismissRule, at_least, subject_of, triage


def found(file: str = "src/a.py", rule: str = "security", message: str = "No eval") -> Finding:
    return Finding("id", file, 1, Severity.ERROR, rule, message)


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("src/*: security: *", True),
        ("src/*", True),
        ("*eval", True),
        ("eval", False),
        ("a.py*", False),
        ("*: style: *", False),
        ("re:eval$", True),
        ("re:(?i)NO EVAL", True),
        ("re:^security", False),
        ("re:^src/.*: security: ", True),
        ("[", False),
    ],
)
def test_patterns(pattern: str, fits: bool) -> None:
    assert bool(triage([found()], [DismissRule(pattern=pattern)]).dismissed) is fits


def test_a_message_of_several_lines_is_tried_as_one() -> None:
    rule = DismissRule(pattern="*: *: first second")
    assert triage([found(message="first\n  second")], [rule]).dismissed


def test_the_first_rule_that_fits_decides() -> None:
    rules = [
        DismissRule(pattern="docs/*", reason=DismissReason.OUT_OF_SCOPE),
        DismissRule(pattern="src/*", reason=DismissReason.WRONG_SUGGESTION),
        DismissRule(pattern="*"),
    ]
    sorted_ = triage([found(), found("docs/x.md"), found("z.py")], rules)
    assert sorted_.kept == ()
    assert [reason.value for _, reason in sorted_.dismissed] == [
        "wrong_suggestion",
        "out_of_scope",
        "false_positive",
    ]


@pytest.mark.parametrize(
    "rule",
    [
        {"pattern": "re:("},
        {"pattern": ""},
        {"pattern": "x", "reason": "boring"},
        {"pattern": "x", "why": "y"},
    ],
)
def test_a_rule_that_makes_no_sense_is_an_error_of_the_configuration(rule: dict[str, str]) -> None:
    with pytest.raises(OptionError):
        read_options(DismissRule, rule)


texts = st.text(max_size=12)


@given(
    st.lists(st.builds(found, texts, texts, texts)),
    st.lists(texts.filter(bool).filter(lambda t: t[:3] != "re:")),
)
def test_nothing_is_lost_and_every_pattern_can_be_tried(findings: list[Finding], patterns: list[str]) -> None:
    done = triage(findings, [DismissRule(pattern=pattern) for pattern in patterns])
    assert sorted(map(subject_of, [*done.kept, *(entry for entry, _ in done.dismissed)])) == sorted(
        map(subject_of, findings)
    )


def test_severity() -> None:
    every = [Finding(str(grade), "", None, grade, "", "m") for grade in Severity]
    assert [finding.severity for finding in at_least(every, Severity.WARNING)] == ["error", "warning"]
    assert len(at_least(every, Severity.NITPICK)) == 4
