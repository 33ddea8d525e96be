"""Flows are lists of phases: which lists make sense, and where an added phase goes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.errors import UsageError
from segue.flow.phase import PHASES, PRESETS, make_flow, with_phase

LISTED = [phase.name for phase in PHASES.values() if phase.in_flows]


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_a_flow(name: str) -> None:
    assert make_flow(name, PRESETS[name], PHASES).names == PRESETS[name]


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


@given(st.permutations(LISTED).flatmap(lambda names: st.integers(1, len(names)).map(lambda n: names[:n])))
def test_a_flow_that_is_accepted_can_be_extended_by_check_and_review(names: list[str]) -> None:
    try:
        flow = make_flow("mine", names, PHASES)
    except UsageError:
        return
    for phase in (PHASES["check"], PHASES["review"], PHASES["verify"]):
        flow = with_phase(flow, phase)
        assert make_flow("mine", flow.names, PHASES) == flow
