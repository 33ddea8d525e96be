"""What must be true of a run that was killed and resumed, wherever it was killed."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from segue.domain.events import Recorded, TaskEnded
from segue.domain.run import Run, RunState, Step, StepState
from segue.store import connect
from segue.store.store import Store
from segue.view.load import load_view
from tests.cli.place import Place, processes_with
from tests.crash.flows import KilledFlow, count_cloud_agents

LOST, DOUBLED, ORPHANS, REFUSED, RECORDS = "lost", "doubled", "orphans", "refused", "records"
KINDS = (LOST, DOUBLED, ORPHANS, REFUSED, RECORDS)


@dataclass(frozen=True)
class Problem:
    """Something that a kill must not bring about."""

    kind: str
    text: str


def find_problems(flow: KilledFlow, place: Place, database: str, *, alone: bool, once: bool) -> list[Problem]:
    """Look at everything that the run has left.

    `alone` says that its agents were never killed, `once` that each was started, if at all, once.
    """
    found = [*_in_repository(flow, place), *_left_running(place)]
    with connect(database or place.database, read_only=True) as store:
        runs = store.runs()
        if len(runs) != 1:
            return [*found, Problem(DOUBLED, f"{len(runs)} runs instead of one")]
        found += _in_journal(flow, place, store, runs[0], alone)
    if once and (twice := _started_twice(place)):
        found.append(Problem(DOUBLED, f"agents were started more than once: {twice}"))
    if not database:
        with closing(sqlite3.connect(place.database)) as connection:
            said = connection.execute("PRAGMA integrity_check").fetchall()
        found += [Problem(RECORDS, f"damaged database: {said}")] if said != [("ok",)] else []
    return [*found, *_in_state(flow, place)]


def _in_repository(flow: KilledFlow, place: Place) -> Iterator[Problem]:
    if flow.name == "cloud":
        agents = count_cloud_agents(place)
        if agents != len(flow.tasks):
            yield Problem(DOUBLED, f"{agents} cloud agents for {len(flow.tasks)} tasks")
    else:
        yield from _in_work(flow, place)
    yield from _left_by_git(flow, place)


def _in_work(flow: KilledFlow, place: Place) -> Iterator[Problem]:
    for task in flow.tasks:
        if not (place.repo / f"f{task}").exists():
            yield Problem(LOST, f"the work of task {task} is not there")
    subjects = place.git("log", "--no-merges", "--topo-order", "--format=%s", "--reverse").splitlines()[1:]
    if (sorted(subjects) if flow.name == "lanes" else subjects) != list(flow.subjects):
        yield Problem(DOUBLED if len(subjects) > len(flow.subjects) else LOST, f"commits {subjects}")
    steps = place.git("log", "--format=%(trailers:key=Segue-Step,valueonly)").split()
    if len(set(steps)) != len(steps):
        yield Problem(DOUBLED, f"a step was committed twice: {steps}")


def _started(place: Place) -> list[str]:
    """Return which launches happened, as task/attempt."""
    return [line for file in place.repo.glob("started*") for line in file.read_text().split()]


def _started_twice(place: Place) -> list[str]:
    """Return the tasks for which more than one agent did its work."""
    tasks = Counter(launch.split("/")[0] for launch in _started(place))
    return [task for task, times in tasks.items() if times > 1]


def _left_by_git(flow: KilledFlow, place: Place) -> Iterator[Problem]:
    changed = {line[3:] for line in place.git("status", "--porcelain", "--untracked-files=all").splitlines()}
    if changed - set(flow.scores):
        yield Problem(RECORDS, f"the work tree is not clean: {sorted(changed)}")
    litter = [
        str(path) for path in (place.repo / ".git").rglob("*.lock") if not path.name.startswith("segue")
    ]
    litter += [str(path) for path in (place.repo / ".git").glob("segue-index*")]
    if litter:
        yield Problem(RECORDS, f"left in the repository: {litter}")
    if len(place.git("worktree", "list").splitlines()) != 1 or place.git("stash", "list"):
        yield Problem(RECORDS, "a work tree or a stash was left")


def _left_running(place: Place) -> Iterator[Problem]:
    for pid in processes_with(str(place.root)):
        yield Problem(ORPHANS, f"process {pid} still runs")


def _in_journal(flow: KilledFlow, place: Place, store: Store, run: Run, alone: bool) -> Iterator[Problem]:
    view = load_view(store, run)
    states = {key: task.state for key, task in view.tasks.items() if key}
    if run.state is not RunState.DONE:
        yield Problem(RECORDS, f"the run is {run.state}")
    if states != dict.fromkeys(flow.tasks, "done"):
        yield Problem(LOST, f"tasks are {states}")
    where = place.root / "hosted.git" if flow.name == "cloud" else place.repo
    reachable = place.git("-C", str(where), "log", "--all", "--format=%H").split()
    for key, task in view.tasks.items():
        if key and task.commit not in reachable:
            yield Problem(RECORDS, f"task {key} is recorded with commit {task.commit}, which no branch has")
    yield from _in_events(list(store.events(run.id)))
    yield from _in_steps(flow, place, store.steps(run.id), alone)


def _in_events(events: list[Recorded]) -> Iterator[Problem]:
    if [event.seq for event in events] != list(range(1, len(events) + 1)):
        yield Problem(RECORDS, "the events have gaps")
    ends = Counter(one.event.task for one in events if isinstance(one.event, TaskEnded) and one.event.done)
    if any(times != 1 for times in ends.values()):
        yield Problem(RECORDS, f"tasks ended more than once: {ends}")


def _in_steps(flow: KilledFlow, place: Place, steps: list[Step], alone: bool) -> Iterator[Problem]:
    if any(step.state is StepState.STARTED for step in steps):
        yield Problem(RECORDS, "a step has no outcome")
    launches = [step for step in steps if step.agent is not None]
    done = Counter((step.task, step.phase) for step in launches if step.state is StepState.DONE)
    if sum(done.values()) != flow.launches or max(done.values()) > 1:
        yield Problem(DOUBLED, f"launches that did their work: {done}")
    if alone and len(launches) != flow.launches:
        yield Problem(DOUBLED, f"{len(launches)} launches instead of {flow.launches}")
    ran = Counter(_started(place))
    known = Counter(f"{step.task}/{step.attempt}" for step in launches if step.phase == "execute")
    if not ran <= known:
        yield Problem(DOUBLED, f"launches {ran}, but attempts {known}")


def _in_state(flow: KilledFlow, place: Place) -> Iterator[Problem]:
    """Compare the state file with what was achieved."""
    if flow.name in ("spec", "cloud"):
        folder = place.repo / "specs" / "001-greeting"
        tasks = json.loads((folder / "state.json").read_text())["tasks"]
        status = {key: task["status"] for key, task in tasks.items()}
        if "[ ]" in (folder / "tasks.md").read_text():
            yield Problem(RECORDS, "a task is not ticked")
    elif flow.name == "build":
        (file,) = (place.database.parent / "prompts").glob("*.json")
        status = {str(task["key"]): task["status"] for task in json.loads(file.read_text())["steps"]}
    else:
        keys = json.loads(place.state_file().read_text())["completed_task_keys"]
        status = dict.fromkeys(keys, "done")
    if status != dict.fromkeys(flow.tasks, "done"):
        yield Problem(RECORDS, f"the state file says {status}")
