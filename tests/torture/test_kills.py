"""Kill workers at random, many times: nothing is lost, nothing is done twice."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from segue.domain.events import AgentText, Recorded
from segue.domain.run import Run, RunSpec, RunState, StepState
from segue.store import connect
from segue.store.store import Store
from segue.system import identity
from tests.torture.nursery import Nursery
from tests.torture.paid_service import PaidService
from tests.torture.worker import TALK

pytestmark = pytest.mark.torture
TASKS = 6
STEPS = ("plan", "launch", "hear", "sleep", "verify")


def new_run(store: Store, tasks: int = TASKS) -> Run:
    run = store.create("torture", RunSpec("planfile", str(tasks), "repo", "paid", "quick"))
    for number in range(tasks):
        store.send(run.id, "news", {"number": number})
    return run


@pytest.mark.thorough
@pytest.mark.parametrize(("workers", "wanted"), [(1, 30), (4, 60), (1, 200), (4, 400)])
def test_nothing_is_lost_and_nothing_is_doubled(
    database: str, workers: int, wanted: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    rng = random.Random(request.node.name)
    service = PaidService(tmp_path / "paid")
    with connect(database) as store, Nursery(database, tmp_path / "complaints") as nursery:
        runs = [new_run(store) for _ in range(workers)]
        while nursery.kills < wanted or not was_interrupted(store):
            while len(nursery.alive) < workers:
                nursery.spawn("work", tmp_path / "paid", "yes")
            # On a machine so busy that none of them came to work, they get longer and longer.
            nursery.cull(rng, 0.05 * 2.0 ** max(0, nursery.kills - wanted))
            nursery.alive = [pid for pid in nursery.alive if identity.start_time(pid) is not None]
            if all(run.state is RunState.DONE for run in store.runs()):
                runs.append(new_run(store))
        nursery.spawn("work", tmp_path / "paid", "yes")
        nursery.wait(300)
        assert nursery.complaints() == ""
        for run in runs:
            check_run(store, run.id)
        check_launches(store, runs, service)
    service.close()


def check_run(store: Store, run_id: str) -> None:
    run = store.run(run_id)
    assert run is not None
    assert run.state is RunState.DONE
    steps = store.steps(run_id)
    expected = {f"task/{task}/{step}/1" for task in range(TASKS) for step in STEPS}
    assert Counter(step.key for step in steps) == Counter(expected)
    for step in steps:
        failed = step.phase == "execute" and "/verify/" in step.key and int(step.task or 0) % 2 == 1
        assert step.state is (StepState.FAILED if failed else StepState.DONE)
    heard = [step.output["answer"]["number"] for step in steps if "/hear/" in step.key]
    assert sorted(heard) == list(range(TASKS)), "each signal was heard by exactly one step"
    events = list(store.events(run_id))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    for key in expected:
        check_step_events(key, [event for event in events if event.step == key])


def check_step_events(key: str, events: list[Recorded]) -> None:
    kinds = Counter(event.type for event in events)
    assert kinds["step.started"] == 1
    assert kinds["step.ended"] == 1
    assert events[0].type == "step.started"
    assert events[-1].type == "step.ended"
    tries: dict[str, list[int]] = defaultdict(list)
    for event in events:
        if isinstance(event.event, AgentText):
            attempt, number = event.event.text.split()
            tries[attempt].append(int(number))
    for numbers in tries.values():
        assert numbers == list(range(len(numbers))), "in order, without gaps, without repetition"
    if "/plan/" in key or "/verify/" in key:
        assert list(tries.values())[-1] == list(range(TALK)), "what the finished try said is complete"


def check_launches(store: Store, runs: list[Run], service: PaidService) -> None:
    steps = [step for run in runs for step in store.steps(run.id) if "/launch/" in step.key]
    assert service.launches == Counter(step.token for step in steps)


def was_interrupted(store: Store) -> bool:
    """Return whether any step was begun twice; otherwise a test has shown nothing."""
    return any(row["tries"] > 1 for batch in store.table("steps") for row in batch)


@pytest.mark.thorough
@pytest.mark.quick("postgres-False")
@pytest.mark.parametrize("reconciles", [True, False])
def test_only_reconcile_keeps_an_interrupted_launch_from_being_repeated(
    database: str, reconciles: bool, tmp_path: Path
) -> None:
    service = PaidService(tmp_path / "paid")
    words = ("work", tmp_path / "paid", "yes" if reconciles else "no")
    with connect(database) as store, Nursery(database, tmp_path / "complaints") as nursery:
        run = new_run(store, tasks=1)
        service.answering.clear()
        first = nursery.spawn(*words)
        assert service.launched.wait(120)
        nursery.kill(first)
        service.answering.set()
        nursery.spawn(*words)
        nursery.wait(120)
        assert nursery.complaints() == ""
        [launch] = [step for step in store.steps(run.id) if "/launch/" in step.key]
        assert service.launches == Counter({launch.token: 1 if reconciles else 2})
    service.close()


@pytest.mark.thorough
def test_never_more_agents_at_once_than_there_are_slots(database: str, tmp_path: Path) -> None:
    rng = random.Random("slots")
    with connect(database) as store, Nursery(database, tmp_path / "complaints") as nursery:
        runs = [new_run(store, tasks=0) for _ in range(8)]
        at: dict[str, int] = {}
        while nursery.kills < 40:
            for run in runs:
                if identity.start_time(at.get(run.id, -1)) is None:
                    at[run.id] = nursery.spawn("compete", run.id, tmp_path, 3, 1_000_000)
            nursery.cull(rng)
            nursery.alive = [pid for pid in nursery.alive if identity.start_time(pid) is not None]
        for pid in list(nursery.alive):
            nursery.kill(pid)
        rounds = sum(len(store.steps(run.id)) for run in runs)
        assert nursery.complaints() == ""
        assert rounds > 0, "nobody ever got a slot"
