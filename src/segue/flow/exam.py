"""The exam of a task: somebody who never sees the work writes tests, beside it, and more where that helps.

The first ones are written while the worker works. Each round is a launch, and a look at what it left without
any work; both are steps of the journal, so a resumed run writes nothing twice.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.amounts import list_some
from segue.domain.events import Event
from segue.domain.job import Mode
from segue.domain.outcome import Failure, FailureKind
from segue.domain.proof import BaseState, CheckState, IndependentTests
from segue.domain.results import ExamOutput, LaunchOutput, StepFacts, StepResult, read_as
from segue.domain.same import keeps_behaviour
from segue.domain.task import TaskKind
from segue.flow.agents import OverBudget, vendor_of
from segue.flow.context import RunContext
from segue.flow.evidence import verdict_after
from segue.flow.launch import LaunchRequest
from segue.flow.phase import EXAM, INDEPENDENT
from segue.flow.state import PhaseEnd, TaskState
from segue.flow.survey import settle
from segue.prompts.exam import MoreTests, exam_prompt
from segue.proof.breadth import find_libraries

if TYPE_CHECKING:
    from segue.proof.independent import DetachedTests

_NO_TESTS = "No new test file was written."
_SHOWN = 5
_T = TypeVar("_T")


class Written(Struct, frozen=True):
    """What came of a round."""

    tests: IndependentTests | None = None
    """All tests so far; None: there are no new ones."""
    unusable: dict[str, str] = {}
    """Tests that show nothing, each with the reason."""
    why_not: str = ""
    """Why there are no new ones."""
    repeats: bool = False
    """Whether all tests ask for nothing but examples that the worker sees."""


def begin_exam(context: RunContext, state: TaskState) -> Callable[[Event], None] | None:
    """Return what begins the exam when the worker's first launch is seen; None: there is none to begin."""
    wanted = context.testing is not None and context.flow.has(INDEPENDENT.name)
    own = state.own_tests
    if not wanted or state.task.kind is not TaskKind.BUILD or own.tests is not None or own.rounds:
        return None

    def hear(_event: Event) -> None:
        if state.exam is None:
            state.exam = asyncio.create_task(write_tests(context, state, MoreTests(), beside=True))

    return hear


async def end_exam(state: TaskState) -> None:
    """Leave nothing running when the task has ended; what was begun is continued on resume."""
    exam, state.exam = state.exam, None
    if exam is not None and not exam.done():
        exam.cancel()
        await asyncio.wait({exam})
    if exam is not None and not exam.cancelled():
        exam.exception()  # the task ended for another reason


async def collect_exam(context: RunContext, state: TaskState) -> Written:
    """Return the first tests: those that were written beside the work, or that are written now."""
    state.own_tests = replace(state.own_tests, rounds=1)
    exam, state.exam = state.exam, None
    return await (exam if exam is not None else write_tests(context, state, MoreTests()))


async def ask_again(context: RunContext, state: TaskState, more: MoreTests, beside: bool = False) -> bool:
    """Have more tests written, if that is allowed; return whether there are new ones."""
    own = state.own_tests
    if own.tests is None or own.rounds > context.policy.exam_rounds or _is_spent(context, state):
        return False
    state.own_tests = replace(own, rounds=own.rounds + 1)
    names = await context.checking.sealer().describe_result(state.base.head, state.tree)
    written = await write_tests(context, state, replace(more, names=names), own.tests, beside)
    return take_tests(state, written)


def take_tests(state: TaskState, written: Written) -> bool:
    """Let the checks run what was written from now on; return whether that is anything."""
    if written.tests is None:
        return False
    own = state.own_tests
    dropped = own.dropped | set(written.unusable)
    state.own_tests = replace(own, tests=written.tests, dropped=dropped, repeats=written.repeats)
    for why in dict.fromkeys(written.unusable.values()):
        tests = [test for test, reason in written.unusable.items() if reason == why]
        state.notes.append(f"independent tests are not used: {list_some(tests, _SHOWN)} ({why})")
    state.checked = False
    return True


async def work_beside(work: Coroutine[Any, Any, PhaseEnd], exam: Coroutine[Any, Any, _T]) -> PhaseEnd:
    """Let the worker and the writer work at the same time; if the work fails, nobody waits for the exam."""
    writer = asyncio.ensure_future(exam)
    try:
        ended = await work
        if ended.ok:
            await writer
        return ended
    finally:
        if not writer.done():
            writer.cancel()
            await asyncio.wait({writer})


def _is_spent(context: RunContext, state: TaskState) -> bool:
    """Return whether the exam of the task has cost what it may."""
    most = context.policy.exam_cost
    steps = context.journal.steps(f"{state.folder}/{INDEPENDENT.name}/")
    used = (read_as(LaunchOutput, step.output).usage for step in steps if step.output)
    return most is not None and sum(one.cost_usd or 0.0 for one in used if one is not None) >= most


async def write_tests(
    context: RunContext,
    state: TaskState,
    more: MoreTests,
    earlier: IndependentTests | None = None,
    beside: bool = False,
) -> Written:
    """Have tests written and tried out, out of sight of the work; `beside`: while somebody works."""
    testing, number = context.testing, max(state.own_tests.rounds, 1)
    assert testing is not None
    commands = _reporting(context, state)
    if not commands:
        return Written(why_not="no check reports its tests one by one")
    try:
        result = await _launch(context, testing, state, more, (earlier, number, beside), commands)
    except OverBudget as error:
        return Written(why_not=error.reason)
    output = result.output
    if not result.ok:
        return Written(why_not=output.verdict.reason)
    same = vendor_of(output.agent) == vendor_of(state.last.agent or context.worker)
    known = earlier.files if earlier is not None else ()
    tests = IndependentTests(
        commit=output.head,
        files=output.files,
        commands=commands,
        by=output.agent,
        same_vendor=same or (earlier is not None and earlier.same_vendor),
    )
    new = [path for path in tests.files if path not in known]
    tried = await _try_out(context, testing, state, tests, new, number)
    unusable = tried.unusable
    if all(_is_spoilt(path, unusable) for path in new):
        why = "; ".join(dict.fromkeys(f"{test} {why}" for test, why in unusable.items()))
        return Written(why_not=f"none can be used: {why}")
    return Written(tests, unusable, repeats=tried.repeats)


def _is_spoilt(path: str, unusable: Collection[str]) -> bool:
    return path in unusable


async def _launch(
    context: RunContext,
    testing: DetachedTests,
    state: TaskState,
    more: MoreTests,
    round_: tuple[IndependentTests | None, int, bool],
    commands: Sequence[str],
) -> StepResult[LaunchOutput]:
    """Launch the writer on the base of the task, in a folder that has nothing of the work."""
    task, base, names = state.task, state.base.head, list[str]()
    earlier, number, beside = round_
    attempts = context.attempts(INDEPENDENT, state)
    async for attempt in attempts:
        name = f"{task.key}-{attempt.number}"
        names.append(name)
        folder = await testing.open(base, name, earlier)
        wanted = "\n".join([task.text, *(criterion.text for criterion in task.criteria)])
        about = context.redact(context.source.context(task))
        interface = testing.interface(name, wanted)
        installed = find_libraries(context.workspace.root, context.checking.commands)
        asked = replace(more, keeps=_keeps(state), installed=installed)
        prompt = exam_prompt(task, about, interface, commands, asked, attempt.feedback)
        # Who works beside it changes the repository meanwhile, so nobody can say that the writer did.
        request = LaunchRequest(prompt, Mode.EDIT, folder, guarded=not beside)
        async with attempt.launch(request) as outcome:
            kept = (
                await testing.keep(name, task.key, base, earlier, number) if outcome.failure is None else None
            )
            failure = outcome.failure or (Failure(FailureKind.NO_CHANGE, _NO_TESTS) if not kept else None)
            attempt.output = LaunchOutput(
                verdict=verdict_after(failure, kept is not None),
                failure=failure,
                changed=kept is not None,
                files=kept.files if kept else (),
                head=kept.commit if kept else "",
            )
    for name in names:
        testing.close(name)
    return attempts.result


async def _try_out(
    context: RunContext,
    testing: DetachedTests,
    state: TaskState,
    tests: IndependentTests,
    files: Sequence[str],
    number: int,
) -> ExamOutput:
    """Run new tests without any work, as a step of the journal; return what that shows."""
    key, keeps = f"{state.folder}/{EXAM.name}/{number}", _keeps(state)

    async def work(_token: str) -> StepResult[ExamOutput]:
        from segue.proof.exam import find_unusable  # most projects have none

        await settle(context)
        base = state.base.head
        tree = await testing.lay_over(base, [tests.commit])
        found: dict[str, str] = {}
        for argv in context.checking.commands:
            if shlex.join(argv) in tests.commands:
                ended = await context.checking.sealer().run_twice(argv, base, tree, files)
                found |= find_unusable(*ended, files, may_pass=keeps) if ended is not None else {}
        criteria = (criterion.text for criterion in state.task.criteria)
        words = "\n".join((state.task.title, state.task.text, *criteria, context.source.context(state.task)))
        return StepResult(True, ExamOutput(found, await testing.only_repeat(tests, base, words)))

    facts = StepFacts(state.task.key, EXAM.name, number, proves=True)
    return (await context.journal.step(key, ExamOutput, work, facts=facts)).output


def _keeps(state: TaskState) -> bool:
    """Return whether the task asks for the same behaviour, which tests can look at before it is done."""
    return keeps_behaviour(f"{state.task.title}\n{state.task.text}")


def _reporting(context: RunContext, state: TaskState) -> tuple[str, ...]:
    """Return the checks that report tests, or would if there were any, as far as that is known."""
    if state.checks:
        return tuple(
            one.command
            for one in state.checks
            if not (one.scenario or one.of) and (one.runner or one.state is CheckState.NOTHING)
        )
    before = context.view.before.checks
    commands = [context.redact(shlex.join(argv)) for argv in context.checking.commands]
    known = {command: before[command] for command in commands if command in before}
    return tuple(
        command
        for command in commands
        if command not in known or not known[command].mute or known[command].state is BaseState.EMPTY
    )
