"""How much several tasks at once can save."""

from __future__ import annotations

from segue.domain.graph import Dependency, WaitKind
from segue.domain.schedule import Holdup, make_forecast
from segue.domain.task import Task
from segue.domain.waits import plan_waits


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
