"""Flows are lists of phases: which lists make sense, and where an added phase goes."""

from __future__ import annotations

import pytest

from segue.domain.errors import UsageError
from segue.flow.phase import PHASES, make_flow


@pytest.mark.parametrize(
    ("phases", "said"),
    [
        (["execute", "verfy"], "unknown phase 'verfy'"),
        (["execute", "resolve"], "unknown phase 'resolve'"),
        (["execute", "check", "check"], "names a phase twice"),
        (["plan"], "has no phase `execute`"),
        (["execute", "plan"], "'plan' must come before 'execute'"),
        (["check", "execute"], "'check' must come after 'execute'"),
        (["execute", "replan"], "'replan' must come after 'verify'"),
    ],
)
def test_other_lists_are_refused_with_the_reason(phases: list[str], said: str) -> None:
    with pytest.raises(UsageError, match="The flow 'mine'") as caught:
        make_flow("mine", phases, PHASES)
    assert said in caught.value.message
