"""The loop: attempts, fallbacks, usage limits, budgets, phases, and what a second session repeats."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from segue.domain.errors import CredentialsError, NeedsHuman
from segue.domain.events import PatchMade, TaskCommented, TaskEnded
from segue.domain.graph import Dependency, WaitKind
from segue.domain.job import Job, Role
from segue.domain.outcome import Budget, FailureKind, Outcome
from segue.domain.run import StepState
from segue.domain.task import Completion, Task, TaskKind, TaskStatus
from segue.domain.verdict import Action, Evidence, Finding, Result, Review, Severity, Verdict
from segue.flow.context import Policy
from segue.flow.launch import MAX_PARKS
from segue.judges.verdict import read_verdict
from segue.ports import Capabilities, Problem, ReviewSubject
from tests.flow.loop import Behaviour, FunctionAgent, ListSource, Loop, edit, fail, in_turn


class SayingJudge:
    """A judge that gives prepared verdicts."""

    name = "saying"

    def __init__(self, *results: Result) -> None:
        self.results = list(results)
        self.seen: list[Evidence] = []

    def check(self) -> list[Problem]:
        """It always works."""
        return []

    async def judge(self, task: Task, evidence: Evidence) -> Verdict:
        """Give the next verdict."""
        self.seen.append(evidence)
        result = self.results.pop(0)
        action = Action.PROCEED if result is Result.PASS else Action.RETRY
        return Verdict(result, action, f"it is {result}")


class FindingReviewer:
    """A reviewer that reports prepared findings, round by round."""

    name = "finding"
    needs_commit = True

    def __init__(self, *rounds: int) -> None:
        self.rounds = list(rounds)

    def check(self) -> list[Problem]:
        """It always works."""
        return []

    async def review(self, subject: ReviewSubject, again: bool) -> Review:
        """Report as many findings as prepared."""
        count = self.rounds.pop(0)
        found = [Finding(str(n), f"f{n}.py", n, Severity.ERROR, "R1", f"wrong {n}") for n in range(count)]
        return Review(tuple(found))

    async def finish(self, subject: ReviewSubject) -> str:
        """Nothing to say."""
        return ""


def test_every_task_is_done_committed_and_marked(tmp_path: Path) -> None:
    agent = FunctionAgent("one", edit())
    loop = Loop(tmp_path, ListSource("1", "2", "3"), [agent])
    loop.session()
    assert [key for key, _ in loop.source.completions] == ["1", "2", "3"]
    assert loop.git("log", "--format=%s").splitlines()[:3] == [f"Task {k}: Title {k}" for k in "321"]
    assert {key: task.state for key, task in loop.view.tasks.items()} == dict.fromkeys("123", "done")
    assert (loop.view.launches, loop.view.usage.tokens) == (3, 45)
    assert loop.view.usage.cost_usd == pytest.approx(0.75)


def test_a_second_session_launches_nothing_again(tmp_path: Path) -> None:
    agent = FunctionAgent("one", edit())
    loop = Loop(tmp_path, ListSource("1", "2"), [agent])
    loop.session(["1"])
    loop.session()
    assert [job.labels["task"] for job in agent.jobs] == ["1", "2"]


def test_feedback_of_a_failed_attempt_reaches_the_next(tmp_path: Path) -> None:
    agent = FunctionAgent("one", in_turn(lambda _job: Outcome("I did it."), edit()))
    loop = Loop(tmp_path, ListSource("1"), [agent], attempts=2)
    loop.session()
    assert len(agent.jobs) == 2
    assert "nothing in the work tree" in agent.jobs[1].prompt.text


def test_attempts_are_limited(tmp_path: Path) -> None:
    agent = FunctionAgent("one", fail(FailureKind.CRASH))
    loop = Loop(tmp_path, ListSource("1", "2"), [agent], attempts=3)
    with pytest.raises(NeedsHuman):
        loop.session()
    assert len(agent.jobs) == 3
    assert loop.view.tasks["1"].state == "needs_human"
    assert loop.view.tasks["2"].state == "pending"


def test_interruptions_do_not_count_as_attempts(tmp_path: Path) -> None:
    agent = FunctionAgent(
        "one", in_turn(fail(FailureKind.INTERRUPTED), fail(FailureKind.INTERRUPTED), edit())
    )
    loop = Loop(tmp_path, ListSource("1"), [agent])
    loop.session()
    assert len(agent.jobs) == 3


def test_a_wrong_key_is_not_tried_twice(tmp_path: Path) -> None:
    agent = FunctionAgent("one", fail(FailureKind.AUTH))
    loop = Loop(tmp_path, ListSource("1"), [agent], attempts=5)
    with pytest.raises(CredentialsError):
        loop.session()
    assert len(agent.jobs) == 1


def test_only_the_last_agent_that_can_work_waits_for_its_service(tmp_path: Path) -> None:
    first, second = FunctionAgent("first", fail(FailureKind.OUTAGE)), FunctionAgent("second", edit())
    Loop(tmp_path, ListSource("1"), [first, second]).session()
    assert [job.limits.patience for job in (*first.jobs, *second.jobs)] == [0, 600]


def test_a_usage_limit_is_waited_for_only_so_often(tmp_path: Path) -> None:
    agent = FunctionAgent("one", fail(FailureKind.USAGE_LIMIT, until=time.time() - 1))
    loop = Loop(tmp_path, ListSource("1"), [agent])
    with pytest.raises(NeedsHuman, match="usage_limit"):
        loop.session()
    assert len(agent.jobs) == MAX_PARKS + 1
    assert sum("/park/" in key for key in loop.step_keys()) == MAX_PARKS


def test_a_budget_stops_before_the_launch(tmp_path: Path) -> None:
    agent = FunctionAgent("one", edit())
    loop = Loop(tmp_path, ListSource("1", "2", "3"), [agent], budget=Budget(launches=2))
    with pytest.raises(NeedsHuman, match=r"limits\.launches"):
        loop.session()
    assert len(agent.jobs) == 2
    loop.budget = Budget(launches=3)
    loop.session()
    assert [job.labels["task"] for job in agent.jobs] == ["1", "2", "3"]


def test_a_task_that_failed_verification_is_judged_again_after_resume(tmp_path: Path) -> None:
    agent = FunctionAgent("one", edit())
    judge = SayingJudge(Result.FAIL)
    loop = Loop(tmp_path, ListSource("1"), [agent], flow="spec", judge=judge, policy=Policy(resolutions=0))
    with pytest.raises(NeedsHuman, match="verification failed"):
        loop.session()
    judge.results = [Result.PASS]
    loop.session()
    assert len(judge.seen) == 2
    assert loop.view.tasks["1"].state == "done"
    assert {"task/1/verify/1#1", "task/1/verify/1#2"} <= set(loop.step_keys())


def test_a_plan_that_succeeded_is_kept_when_the_task_is_tried_again(tmp_path: Path) -> None:
    def plan_or_fail(job: Job) -> Outcome:
        return Outcome("The plan.") if job.labels["phase"] == "plan" else fail(FailureKind.CRASH)(job)

    agent = FunctionAgent("one", plan_or_fail)
    loop = Loop(tmp_path, ListSource("1"), [agent], flow="plan")
    for _ in range(2):
        with pytest.raises(NeedsHuman):
            loop.session()
    assert [job.labels["phase"] for job in agent.jobs] == ["plan", "execute", "execute"]
    assert "The plan." in agent.jobs[-1].prompt.text


def test_a_completion_that_was_taken_back_is_done_again_from_its_base(tmp_path: Path) -> None:
    agent = FunctionAgent("one", edit())
    loop = Loop(tmp_path, ListSource("1"), [agent])
    loop.session()
    loop.source.reopen("1")
    loop.session()
    assert len(agent.jobs) == 2
    assert "task/1/base#2" in loop.step_keys()


def test_checks_run_in_every_flow_and_send_the_agent_back(tmp_path: Path) -> None:
    def half_done(job: Job) -> Outcome:
        (job.workspace / "half.txt").write_text("half")
        return Outcome("Done.")

    agent = FunctionAgent("one", in_turn(half_done, edit("whole.txt")))
    check = (sys.executable, "-c", "import pathlib, sys; sys.exit(not pathlib.Path('whole.txt').exists())")
    loop = Loop(tmp_path, ListSource("1"), [agent], checks=(check,))
    loop.session()
    assert [job.labels["phase"] for job in agent.jobs] == ["execute", "resolve"]
    assert "NOT MET" in agent.jobs[1].prompt.text
    assert loop.view.tasks["1"].state == "done"


def test_a_check_that_keeps_failing_needs_a_human(tmp_path: Path) -> None:
    agent = FunctionAgent("one", edit())
    loop = Loop(tmp_path, ListSource("1"), [agent], checks=(("false",),), policy=Policy(resolutions=1))
    with pytest.raises(NeedsHuman, match="checks failed: false"):
        loop.session()
    assert [job.labels["phase"] for job in agent.jobs] == ["execute", "resolve"]
    assert loop.source.found["1"].status is TaskStatus.PENDING
    assert loop.view.tasks["1"].verdict == "FAIL"


def test_check_and_verify_share_the_resolutions(tmp_path: Path) -> None:
    agent = FunctionAgent("one", edit())
    judge = SayingJudge(Result.FAIL, Result.PASS)
    phases = ("execute", "check", "verify")
    loop = Loop(tmp_path, ListSource("1"), [agent], phases=phases, checks=(("true",),), judge=judge)
    loop.session()
    assert [job.labels["phase"] for job in agent.jobs] == ["execute", "resolve"]
    assert loop.git("log", "--format=%s").splitlines()[0] == "Task 1: fix 1"


def test_findings_that_remain_are_counted(tmp_path: Path) -> None:
    agent = FunctionAgent("one", edit())
    loop = Loop(tmp_path, ListSource("1"), [agent], flow="review", reviewer=FindingReviewer(2, 1, 1))
    with pytest.raises(NeedsHuman, match="1 review findings remain"):
        loop.session()
    (ended,) = [event.event for event in loop.events if isinstance(event.event, TaskEnded)]
    assert (ended.remaining, ended.attempts) == (1, 3) or ended.remaining == 1


def test_a_failed_task_blocks_what_waits_for_it_and_nothing_else(tmp_path: Path) -> None:
    def all_but_one(job: Job) -> Outcome:
        return fail(FailureKind.CRASH)(job) if job.labels["task"] == "1" else edit()(job)

    source = ListSource(*"12345")
    waits = {
        "2": Dependency(("1",), WaitKind.STATED, "it says so"),
        "3": Dependency(("2",), WaitKind.PHASE, "phase 2 waits for phase 1"),
        "4": Dependency(("3",), WaitKind.ORDER, "it comes after 3"),
    }
    for key, wait in waits.items():
        source.found[key] = replace(source.found[key], depends_on=(wait,))
    agent = FunctionAgent("one", all_but_one)
    loop = Loop(tmp_path, source, [agent], policy=Policy(continue_after_failure=True))
    with pytest.raises(NeedsHuman, match=r"Task 1 needs a human: .*\n2 more wait for that"):
        loop.session()
    states = {key: task.state for key, task in loop.view.tasks.items()}
    assert states == {"1": "needs_human", "2": "blocked", "3": "blocked", "4": "done", "5": "done"}
    assert loop.view.tasks["2"].blocked_by == ("1",)
    assert loop.view.tasks["3"].reason == "waits for 2: phase 2 waits for phase 1"
    agent._behave = edit()
    loop.session()
    assert all(task.state == "done" and not task.blocked_by for task in loop.view.tasks.values())


def test_a_task_for_a_person_blocks_only_what_says_so(tmp_path: Path) -> None:
    source = ListSource(*"1234")
    waits = {
        "2": Dependency(("1",), WaitKind.STATED, "it says so"),
        "3": Dependency(("1", "2"), WaitKind.PHASE, "phase 2 waits for phase 1"),
    }
    for key, wait in waits.items():
        source.found[key] = replace(source.found[key], depends_on=(wait,))
    source.found["1"] = replace(source.found["1"], kind=TaskKind.HUMAN, kind_is_given=True)
    loop = Loop(tmp_path, source, [FunctionAgent("one", edit())])
    with pytest.raises(NeedsHuman, match="Task 1 needs a human"):
        loop.session()
    states = {key: task.state for key, task in loop.view.tasks.items()}
    assert states == {"1": "needs_human", "2": "blocked", "3": "done", "4": "done"}


def test_failures_are_counted_in_a_row(tmp_path: Path) -> None:
    def only_two(job: Job) -> Outcome:
        return edit()(job) if job.labels["task"] == "2" else fail(FailureKind.CRASH)(job)

    agent = FunctionAgent("one", only_two)
    policy = Policy(continue_after_failure=True, max_failures=2)
    loop = Loop(tmp_path, ListSource(*"12345"), [agent], policy=policy)
    with pytest.raises(NeedsHuman, match="3 tasks need a human") as caught:
        loop.session()
    assert [job.labels["task"] for job in agent.jobs] == ["1", "2", "3", "4"]
    assert "1 task done in this session" in caught.value.kept


def patches(loop: Loop) -> list[tuple[str | None, PatchMade]]:
    return [(seen.step, seen.event) for seen in loop.events if isinstance(seen.event, PatchMade)]


def test_every_attempt_leaves_the_patch_of_its_task_so_far(tmp_path: Path) -> None:
    agent = FunctionAgent("one", edit())
    judge = SayingJudge(Result.FAIL, Result.PASS)
    loop = Loop(tmp_path, ListSource("1"), [agent], flow="spec", judge=judge)
    base = loop.git("rev-parse", "HEAD").strip()
    loop.session()
    (first, made), (second, more) = patches(loop)
    assert (first, second) == ("task/1/execute/1", "task/1/resolve/1")
    assert (made.base, more.base, made.files, made.cut) == (base, base, 1, 0)
    for one, lines in ((made, 1), (more, 2)):
        assert one.diff.endswith("+1\n" * lines)
        assert one.diff == loop.git("diff-tree", "-r", "-p", one.base, one.tree) + "\n"


class CrashingSource(ListSource):
    """Marks a task, and the process dies: of the database it leaves what was stored by then."""

    def __init__(self, database: Path) -> None:
        super().__init__("1")
        self.database, self.left = database, database.with_name("left.db")

    def mark(self, task: Task, completion: Completion) -> None:
        """Mark it; the journal never hears of it."""
        super().mark(task, completion)
        if len(self.completions) == 1:
            with closing(sqlite3.connect(self.database)) as live, closing(sqlite3.connect(self.left)) as left:
                live.backup(left)
                with left:  # whoever died holds no claim
                    left.execute("UPDATE orchestrator_runs SET owner = NULL")
            raise ConnectionAbortedError


def test_a_task_that_was_marked_just_before_a_crash_is_ended_by_the_next_session(tmp_path: Path) -> None:
    agent, database = FunctionAgent("one", edit()), tmp_path / "segue.db"
    source = CrashingSource(database)
    loop = Loop(tmp_path, source, [agent])
    with pytest.raises(ConnectionAbortedError):
        loop.session()
    source.left.replace(database)
    assert "task/1/end#1" not in loop.step_keys()
    loop.session()
    assert "task/1/end#1" in loop.step_keys()
    with loop.store() as store:
        assert {step.state for step in store.steps(loop.run_id)} == {StepState.DONE}
    task = loop.view.tasks["1"]
    assert (len(agent.jobs), task.state, task.commit) == (1, "done", loop.git("rev-parse", "HEAD"))


def test_an_answer_continues_the_conversation_in_which_it_was_asked(tmp_path: Path) -> None:
    follows = Capabilities(plan_mode=True, ask_mode=True, follow_up=True)

    def ask(_job: Job) -> Outcome:
        return Outcome('{"question": "Which database, a or b?"}', session="talk-1")

    agent = FunctionAgent("one", in_turn(ask, edit()), follows)
    loop = Loop(tmp_path, ListSource("1"), [agent])
    with pytest.raises(NeedsHuman):
        loop.session()

    async def answer() -> None:
        async with loop.context() as context:
            await context.journal.emit(TaskCommented("1", "Take b.", "somebody"))

    asyncio.run(answer())
    loop.session()
    assert [job.session for job in agent.jobs] == [None, "talk-1"]
    assert "Take b." in agent.jobs[1].prompt.text


def commits(name: str, then: Behaviour) -> Behaviour:
    """A person commits a file while the agent does something."""

    def behave(job: Job) -> Outcome:
        outcome = then(job)
        (job.workspace / name).write_text("mine\n")
        for words in (("add", name), ("commit", "-qm", f"Add {name}")):
            subprocess.run(["git", *words], cwd=job.workspace, check=True)
        return outcome

    return behave


def says(text: str) -> Behaviour:
    return lambda _job: Outcome(text)


def test_what_a_person_commits_while_a_task_is_planned_is_theirs(tmp_path: Path) -> None:
    planner = FunctionAgent("planner", commits("mine.txt", says("The plan.")))
    loop = Loop(
        *(tmp_path, ListSource("1"), [FunctionAgent("worker", edit())]),
        flow="plan",
        roles={Role.PLAN: [planner]},
    )
    loop.session()
    assert loop.view.tasks["1"].state == "done"
    assert loop.git("log", "--format=%s", "--reverse").splitlines()[1] == "Add mine.txt"
    assert loop.git("show", "--format=", "--name-only", "HEAD") == "work.txt"


def test_what_a_person_commits_after_a_plan_was_stopped_is_theirs(tmp_path: Path) -> None:
    planner = FunctionAgent("planner", in_turn(fail(FailureKind.CRASH), says("The plan.")))
    loop = Loop(
        *(tmp_path, ListSource("1"), [FunctionAgent("worker", lambda _job: Outcome("I did nothing."))]),
        flow="plan",
        roles={Role.PLAN: [planner]},
    )
    with pytest.raises(NeedsHuman, match="crash"):
        loop.session()
    (loop.repo / "mine.txt").write_text("mine\n")
    loop.git("add", ".")
    loop.git("commit", "-qm", "Mine")
    with pytest.raises(NeedsHuman, match="nothing in the work tree"):  # what the person did is not its work
        loop.session()
    assert len(planner.jobs) == 2


def test_what_a_person_commits_while_a_judge_looks_is_theirs(tmp_path: Path) -> None:
    praise = says('{"criteria": [{"key": "task", "met": true, "evidence": "+1"}], "reasoning": "fine"}')

    def commit_beside(job: Job) -> Outcome:
        (tmp_path / "repo" / "mine.txt").write_text("mine\n")
        for words in (("add", "mine.txt"), ("commit", "-qm", "Mine", "mine.txt")):
            subprocess.run(["git", *words], cwd=tmp_path / "repo", check=True)
        return praise(job)

    judging = FunctionAgent("judge", in_turn(commit_beside, praise))
    loop = Loop(
        *(tmp_path, ListSource("1"), [FunctionAgent("worker", edit())]),
        phases=("execute", "check", "verify"),
        roles={Role.VERIFY: [judging]},
        agent_judge=read_verdict,
    )
    loop.session()
    assert (len(judging.jobs), loop.view.tasks["1"].state) == (1, "done")
