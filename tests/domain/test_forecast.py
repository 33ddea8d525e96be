"""How much several tasks at once can save."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from segue.domain.graph import Dependency, WaitKind, Waits
from segue.domain.schedule import Holdup, make_forecast
from segue.domain.task import Task
from segue.domain.waits import plan_waits
from tests.domain.test_schedule import graphs


def test_phases_and_collisions_are_what_holds_it_up() -> None:
    first, second = ("T1", "T2"), ("T3", "T4", "T5", "T6")
    phase = Dependency(first, WaitKind.PHASE, "phase 2 waits for phase 1")
    tasks = [Task(key, key, "") for key in first]
    tasks += [
        Task(key, "src/a.py" if key in ("T5", "T6") else key, "", depends_on=(phase,)) for key in second
    ]
    found = make_forecast([*first, *second], plan_waits(tasks), (), 2)
    assert (found.tasks, found.rounds, found.longest, found.width) == (6, 4, 3, 3)
    assert found.chain == ("T2", "T5", "T6")
    assert (found.speedup, found.bound) == (1.5, 2.0)
    assert found.holdups == (Holdup("phase 2 waits for phase 1", 3), Holdup("both name src/a.py", 1))


def test_what_is_done_holds_up_nobody() -> None:
    waits = {"a": (), "b": (Dependency(("a",), WaitKind.STATED, "it says so"),)}
    assert make_forecast(["b"], waits, {"a"}, 4).rounds == 1
    assert make_forecast(["a", "b"], waits, (), 4).holdups == (Holdup("dependencies that are stated", 1),)


def test_nothing_to_do() -> None:
    found = make_forecast([], {}, (), 4)
    assert (found.tasks, found.rounds, found.chain, found.bound) == (0, 0, (), 0.0)


@given(graphs(), st.integers(1, 4))
def test_a_forecast_is_possible_and_no_better_than_its_bounds(
    drawn: tuple[list[str], dict[str, tuple[Dependency, ...]]], jobs: int
) -> None:
    keys, waits = drawn
    found = make_forecast(keys, waits, (), jobs)
    assert found.longest == max(map(len, _chains(waits)))
    assert found.longest == len(found.chain)
    assert all(
        before in {key for one in waits[after] for key in one.keys} for before, after in pairwise(found.chain)
    )
    assert max(found.longest, -(-len(keys) // jobs)) <= found.rounds <= len(keys)
    assert (found.rounds == len(keys)) or jobs > 1
    assert found.rounds == found.longest or jobs < found.width


def _chains(waits: Waits) -> list[tuple[str, ...]]:
    """Return the longest chain that ends with each task."""
    longest: dict[str, tuple[str, ...]] = {}
    for key, ways in waits.items():
        before = [longest[other] for one in ways for other in one.keys]
        longest[key] = (*max(before, key=len, default=()), key)
    return list(longest.values())
