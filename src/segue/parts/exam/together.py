"""Tests that combine tasks: written when several are done; whoever broke one gets the work back."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.amounts import list_some
from segue.domain.events import NoticeGiven
from segue.domain.kinds import with_kind
from segue.domain.proof import IndependentTests
from segue.domain.results import TOGETHER, CombinedOutput, EndOutput, SnapshotOutput, StepFacts, StepResult
from segue.domain.run import StepState
from segue.domain.task import Task, without_secrets
from segue.domain.workspace import Snapshot
from segue.flow.begin import asked_in, last_session
from segue.flow.context import RunContext
from segue.flow.exam import write_tests
from segue.flow.feedback import FeedbackTasks
from segue.flow.phase import EXAM
from segue.flow.state import Beginning, LastLaunch, OwnTests, Start, TaskState
from segue.flow.survey import settle
from segue.flow.task import run_task
from segue.parts.exam.breaker import find_breaker
from segue.parts.exam.groups import Group, find_groups
from segue.prompts.exam import MoreTests
from segue.proof.exam import find_failing
from segue.proof.independent import without_lines

if TYPE_CHECKING:
    from segue.proof.independent import DetachedTests

_SHOWN = 5
_NEVER = "Each of the tasks passes its own checks, but together they have never passed these."


class Broken(Struct, frozen=True):
    """Tests that fail since one task."""

    task: str
    """Who broke them."""
    tests: tuple[str, ...]
    text: str
    """What its agent is told."""


class TogetherOutput(CombinedOutput, frozen=True):
    """What tests that combine tasks have shown."""

    unusable: dict[str, str] = {}
    broken: tuple[Broken, ...] = ()


async def combine(context: RunContext, chosen: Collection[str]) -> list[tuple[Task, EndOutput]]:
    """Test together what is done, each group once; return how the tasks ended that were worked on again."""
    if context.testing is None or context.cloud or context.policy.commit == "never":
        return []
    tasks = [with_kind(task, context.policy.kinds) for task in context.source.tasks().tasks]
    done = {key for key, task in context.view.tasks.items() if task.state == "done" and task.commit}
    ended: list[tuple[Task, EndOutput]] = []
    for group in find_groups(tasks, done, chosen):
        found = await _examine(context, context.testing, group)
        passing = found.tests is not None and not found.broken
        if found.tests is not None and passing and found.tests not in context.combined:
            context.combined.append(found.tests)
        for number, broken in enumerate(found.broken, 1):
            task = _task_of(group, broken, number)
            if context.journal.state(f"task/{task.key}/end") is StepState.DONE:
                continue
            ended.append((task, await _send_back(context, found, broken, task)))
            if not ended[-1][1].done:
                return ended
    return ended


async def _examine(context: RunContext, testing: DetachedTests, group: Group) -> TogetherOutput:
    """Have tests written for a group, run them, and find out who broke those that fail."""
    folder = f"{TOGETHER}{group.name}"
    key = f"{folder}/{EXAM.name}/found"
    known = context.journal.recorded(key, TogetherOutput)
    if known is not None:
        return known.output
    commits = _list_commits(context)
    state = _begin(context, group, folder)
    names = await context.checking.sealer().describe_result(state.base.head, commits[-1][1])
    written = await write_tests(context, state, MoreTests(together=True, names=names))

    async def work(_token: str) -> StepResult[TogetherOutput]:
        listed = list_some(group.keys, _SHOWN)
        if written.tests is None:
            said = f"There are no tests that combine the tasks {listed}: {written.why_not}"
            await context.emit(NoticeGiven(context.redact(said)))
            return StepResult(True, TogetherOutput())
        runs = _Runs(context, testing, state, written.tests, written.unusable, names)
        failing, unusable = await runs.at(commits[-1][1])
        broken = await _find_broken(runs, group, commits, failing)
        said = f"Tests that combine the tasks {listed}: {_describe(failing, broken)}."
        if unusable:
            said += f" Not used: {list_some([f'{one} ({why})' for one, why in unusable.items()], _SHOWN)}."
        await context.emit(NoticeGiven(context.redact(said)))
        return StepResult(True, TogetherOutput(written.tests, unusable, broken))

    facts = StepFacts(state.task.key, EXAM.name, proves=True)
    return (await context.journal.step(key, TogetherOutput, work, facts=facts)).output


def _describe(failing: Collection[str], broken: Sequence[Broken]) -> str:
    if not failing:
        return "they pass"
    return "; ".join(f"{list_some(one.tests, _SHOWN)} failed after task {one.task}" for one in broken)


def _list_commits(context: RunContext) -> list[tuple[str, str]]:
    """Return the tasks of the run with their commits, in the order in which they were done."""
    done = [task for task in context.view.tasks.values() if task.state == "done" and task.commit]
    done.sort(key=lambda task: task.ended or 0)
    return [(task.key, task.merged or task.commit or "") for task in done]


def _begin(context: RunContext, group: Group, folder: str) -> TaskState:
    """Return several tasks as one, with what the first of them began with."""
    bases = [context.journal.recorded(f"task/{key}/base", SnapshotOutput) for key in group.keys]
    began = {step.key: place for place, step in enumerate(context.journal.steps("task/"))}
    first = min(
        (began[f"task/{key}/base"], base.output)
        for key, base in zip(group.keys, bases, strict=True)
        if base is not None
    )[1]
    base = Snapshot(first.head, first.branch, "")
    texts = []
    for one in group.tasks:
        criteria = "\n".join(f"- {criterion.text}" for criterion in one.criteria)
        texts.append("\n".join(filter(None, (f"Task {one.key}: {one.title}", one.text, criteria))))
    task = Task(f"combined-{group.name}-0", "Several tasks", "\n\n".join(texts))
    return TaskState(without_secrets(task, context.redact), Start(base), base, own_folder=folder)


class _Runs(Struct, frozen=True):
    """Runs tests that combine tasks on commits of the run."""

    context: RunContext
    testing: DetachedTests
    state: TaskState
    tests: IndependentTests
    left_out: dict[str, str]
    """Tests that are not used, each with the reason."""
    names: str

    async def at(self, commit: str) -> tuple[dict[str, str], dict[str, str]]:
        """Return the tests that fail at a commit, with what they say, and those that say nothing there."""
        await settle(self.context)
        tree = await self.testing.lay_over(commit, [self.tests.commit])
        failing, unusable = dict[str, str](), dict(self.left_out)
        for argv in self.context.checking.commands:
            if shlex.join(argv) not in self.tests.commands:
                continue
            sealer = self.context.checking.sealer()
            ended = await sealer.run_twice(argv, self.state.base.head, tree, self.tests.files)
            if ended is not None:
                found = find_failing(*ended, self.tests.files, self.state.task.text, self.names)
                failing, unusable = failing | found[0], unusable | found[1]
        return {test: said for test, said in failing.items() if test not in unusable}, unusable

    async def explain(self, failing: dict[str, str]) -> str:
        """Return what tests say that fail, without their own lines."""
        source = await self.testing.show(self.tests.commit)
        said = [f"- {test}: {without_lines(text, source).strip()}" for test, text in failing.items()]
        return self.context.redact("\n".join(said))


async def _find_broken(
    runs: _Runs, group: Group, commits: Sequence[tuple[str, str]], failing: dict[str, str]
) -> tuple[Broken, ...]:
    """Return the tests that fail by who broke them; what never passed is for the last task of the group."""
    seen: dict[int, set[str]] = {len(commits) - 1: set(failing)}
    by_task: dict[tuple[str, bool], list[str]] = {}
    for test in failing:

        async def passes(place: int, test: str = test) -> bool:
            if place not in seen:
                found, unusable = await runs.at(commits[place][1])
                seen[place] = {*found, *unusable}
            return test not in seen[place]

        place = await find_breaker(len(commits) - 1, passes)
        own = [key for key, _ in commits if key in group.keys]
        who = (commits[place][0], True) if place is not None else (own[-1], False)
        by_task.setdefault(who, []).append(test)
    found = []
    for (key, is_since), tests in by_task.items():
        since = f"They passed before task {key} and fail since." if is_since else _NEVER
        said = await runs.explain({test: failing[test] for test in tests})
        text = f"Tests of the tasks {list_some(group.keys, len(group.keys))} together fail. {since}\n{said}"
        found.append(Broken(key, tuple(tests), text))
    return tuple(found)


def _task_of(group: Group, broken: Broken, number: int) -> Task:
    """Return the work that broken tests ask for as a task."""
    others = [key for key in group.keys if key != broken.task]
    title = f"Make task {broken.task} fit {list_some(others, _SHOWN)}"
    return Task(f"combined-{group.name}-{number}", title, broken.text, kind_is_given=True)


async def _send_back(context: RunContext, found: TogetherOutput, broken: Broken, task: Task) -> EndOutput:
    """Let the agent that broke tests work on it, in the same conversation where that can be continued."""
    # What others broke is theirs to correct.
    others = {test for one in found.broken if one is not broken for test in one.tests}
    tests = OwnTests(tests=found.tests, dropped=frozenset({*found.unusable, *others}), rounds=1)
    in_lanes = context.journal.run.spec.lanes  # vendors keep conversations by folder
    last = LastLaunch()
    if not in_lanes:
        asked = asked_in(context, task.key, f"task/{task.key}/end")
        last = asked if asked.session else last_session(context, f"task/{broken.task}/")
    source = FeedbackTasks(context.source, context.view.tasks)
    changed = replace(context, source=source, beginning=Beginning(tests, last))
    return await run_task(changed, without_secrets(task, context.redact))
