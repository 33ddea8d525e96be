"""Which tasks wait for which: cycles, and what blocks a task."""

from __future__ import annotations

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
