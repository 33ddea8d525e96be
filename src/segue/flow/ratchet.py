"""The ratchet: what earlier tasks have proven must stay true.

Tests of earlier tasks run with every check. Scenarios, and the commands of tasks that only verify, are run
again when a task changes files that their own task changed, and all of them at the end of a story, of a build
phase and of the run.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from fnmatch import fnmatchcase

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.kinds import commands_in, with_kind
from segue.domain.options import OptionError
from segue.domain.proof import CheckResult
from segue.domain.results import LaunchOutput, read_as
from segue.domain.scenario import Scenario, scenarios_in
from segue.domain.task import Task, TaskKind, TaskStatus
from segue.flow.context import RunContext
from segue.flow.state import TaskState


def scenarios_of(context: RunContext, task: Task) -> tuple[Scenario, ...]:
    """Return the scenarios that show the work of a task."""
    configured = context.checking.scenarios
    named = [one for one in configured if one.task is not None and fnmatchcase(task.key, one.task)]
    final = [one for one in configured if one.task is None]
    if final and _is_last(context, task):
        named += final
    return (*named, *_in_text(task))


def _is_last(context: RunContext, task: Task) -> bool:
    tasks = context.source.tasks().tasks
    return bool(tasks) and tasks[-1].key == task.key


def _in_text(task: Task) -> tuple[Scenario, ...]:
    """Return the scenarios in the text; one that was spoiled since the run was planned is left out."""
    if "scenario" not in task.text:
        return ()
    try:
        return scenarios_in(task.text)
    except OptionError:
        return ()


_MOST_AT_ONCE = 3
"""How many are run again after one task; the others wait for the end of the story, phase or run."""


class EarlierProof(Struct, frozen=True):
    """Something that an earlier task has shown and that can be run again."""

    task: str
    command: str
    scenario: Scenario | None = None
    argv: tuple[str, ...] = ()


def proofs_to_run(context: RunContext, state: TaskState) -> tuple[EarlierProof, ...]:
    """Return what is to be run again now: the latest first."""
    earlier = list(_earlier_proofs(context, state))
    if not earlier or _is_checkpoint(context, state.task):
        return tuple(earlier)
    touched = _footprint(context, state.task.key)
    near = [proof for proof in earlier if touched & _footprint(context, proof.task)]
    return tuple(near[:_MOST_AT_ONCE])


async def run_again(context: RunContext, state: TaskState, proof: EarlierProof, tree: str) -> CheckResult:
    """Run the proof of an earlier task on the work as it is now."""
    checking = context.checking
    if proof.scenario is not None:
        result = await checking.sealer().try_scenario(proof.scenario, None, tree)
    else:
        result = await checking.sealer().check(proof.argv, state.base.head, tree, kind=TaskKind.VERIFY_ONLY)
    reason = "" if result.ok else f"This breaks Task {proof.task}. {result.reason}".strip()
    return replace(result, of=proof.task, reason=reason, proved=(), idle=())


def name_broken_tasks(context: RunContext, state: TaskState, result: CheckResult) -> CheckResult:
    """Say which earlier tasks a failed check breaks, by the tests that proved them."""
    if result.ok or not result.broken:
        return result
    broken = set(result.broken)
    keys = [
        key
        for key, task in context.view.tasks.items()
        if key != state.task.key and task.proof is not None
        if any(broken & set(check.proved) for check in task.proof.checks)
    ]
    if not keys:
        return result
    words = f"Task {keys[0]}" if len(keys) == 1 else f"Tasks {', '.join(keys)}"
    return replace(result, reason=f"This breaks {words}. {result.reason}".strip())


def _earlier_proofs(context: RunContext, state: TaskState) -> Iterator[EarlierProof]:
    """Yield what the tasks have shown that are done, the latest first, each thing once."""
    own = {one.command for one in scenarios_of(context, state.task)}
    own |= {shlex.join(argv) for argv in context.checking.commands}
    for other in _done_tasks(context, state):
        for proof in _proofs_of(context, other):
            if proof.command not in own:
                own.add(proof.command)
                yield proof


def _done_tasks(context: RunContext, state: TaskState) -> list[Task]:
    """Return the tasks that are done and whose work this one builds on."""
    done = context.view.repeatable - {state.task.key}
    if state.start.seen:
        tasks = context.view.tasks
        done = {key for key in done if (tasks[key].ended or 0) < state.start.seen}
    if not done:
        return []
    listed = [one for one in context.source.tasks().tasks if one.key in done]
    return [with_kind(one, context.policy.kinds) for one in reversed(listed)]


def _proofs_of(context: RunContext, task: Task) -> Iterator[EarlierProof]:
    for scenario in scenarios_of(context, task):
        yield EarlierProof(task.key, scenario.command, scenario)
    if task.kind is TaskKind.VERIFY_ONLY:
        for argv in commands_in(task.text):
            yield EarlierProof(task.key, shlex.join(argv), argv=argv)


def _is_checkpoint(context: RunContext, task: Task) -> bool:
    """Return whether a story, a build phase or the run ends with this task."""
    tasks = context.source.tasks().tasks
    keys = [one.key for one in tasks]
    later = tasks[keys.index(task.key) + 1 :] if task.key in keys else ()
    chosen = context.journal.run.spec.tasks
    pending = (one for one in later if one.status is TaskStatus.PENDING and (not chosen or one.key in chosen))
    following = next(pending, None)
    here = (task.story, task.build_phase)
    return following is None or (following.story, following.build_phase) != here


def _footprint(context: RunContext, key: str) -> set[str]:
    """Return the files that the launches of a task changed."""
    found: set[str] = set()
    for step in context.journal.steps(f"task/{key}/"):
        if step.agent is not None and step.output:
            found.update(read_as(LaunchOutput, step.output).files)
    return found


def tests_to_watch(context: RunContext, state: TaskState, command: str) -> set[str]:
    """Return the tests that proved earlier tasks by a command and must pass still."""
    return {test for tests in _proving_tests(context, state) for test in tests.get(command, ())}


def count_holding(context: RunContext, state: TaskState) -> tuple[int, int]:
    """Return how many proofs of earlier tasks were tried again now, and how many still hold.

    A test that failed, was skipped or is gone shows nothing any more.
    """
    again = [check for check in state.checks if check.of]
    tried, holding = len(again), sum(check.ok for check in again)
    now = {check.command: check for check in state.checks if not (check.scenario or check.of)}
    for tests in _proving_tests(context, state):
        checks = [(now[command], names) for command, names in tests.items() if command in now]
        if any(check.passed or check.proved for check, _ in checks):
            tried += 1
            holding += all(_still_pass(check, names) for check, names in checks)
    return tried, holding


def breaks_earlier(context: RunContext, state: TaskState) -> bool:
    """Return whether this task changed or removed what proved an earlier one, and nothing asks for that."""
    changed = {one.test for check in state.checks for one in check.unsettled}
    return any(names & changed for tests in _proving_tests(context, state) for names in tests.values())


def _still_pass(check: CheckResult, tests: set[str]) -> bool:
    gone = {*check.lost, *check.failing, *check.broken}.difference(check.flaky)
    gone |= {test for one in check.contested for test in one.tests}
    return not tests & gone


def _proving_tests(context: RunContext, state: TaskState) -> Iterator[dict[str, set[str]]]:
    """Yield what proved each earlier task that is part of the base: its tests by command.

    Without those that were written to fail, and those that a task was found to have changed as it should.
    """
    seen = state.start.seen
    known = [task for key, task in context.view.tasks.items() if key != state.task.key and task.proof]
    proofs = [task.proof for task in known if task.proof is not None]
    checks = [*state.checks, *(check for proof in proofs for check in proof.checks)]
    may_go = {one.test for check in checks for one in check.changed_tests} - {
        one.test for check in checks for one in check.unsettled
    }
    may_go = may_go.union(state.own_tests.dropped, *(proof.dropped for proof in proofs))
    for task in known:
        if task.kind is TaskKind.TEST_FIRST or (seen and (task.ended or 0) > seen) or task.proof is None:
            continue
        tests: dict[str, set[str]] = {}
        for check in task.proof.checks:
            if not (check.scenario or check.of):
                tests.setdefault(check.command, set()).update(set(check.proving) - may_go)
        if any(tests.values()):
            yield {command: names for command, names in tests.items() if names}
