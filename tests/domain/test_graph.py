"""Which tasks wait for which: cycles, and what blocks a task."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from segue.domain.graph import Blocked, Dependency, WaitKind, find_block, find_cycles

STATED, PHASE, ORDER = WaitKind.STATED, WaitKind.PHASE, WaitKind.ORDER


def waits(**others: str) -> dict[str, tuple[Dependency, ...]]:
    return {key: (Dependency(tuple(keys), STATED, "it says so"),) for key, keys in others.items()}


def test_cycles_are_named_once_from_their_first_task() -> None:
    assert find_cycles(waits(a="b", b="c", c="a", d="a")) == [("a", "b", "c")]
    assert find_cycles(waits(a="", b="a", c="ab")) == []
    assert find_cycles(waits(a="b", b="a", c="d", d="c")) == [("a", "b"), ("c", "d")]


def test_mere_order_is_no_cycle() -> None:
    order = Dependency(("b",), ORDER, "it comes after b")
    assert find_cycles({"a": (order,), "b": (Dependency(("a",), STATED, ""),)}) == []


def test_what_blocks_a_task() -> None:
    phase = Dependency(("1", "2"), PHASE, "phase 2 waits for phase 1")
    stated = Dependency(("3",), STATED, "it says so")
    order = Dependency(("4",), ORDER, "it comes after 4")
    everything = (stated, phase, order)
    assert find_block(everything, {"4"}, ()) is None
    assert find_block(everything, {"2"}, ()) == Blocked(("2",), "phase 2 waits for phase 1")
    assert find_block(everything, (), {"1"}) is None, "a person is asked: the phase goes on"
    assert find_block(everything, (), {"3"}) == Blocked(("3",), "it says so")


KEYS = st.lists(st.sampled_from("abcdef"), max_size=3, unique=True).map("".join)


@given(st.dictionaries(st.sampled_from("abcdef"), KEYS))
def test_every_cycle_is_one(graph: dict[str, str]) -> None:
    for cycle in find_cycles(waits(**graph)):
        assert all(after in graph[key] for key, after in zip(cycle, (*cycle[1:], cycle[0]), strict=True))


@given(
    st.lists(st.sampled_from("abcdef"), max_size=6, unique=True).flatmap(
        lambda keys: st.tuples(st.just(keys), st.lists(KEYS, min_size=len(keys), max_size=len(keys)))
    )
)
def test_tasks_that_wait_only_for_earlier_ones_have_no_cycle(drawn: tuple[list[str], list[str]]) -> None:
    keys, others = drawn
    earlier = {
        key: "".join(set(keys[:place]) & set(text))
        for place, (key, text) in enumerate(zip(keys, others, strict=True))
    }
    assert find_cycles(waits(**earlier)) == []
