"""Events are read in two ways, the quick one and the patient one, and are the same."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from segue.domain.events import EVENTS, StepEnded, parse_event, read_event

_PLAIN = st.none() | st.booleans() | st.integers(-5, 2**70) | st.floats(-1e6, 1e6) | st.text(max_size=5)
_VALUES = st.recursive(
    _PLAIN,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
)


@st.composite
def stored(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A name, and values for some fields of the event, right ones and wrong ones."""
    name = draw(st.sampled_from([*EVENTS, "unheard.of"]))
    fields = EVENTS[name].__struct_fields__ if name in EVENTS else ()
    keys = st.sampled_from([*fields, "more"])
    return name, draw(st.dictionaries(keys, _VALUES, max_size=5))


@given(stored())
def test_both_ways_of_reading_agree(event: tuple[str, dict[str, Any]]) -> None:
    name, data = event
    patient = read_event(name, data)
    assert parse_event(name, json.dumps(data, ensure_ascii=False)) in (None, patient)


def test_what_is_usual_is_read_the_quick_way() -> None:
    assert parse_event("step.ended", '{"gen":1,"ok":true,"ms":3,"new":{}}') == StepEnded(1, True, 3)
    assert parse_event("step.ended", '{"gen":"one"}') is None
