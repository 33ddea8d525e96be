"""Several tasks at once: who begins when, whose work comes first, and what happens when it does not fit."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from segue.domain.errors import NeedsHuman, SegueError
from segue.domain.events import (
    NoticeGiven,
    TaskCollided,
    TaskEnded,
    TaskMerged,
    TaskStarted,
    TaskWaiting,
)
from segue.domain.graph import Dependency, WaitKind
from segue.domain.job import Job
from segue.domain.outcome import Budget, Failure, FailureKind, Outcome
from segue.domain.task import Task
from segue.flow.context import Policy
from tests.flow.loop import ListSource, fail
from tests.flow.side_by_side import Pace, PacedAgent, SideLoop, write
from tests.patience import unhurried

GOES_ON = Policy(continue_after_failure=True)


def loop(root: Path, agent: PacedAgent, *keys: str, **more: object) -> SideLoop:
    """Return a run with lanes."""
    return SideLoop(root, ListSource(*keys), [agent], policy=more.pop("policy", GOES_ON), **more)  # type: ignore[arg-type]


def waits(source: ListSource, key: str, *others: str) -> None:
    """Let a task wait for others."""
    stated = (Dependency(others, WaitKind.STATED, "it says so"),)
    source.found[key] = replace(source.found[key], depends_on=stated)


def together(number: int) -> Pace:
    """Hold launches until so many are at work at once; those that come later go on at once."""
    met = 0
    all_here = asyncio.Event()

    async def pace(_job: Job) -> None:
        nonlocal met
        met += 1
        if met >= number:
            all_here.set()
        await asyncio.wait_for(all_here.wait(), 60)

    return pace


def test_independent_tasks_are_worked_on_at_once_and_all_of_their_work_is_there(tmp_path: Path) -> None:
    agent = PacedAgent("function", write("{task}.txt"))
    side = loop(tmp_path, agent, "1", "2", "3")
    agent.pace = together(3)
    side.session()
    assert side.files() == {"1.txt": "1", "2.txt": "2", "3.txt": "3"}
    assert len({job.workspace for job in agent.jobs}) == 3
    assert {job.labels["lane"] for job in agent.jobs} == {"1", "2", "3"}
    assert all(task.state == "done" for task in side.view.tasks.values())
    assert side.order(TaskMerged) == ["1", "2", "3"]
    assert side.git("status", "--porcelain") == ""
    assert side.git("log", "--format=%H", "main").count("\n") == 0


def test_a_task_waits_for_what_it_says_and_sees_its_work(tmp_path: Path) -> None:
    seen: dict[str, list[str]] = {}

    def behave(job: Job) -> Outcome:
        seen[job.labels["task"]] = sorted(path.name for path in job.workspace.glob("*.txt"))
        return write("{task}.txt")(job)

    side = loop(tmp_path, PacedAgent("function", behave), "1", "2", "3")
    waits(side.source, "3", "1", "2")
    side.session()
    assert seen["3"] == ["1.txt", "2.txt"]
    (told,) = [one.event for one in side.events if isinstance(one.event, TaskWaiting)]
    assert (told.task, told.by) == ("3", ("1", "2"))
    begun = [one.event for one in side.events if isinstance(one.event, TaskStarted)]
    assert begun[-1].task == "3"
    assert (begun[-1].after in ("1", "2"), begun[-1].why) == (True, "it says so")


def test_fail_fast_finishes_what_is_at_work_and_begins_nothing_else(tmp_path: Path) -> None:
    first_ended = asyncio.Event()

    async def pace(job: Job) -> None:
        if job.labels["task"] == "2":
            await asyncio.wait_for(first_ended.wait(), 60)

    def behave(job: Job) -> Outcome:
        return fail(FailureKind.CRASH)(job) if job.labels["task"] == "1" else write("{task}.txt")(job)

    agent = PacedAgent("function", behave)
    agent.pace = pace
    side = loop(tmp_path, agent, "1", "2", "3", jobs=2, policy=Policy())

    def watch(recorded: object) -> None:
        if isinstance(getattr(recorded, "event", None), TaskEnded):
            first_ended.set()

    side.observers = [watch]
    with pytest.raises(NeedsHuman):
        side.session()
    assert side.files() == {"2.txt": "2"}
    assert sorted(job.labels["task"] for job in agent.jobs) == ["1", "2"]


def test_later_work_that_does_not_fit_is_done_again_on_top_of_the_earlier(tmp_path: Path) -> None:
    agent = PacedAgent("function", write("same.txt"))
    agent.pace = together(2)
    side = loop(tmp_path, agent, "1", "2", jobs=2)
    side.session()
    assert side.files() == {"same.txt": "1\n2"}
    (collided,) = [one.event for one in side.events if isinstance(one.event, TaskCollided)]
    assert (collided.task, collided.tasks, collided.files, collided.then) == (
        "2",
        ("1",),
        ("same.txt",),
        "again",
    )
    again = agent.jobs[-1]
    assert again.labels["task"] == "2"
    assert "same.txt" in again.prompt.text
    assert "Title 1" in again.prompt.text
    assert side.view.tasks["2"].attempts == 2


def test_a_task_that_waits_for_its_turn_lets_another_begin(tmp_path: Path) -> None:
    third_begun = asyncio.Event()

    async def pace(job: Job) -> None:
        if job.labels["task"] == "3":
            third_begun.set()
        if job.labels["task"] == "1":
            await asyncio.wait_for(third_begun.wait(), 60)

    agent = PacedAgent("function", write("{task}.txt"))
    agent.pace = pace
    side = loop(tmp_path, agent, "1", "2", "3", jobs=2)
    side.session()
    assert side.order(TaskMerged) == ["1", "2", "3"]


def test_work_that_never_fits_ends_with_an_agent_that_resolves_it_and_then_with_a_person(
    tmp_path: Path,
) -> None:
    seen: list[str] = []
    side: SideLoop

    def behave(job: Job) -> Outcome:
        path = job.workspace / "same.txt"
        seen.append(path.read_text() if path.exists() else "")
        path.write_text("mine\n")
        # Somebody commits to the branch while the agent works, each time something else in the same place.
        other = tmp_path / "other"
        if not other.exists():
            side.git("worktree", "add", "--quiet", "--detach", str(other), side.branch)
        side.git("-C", str(other), "checkout", "--quiet", "--detach", side.branch)
        (other / "same.txt").write_text(f"theirs {len(seen)}\n")
        side.git("-C", str(other), "add", "--all")
        side.git("-C", str(other), "commit", "--quiet", "-m", "theirs")
        side.git("update-ref", f"refs/heads/{side.branch}", side.git("-C", str(other), "rev-parse", "HEAD"))
        return Outcome("Done.")

    side = loop(tmp_path, PacedAgent("function", behave), "1")
    with pytest.raises(NeedsHuman, match=r"does not fit .*same\.txt"):
        side.session()
    events = [one.event for one in side.events if isinstance(one.event, TaskCollided)]
    assert [event.then for event in events] == ["again", "again", "resolve", "human"]
    assert seen[1:3] == ["theirs 1\n", "theirs 2\n"]
    assert "<<<<<<<" in seen[3]
    assert side.files() == {"same.txt": "theirs 4"}
    told = [one.event.text for one in side.events if isinstance(one.event, NoticeGiven)]
    assert sum("Somebody else has moved branch" in text for text in told) == 3, "the first move is not known"
    kept = side.git("for-each-ref", "--format=%(refname)", "refs/segue/kept")
    assert len(kept.splitlines()) >= 3


def test_work_that_fits_in_words_but_fails_together_is_done_again(tmp_path: Path) -> None:
    """Each task alone passes the check; both together do not, until the second sees the first."""

    def behave(job: Job) -> Outcome:
        others = sorted(path.name for path in job.workspace.glob("*.txt"))
        name = "both.txt" if others else f"{job.labels['task']}.txt"
        Path(job.workspace, name).write_text("x\n")
        return Outcome("Done.")

    agent = PacedAgent("function", behave)
    agent.pace = together(2)
    script = "import pathlib,sys; sys.exit(len({p.stem for p in pathlib.Path().glob('[12].txt')}) > 1)"
    side = loop(tmp_path, agent, "1", "2", jobs=2, checks=(("python3", "-c", script),), sealed=True)
    side.session()
    assert side.files() == {"1.txt": "x", "both.txt": "x"}
    (collided,) = [one.event for one in side.events if isinstance(one.event, TaskCollided)]
    assert "together they fail" in collided.reason


def test_a_parked_task_lets_others_work(tmp_path: Path) -> None:
    def check(factor: float) -> None:
        limited = True

        def behave(job: Job) -> Outcome:
            nonlocal limited
            if job.labels["task"] == "1" and limited:
                limited = False
                until = time.time() + 0.3 * factor
                return Outcome(failure=Failure(FailureKind.USAGE_LIMIT, "limit", until=until))
            return write("{task}.txt")(job)

        side = loop(tmp_path / str(factor), PacedAgent("function", behave), "1", "2", jobs=1)
        side.session()
        assert side.order(TaskMerged) == ["2", "1"]
        assert side.files() == {"1.txt": "1", "2.txt": "2"}

    unhurried(check)


def test_a_budget_is_common_to_all_lanes(tmp_path: Path) -> None:
    agent = PacedAgent("function", write("{task}.txt"))
    side = loop(tmp_path, agent, *"123456", budget=Budget(launches=4))
    with pytest.raises(SegueError, match="launches"):
        side.session()
    assert len(agent.jobs) == 4
    assert len(side.files()) == 4
    side.budget = Budget()
    side.session()
    assert len(side.files()) == 6
    assert len(agent.jobs) == 6


def test_an_agent_has_no_more_launches_at_once_than_it_may_have(tmp_path: Path) -> None:
    agent = PacedAgent("function", write("{task}.txt"))
    agent.pace = paced([50, 200, 100])
    side = loop(tmp_path, agent, *"12345", jobs=4, slots=2)
    side.session()
    assert len(side.files()) == 5
    assert agent.most <= 2


def test_a_session_that_is_cut_off_continues_in_the_same_lanes(tmp_path: Path) -> None:
    started = asyncio.Event()

    async def forever(job: Job) -> None:
        (job.workspace / f"half-{job.labels['task']}.txt").write_text("half\n")
        if len(list(tmp_path.glob("lanes/*/half-*"))) == 2:
            started.set()
        await asyncio.Event().wait()

    agent = PacedAgent("function", write("{task}.txt"))
    agent.pace = forever
    side = loop(tmp_path, agent, "1", "2", jobs=2)

    async def cut_off() -> None:
        work = asyncio.create_task(side._session(()))
        await asyncio.wait_for(started.wait(), 60)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    asyncio.run(cut_off())
    lanes = {job.labels["task"]: job.workspace for job in agent.jobs}
    agent.pace = None
    agent.jobs.clear()
    side.session()
    assert {job.labels["task"]: job.workspace for job in agent.jobs} == lanes
    assert side.files() == {"1.txt": "1", "2.txt": "2", "half-1.txt": "half", "half-2.txt": "half"}


def test_what_a_failed_task_left_stays_in_its_lane(tmp_path: Path) -> None:
    failing = True

    def behave(job: Job) -> Outcome:
        done = write("{task}.txt")(job)
        return fail(FailureKind.CRASH)(job) if failing and job.labels["task"] == "1" else done

    side = loop(tmp_path, PacedAgent("function", behave), "1", "2", "3", jobs=1)
    with pytest.raises(NeedsHuman) as found:
        side.session()
    lane = side.agents[0].jobs[0].workspace
    assert str(lane) in found.value.kept
    assert (lane / "1.txt").read_text() == "1\n"
    failing = False
    side.session()
    assert side.files() == {"1.txt": "1\n1", "2.txt": "2", "3.txt": "3"}


FILES = ["a.txt", "b.txt", "c/d.txt", "c/e.txt", "f.txt"]
PLANS = st.lists(
    st.lists(st.sampled_from(FILES), min_size=1, max_size=3, unique=True), min_size=2, max_size=7
)


def tasks_of(plan: list[list[str]], honest: bool) -> ListSource:
    """Return a task per list of files; it names them, or nothing."""
    source = ListSource()
    for number, files in enumerate(plan, 1):
        names = f" Change {', '.join(f'`{name}`' for name in files)}." if honest else ""
        source.found[str(number)] = Task(str(number), f"Title {number}", f"Do {number}.{names}")
    return source


def worker(plan: list[list[str]]) -> Callable[[Job], Outcome]:
    """An agent that adds a line to the files of its task, once."""

    def behave(job: Job) -> Outcome:
        task = job.labels["task"]
        for name in plan[int(task) - 1]:
            path = job.workspace / name
            path.parent.mkdir(exist_ok=True)
            old = path.read_text() if path.exists() else ""
            path.write_text(old if f"{task}\n" in old.splitlines(keepends=True) else f"{old}{task}\n")
        return Outcome("Done.")

    return behave


def paced(seed: list[int]) -> Pace:
    """Hold each launch for a different number of turns of the event loop."""
    turns = iter(seed * 50)

    async def pace(_job: Job) -> None:
        for _ in range(next(turns)):
            await asyncio.sleep(0)

    return pace


@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=PLANS, seed=st.lists(st.integers(0, 400), min_size=1, max_size=7), jobs=st.integers(2, 5))
def test_nothing_is_lost_where_they_do_not(
    tmp_path_factory: pytest.TempPathFactory, plan: list[list[str]], seed: list[int], jobs: int
) -> None:
    agent = PacedAgent("function", worker(plan))
    agent.pace = paced(seed)
    side = SideLoop(
        tmp_path_factory.mktemp("plan"), tasks_of(plan, honest=False), [agent], policy=GOES_ON, jobs=jobs
    )
    with contextlib.suppress(NeedsHuman):
        side.session()
    done = {key for key, task in side.view.tasks.items() if task.state == "done"}
    files = {name: text.splitlines() for name, text in side.files().items()}
    for number, names in enumerate(plan, 1):
        for name in names:
            assert files.get(name, []).count(str(number)) == (1 if str(number) in done else 0)
    assert {key for key, task in side.view.tasks.items() if task.state == "needs_human"} | done == {
        str(number) for number in range(1, len(plan) + 1)
    }
