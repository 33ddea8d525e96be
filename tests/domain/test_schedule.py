"""Which tasks may begin: compared with a plain reading of the rules, on random graphs in random orders."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from segue.domain.graph import Blocked, Dependency, WaitKind, Waits, find_block
from segue.domain.schedule import End, Schedule

STATED, PHASE, ORDER, PATHS = WaitKind.STATED, WaitKind.PHASE, WaitKind.ORDER, WaitKind.PATHS


def after(*keys: str, kind: WaitKind = STATED, why: str = "it says so") -> Dependency:
    return Dependency(keys, kind, why)


class Plain:
    """The rules as they are said, worked out anew for every question."""

    def __init__(self, keys: Sequence[str], waits: Waits, done: set[str]) -> None:
        self.keys, self.waits, self.done = keys, waits, done
        self.ended: dict[str, End] = {}
        self.at_work: set[str] = set()

    def blocked(self) -> tuple[set[str], set[str]]:
        """Return the tasks that failures block, and those that only questions to a person do."""
        failed = {key for key, how in self.ended.items() if how == "failed"}
        asked = {key for key, how in self.ended.items() if how == "asked"}
        while True:
            new = [
                (key, dependency.kind, other)
                for key in self.keys
                for dependency in self.waits.get(key, ())
                for other in dependency.keys
                if key not in self.ended and key not in self.at_work and key not in self.done
            ]
            hard = failed | {key for key, kind, other in new if kind.blocks and other in failed}
            soft = asked | {key for key, kind, other in new if kind is STATED and other in asked}
            if (hard, soft) == (failed, asked):
                return hard - self.ended.keys(), soft - hard - self.ended.keys()
            failed, asked = hard, soft

    def is_over(self, key: str) -> bool:
        if key in self.done or key in self.ended or key not in self.waits:
            return True
        hard, soft = self.blocked()
        passive = key not in self.keys or key in hard | soft
        return passive and key not in self.at_work and self.is_free(key)

    def is_free(self, key: str) -> bool:
        return all(self.is_over(other) for one in self.waits[key] for other in one.keys)

    def ready(self) -> list[str]:
        hard, soft = self.blocked()
        gone = self.done | self.ended.keys() | self.at_work | hard | soft
        return [key for key in self.keys if key not in gone and self.is_free(key)]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[str], dict[str, tuple[Dependency, ...]]]:
    names = [f"T{number}" for number in range(draw(st.integers(1, 9)))]
    waits: dict[str, tuple[Dependency, ...]] = {}
    shared: list[tuple[str, ...]] = []
    for place, name in enumerate(names):
        ways = []
        for _ in range(draw(st.integers(0, 3)) if place else 0):
            chosen = draw(st.lists(st.integers(0, place - 1), min_size=1, max_size=4, unique=True))
            keys = draw(st.sampled_from([tuple(names[number] for number in chosen), *shared]))
            shared.append(keys)
            ways.append(Dependency(keys, draw(st.sampled_from(WaitKind)), "why"))
        waits[name] = tuple(ways)
    return names, waits


ENDS: st.SearchStrategy[End] = st.sampled_from(("done", "done", "failed", "asked", "again"))


@given(graphs(), st.data())
def test_it_follows_the_rules(
    drawn: tuple[list[str], dict[str, tuple[Dependency, ...]]], data: DataObject
) -> None:
    names, waits = drawn
    done = set(data.draw(st.lists(st.sampled_from(names), max_size=2)))
    keys = [name for name in names if name not in done and data.draw(st.integers(0, 4))]
    schedule, plain = Schedule(keys, waits, done), Plain(keys, waits, done)
    reported: dict[str, Blocked] = {}
    begun: list[str] = []
    again = reopened = 0
    while True:
        for key, blocked in schedule.newly_blocked():
            assert key not in reported
            reported[key] = blocked
            failed, asked = _bad(plain)
            assert blocked == find_block(waits[key], failed, asked)
        hard, soft = plain.blocked()
        assert reported.keys() == hard | soft
        assert schedule.ready() == plain.ready()
        assert schedule.ready(1) == plain.ready()[:1]
        assert set(schedule.at_work) == plain.at_work
        for key in keys:
            _check_waiting(schedule, plain, key)
        if data.draw(st.booleans()):
            schedule.update(keys, waits, done)  # nothing has changed, so nothing may change
            assert schedule.ready() == plain.ready()
        undone = sorted(key for key, how in plain.ended.items() if how != "done")
        if undone and reopened < 3 and data.draw(st.booleans()):
            key = data.draw(st.sampled_from(undone))
            schedule.reopen(key)
            schedule.update(keys, waits, done)
            del plain.ended[key]
            begun.remove(key)
            reported.clear()  # what is still blocked is reported again
            reopened += 1
        elif plain.ready() and (not plain.at_work or data.draw(st.booleans())):
            key = data.draw(st.sampled_from(plain.ready()))
            let, why = schedule.begin(key)
            assert not let or why == "why"
            assert not let or let in {other for one in waits[key] for other in one.keys}
            plain.at_work.add(key)
            begun.append(key)
        elif plain.at_work:
            key = data.draw(st.sampled_from(sorted(plain.at_work)))
            how: End = data.draw(ENDS)
            how = "done" if how == "again" and again > 3 else how
            again += how == "again"
            schedule.end(key, how)
            plain.at_work.remove(key)
            if how == "again":
                begun.remove(key)
            else:
                plain.ended[key] = how
        else:
            break
    assert schedule.is_over
    assert sorted(begun) == sorted(set(keys) - reported.keys())


def _bad(plain: Plain) -> tuple[set[str], set[str]]:
    hard, soft = plain.blocked()
    failed = {key for key, how in plain.ended.items() if how == "failed"}
    asked = {key for key, how in plain.ended.items() if how == "asked"}
    return hard | failed, soft | asked


def _check_waiting(schedule: Schedule, plain: Plain, key: str) -> None:
    waiting = schedule.waiting(key)
    first = next(
        (one for one in plain.waits[key] if not all(plain.is_over(other) for other in one.keys)), None
    )
    if first is None:
        assert waiting is None
    else:
        rest = tuple(other for other in first.keys if not plain.is_over(other))
        assert waiting == Dependency(rest, first.kind, first.why)


def test_a_task_is_told_what_let_it_begin() -> None:
    waits = {"a": (), "b": (), "c": (after("a", "b", kind=PHASE, why="phase 2 waits for phase 1"),)}
    schedule = Schedule("abc", waits)
    assert schedule.begin("a") == ("", "")
    assert schedule.begin("b") == ("", "")
    schedule.end("b", "done")
    assert schedule.waiting("c") == Dependency(("a",), PHASE, "phase 2 waits for phase 1")
    schedule.end("a", "done")
    assert schedule.begin("c") == ("a", "phase 2 waits for phase 1")


def test_a_changed_source_keeps_what_has_begun_and_ended() -> None:
    schedule = Schedule("abc", {"a": (), "b": (after("a"),), "c": (after("b"),)})
    schedule.begin("a")
    schedule.update("bcd", {"b": (), "c": (after("a"),), "a": (), "d": (after("b", "c", kind=ORDER),)})
    assert schedule.at_work == ("a",)
    assert schedule.ready() == ["b"]
    schedule.end("a", "failed")
    assert schedule.newly_blocked() == [("c", Blocked(("a",), "it says so"))]
    schedule.update("bcd", {"b": (), "c": (), "d": ()})
    assert schedule.ready() == ["b", "c", "d"]
    assert schedule.newly_blocked() == []


def test_a_task_that_was_removed_while_at_work_does_not_come_back() -> None:
    schedule = Schedule("ab", {"a": (), "b": (after("a"),)})
    schedule.begin("a")
    schedule.update("b", {"b": ()})
    schedule.end("a", "again")
    assert schedule.ready() == ["b"]


def test_tasks_that_wait_for_each_other_are_blocked_and_do_not_hang() -> None:
    waits = {"a": (after("b"),), "b": (after("a"),), "c": (after("b"),), "d": (after("b", kind=PATHS),)}
    schedule = Schedule("abcd", waits)
    assert dict(schedule.newly_blocked()) == {
        "a": Blocked(("b",), "a → b → a wait for each other"),
        "b": Blocked(("a",), "a → b → a wait for each other"),
        "c": Blocked(("b",), "it says so"),
    }
    assert schedule.ready() == ["d"]
    assert Schedule("cd", waits).ready() == ["c", "d"], "the others are not in this run"
