"""What every task waits for when several are worked on at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from msgspec.structs import replace

from segue.domain.errors import UsageError
from segue.domain.graph import Dependency, WaitKind, Waits, refuse_cycles
from segue.domain.schedule import Schedule
from segue.domain.task import Task, TaskKind, TaskStatus
from segue.domain.waits import plan_waits

STATED, PHASE, ORDER = WaitKind.STATED, WaitKind.PHASE, WaitKind.ORDER


def tasks(*titles: str) -> list[Task]:
    return [Task(f"T{number}", title, title) for number, title in enumerate(titles, 1)]


def shown(waits: Waits) -> dict[str, list[str]]:
    return {
        key: [f"{one.kind} {','.join(one.keys)}: {one.why}" for one in ways] for key, ways in waits.items()
    }


def test_tasks_that_name_the_same_path_wait_in_a_chain() -> None:
    found = plan_waits(
        tasks("Write src/a.py", "Write src/b.py", "Fix src/a.py", "Extend src/a.py and src/b.py")
    )
    assert shown(found) == {
        "T1": [],
        "T2": [],
        "T3": ["paths T1: both name src/a.py"],
        "T4": ["paths T3: both name src/a.py", "paths T2: both name src/b.py"],
    }


def test_what_was_touched_before_counts() -> None:
    touched = {"T1": ["src/a.py"], "T3": ["src/b.py"]}
    found = plan_waits(
        tasks("Log in", "Fix src/a.py and src/b.py", "Log out", "Nothing known"), touched=touched
    )
    assert shown(found) == {
        "T1": [],
        "T2": ["paths T1: T1 touched src/a.py and it names it"],
        "T3": ["paths T2: T2 names src/b.py and it touched it"],
        "T4": [],
    }


def test_reading_waits_for_writing_but_not_for_reading() -> None:
    found = plan_waits(tasks("Write docs/api.md", "src/a.py per docs/api.md", "src/b.py per docs/api.md"))
    assert shown(found)["T3"] == ["paths T1: T1 names docs/api.md and it refers to it"]
    assert shown(found)["T2"] == ["paths T1: T1 names docs/api.md and it refers to it"]


def test_p_does_not_free_from_a_collision() -> None:
    both = [replace(task, parallel=True) for task in tasks("src/a.py", "src/a.py")]
    assert shown(plan_waits(both))["T2"] == ["paths T1: both name src/a.py, although both are marked [P]"]


def test_a_collision_is_left_out_where_the_task_waits_anyway() -> None:
    one, two = tasks("src/a.py", "src/a.py")
    stated = Dependency(("T1",), STATED, "it says so")
    assert plan_waits([one, replace(two, depends_on=(stated,))])["T2"] == (stated,)


def test_done_tasks_and_those_for_a_person_collide_with_nothing() -> None:
    one, two, three, four = tasks("src/a.py", "src/a.py", "src/a.py", "src/a.py")
    two = replace(two, status=TaskStatus.DONE)
    three = replace(three, kind=TaskKind.HUMAN)
    assert shown(plan_waits([one, two, three, four])) == {
        "T1": [],
        "T2": [],
        "T3": [],
        "T4": ["paths T1: both name src/a.py"],
    }


def test_a_task_that_needs_a_later_one_comes_after_it_whatever_else_would_hold() -> None:
    one, two, three = tasks("src/a.py", "src/a.py", "src/a.py")
    one = replace(one, depends_on=(Dependency(("T2",), STATED, "it says so"),))
    two = replace(two, depends_on=(Dependency(("T1",), ORDER, "it comes after T1"),))
    schedule = Schedule(["T1", "T2", "T3"], plan_waits([one, two, three]))
    begun = []
    while not schedule.is_over:
        begun += schedule.ready()
        (key,) = schedule.ready()
        schedule.begin(key)
        schedule.end(key, "done")
    assert begun == ["T2", "T1", "T3"]


def verify(key: str, **more: str) -> Task:
    return Task(key, "Run all tests", "", kind=TaskKind.VERIFY_ONLY, **more)  # type: ignore[arg-type]


def test_who_looks_at_a_story_or_a_phase_waits_for_that() -> None:
    one, two, three = tasks("a", "b", "c")
    one, two = replace(one, story="US1", phase="Phase 1"), replace(two, story="US2", phase="Phase 1")
    three = replace(three, story="US1+US2", phase="Phase 2")
    found = plan_waits(
        [one, two, verify("V1", story="US1", phase="Phase 1"), verify("V2", phase="Phase 1"), three]
    )
    assert shown(found)["V1"] == ["phase T1: it looks at what comes before it in US1"]
    assert shown(found)["V2"] == ["phase T1,T2,V1: it looks at what comes before it in Phase 1"]
    assert shown(found)["T3"] == [
        "order T1,V1: it is the last task of US1",
        "order T2: it is the last task of US2",
    ]


def test_a_checkpoint_comes_last_in_its_phase() -> None:
    one, two, three = (replace(task, phase="Phase 1") for task in tasks("a", "b", "c"))
    found = plan_waits([one, two, replace(three, checkpoint="It starts")])
    assert shown(found)["T3"] == ["order T1,T2: a checkpoint follows it"]


def test_cycles_are_refused_with_the_cycle() -> None:
    one, two, three = tasks("a", "b", "c")
    one = replace(one, depends_on=(Dependency(("T3",), STATED, "it says so"),))
    three = replace(three, depends_on=(Dependency(("T1", "T2"), PHASE, "phase 2 waits for phase 1"),))
    waits = plan_waits([one, two, three])
    with pytest.raises(UsageError) as refused:
        refuse_cycles(waits, ["T1", "T2", "T3"])
    assert refused.value.message == (
        "T1 → T3 → T1 wait for each other.\n"
        "  T1 waits for T3: it says so\n  T3 waits for T1: phase 2 waits for phase 1"
    )
    assert "--jobs 1" in refused.value.hint
    refuse_cycles(waits, ["T2", "T3"])  # T1 is done: nobody waits for it any more


FILES = ["src/a.py", "src/b.py", "src/x/c.py", "docs/d.md"]
PLACES = [*FILES, "src/", "src/x/", "docs/"]


@given(st.data())
def test_side_by_side_gives_what_one_by_one_gives_where_footprints_are_true(
    data: DataObject,
) -> None:
    """Each task appends its key to files within what it names; whatever ends first, files are the same."""
    named = data.draw(st.lists(st.lists(st.sampled_from(PLACES), max_size=3), max_size=9))
    listed = [Task(f"T{n}", " and ".join(paths), "", parallel=n % 2 == 0) for n, paths in enumerate(named)]
    changes = {
        task.key: {file for file in FILES for path in paths if file.startswith(path)}
        for task, paths in zip(listed, named, strict=True)
    }
    serial = {file: [task.key for task in listed if file in changes[task.key]] for file in FILES}
    schedule = Schedule([task.key for task in listed], plan_waits(listed))
    tree: dict[str, list[str]] = {file: [] for file in FILES}
    lanes: dict[str, dict[str, list[str]]] = {}
    while not schedule.is_over:
        if schedule.ready(1) and (not lanes or data.draw(st.booleans())):
            key = data.draw(st.sampled_from(schedule.ready()))
            schedule.begin(key)
            lanes[key] = {file: list(tree[file]) for file in changes[key]}
        else:
            key = data.draw(st.sampled_from(schedule.at_work))
            for file, lines in lanes.pop(key).items():
                assert lines == tree[file], "somebody changed it meanwhile: this would be a conflict"
                tree[file] = [*lines, key]
            schedule.end(key, "done")
    assert tree == serial
