"""Check: the user's commands run where the agent has no say; what they complain about goes back to it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Collection

from msgspec.structs import replace

from segue.domain.events import VerdictGiven
from segue.domain.kinds import commands_in, with_kind
from segue.domain.proof import CheckResult, CheckState
from segue.domain.results import CheckOutput, StepFacts, StepResult
from segue.domain.task import TaskKind, TaskStatus
from segue.domain.verdict import Action
from segue.domain.workspace import Snapshot
from segue.flow.actions import what_follows
from segue.flow.commit import send_back
from segue.flow.context import RunContext
from segue.flow.disputes import (
    conclude_changes,
    drop_wrong_tests,
    dropped_tests,
    explain_failure,
    has_judges,
    lay_tests,
    let_judges_settle,
    name_changed_tests,
    own_failures,
    unseen_files,
    words_of,
)
from segue.flow.escalation import escalate
from segue.flow.evidence import checks_verdict, clean_result, refuse_switched_off, store_result
from segue.flow.exam import ask_again, work_beside
from segue.flow.phase import CHECK
from segue.flow.ratchet import (
    name_broken_tasks,
    proofs_to_run,
    run_again,
    scenarios_of,
    tests_to_watch,
)
from segue.flow.state import PhaseEnd, TaskState
from segue.flow.survey import known_before, settle, written_first
from segue.prompts.exam import MoreTests


async def check(context: RunContext, state: TaskState) -> PhaseEnd:
    """Run the checks; while that is allowed, send the agent back with what failed."""
    while not state.checked:
        results = await _run_once(context, state)
        state.checks = results = await let_judges_settle(context, state, results)
        failed = [result for result in results if not result.ok]
        if not failed:
            asked = await _ask_back(context, state)
            if asked is not None:
                return asked
            continue
        is_refused = any(result.state is CheckState.CONTESTED for result in failed)
        if not is_refused and await drop_wrong_tests(context, state, failed):
            continue
        verdict = state.verdict = checks_verdict(results)
        if any(result.state is CheckState.BROKEN for result in failed):
            return PhaseEnd(False, f"the checks cannot be run: {verdict.reason}")
        if what_follows(verdict, state.resolutions, context.policy.resolutions) is Action.STOP:
            return PhaseEnd(False, f"checks failed: {verdict.reason}")
        state.resolutions += 1
        await escalate(context, state, verdict.reason)
        failures = tuple(sorted(own_failures(state, failed)))
        more = MoreTests(failed=failures, repeats=bool(failures) and state.own_tests.repeats)
        back = send_back(context, state, verdict)
        ended = await (
            work_beside(back, ask_again(context, state, more, beside=True)) if more.failed else back
        )
        if not ended.ok:
            return ended
    return PhaseEnd(True)


async def _ask_back(context: RunContext, state: TaskState) -> PhaseEnd | None:
    """Send the agent back, once, for old tests that it changed unasked; otherwise the checks are content.

    Returns how the phase ends if the agent could not be launched.
    """
    verdict = name_changed_tests(state)
    if verdict is None or what_follows(verdict, state.resolutions, context.policy.resolutions) is Action.STOP:
        state.checks = conclude_changes(context, state)
        state.checked = True
        return None
    state.told_of_tests, state.verdict = True, verdict
    state.resolutions += 1
    ended = await send_back(context, state, verdict)
    return None if ended.ok else ended


async def _run_once(context: RunContext, state: TaskState) -> tuple[CheckResult, ...]:
    """Run all checks as one step of the journal."""
    commands = _commands(context, state)
    if not (commands or context.checking.examine or _has_scenarios(context, state)):
        return ()
    number = state.count(CHECK.name)
    key = f"{state.folder}/{CHECK.name}/{number}"

    async def work(_token: str) -> StepResult[CheckOutput]:
        tree = await context.workspace.tree(state.now)
        results = await _run_checks(context, state, commands, tree, key)
        if all(one.ok for one in results):
            results += await _run_earlier(context, state, tree, key)
        passed = all(one.ok for one in results)
        if not passed:
            await context.emit(VerdictGiven.of(state.task.key, checks_verdict(results), results), key)
        elif not has_judges(context) and (verdict := name_changed_tests(state, results)):
            await context.emit(VerdictGiven.of(state.task.key, verdict, results), key)
        return StepResult(passed, CheckOutput(results, tree))

    facts = StepFacts(state.task.key, CHECK.name, number, build_phase=state.task.build_phase, proves=True)
    found = (await context.journal.step(key, CheckOutput, work, facts=facts)).output
    state.tree = found.tree
    return found.checks


async def check_tree(context: RunContext, state: TaskState, base: str, tree: str, key: str) -> str:
    """Check the work of a task together with what others have merged since it began; say what is wrong."""
    start = replace(state.start, base=Snapshot(base, state.base.branch, ""), seen=0)
    merged = replace(state, start=start)
    results = await _run_checks(context, merged, _commands(context, state), tree, key)
    if all(one.ok for one in results):
        results += await _run_earlier(context, merged, tree, key)
    return checks_verdict(tuple(one for one in results if not one.ok)).reason


def _has_scenarios(context: RunContext, state: TaskState) -> bool:
    return bool(scenarios_of(context, state.task) or proofs_to_run(context, state))


def _commands(context: RunContext, state: TaskState) -> tuple[tuple[str, ...], ...]:
    """Return the commands that apply to the task: it may name some itself, and the story that it ends too."""
    checking, task = context.checking, state.task
    named = commands_in(task.text) if task.kind is TaskKind.VERIFY_ONLY else ()
    named = (*named, *commands_in(task.independent_test))
    return tuple(dict.fromkeys((*checking.commands, *checking.smoke.get(task.build_phase or "", ()), *named)))


async def _run_checks(
    context: RunContext, state: TaskState, commands: tuple[tuple[str, ...], ...], tree: str, key: str
) -> tuple[CheckResult, ...]:
    """Run commands on a tree, compared with what the task began with; what they say becomes events."""
    await settle(context)
    checking, task = context.checking, state.task
    red = {*expected_red(context, state), *dropped_tests(context, state)}
    results: list[CheckResult] = []
    for argv in commands:
        began = time.monotonic()
        base, head = await lay_tests(context, state, shlex.join(argv), tree)
        before = known_before(context, task, context.redact(shlex.join(argv)))
        watched = tests_to_watch(context, state, context.redact(shlex.join(argv)))
        result = await checking.sealer().check(
            argv,
            base,
            head,
            kind=task.kind,
            expected_red=red,
            before=before,
            watched=watched,
            words=words_of(context, task),
            measured=True,
            unseen=unseen_files(state),
        )
        result = await explain_failure(context, state, name_broken_tasks(context, state, result))
        result = clean_result(context.redact, result)
        if not has_judges(context):  # they are asked about it
            result = refuse_switched_off(result)
        results.append(result)
        await store_result(context, state, key, result, began)
    for scenario in scenarios_of(context, task):
        began = time.monotonic()
        found = await checking.sealer().try_scenario(scenario, state.base.head, tree)
        result = clean_result(context.redact, found)
        results.append(result)
        await store_result(context, state, key, result, began)
    if checking.examine is None:
        return tuple(results)
    began = time.monotonic()
    async with context.workspace.checkout(state.head) as folder:
        examined = await checking.examine(folder)
    if examined is not None:
        await store_result(context, state, key, examined.check, began, examined)
        results += [examined.check] if examined.decides else []
    return tuple(results)


async def _run_earlier(context: RunContext, state: TaskState, tree: str, key: str) -> tuple[CheckResult, ...]:
    """Run again what earlier tasks have shown, as far as this one may have broken it."""
    results: list[CheckResult] = []
    for proof in proofs_to_run(context, state):
        began = time.monotonic()
        results.append(clean_result(context.redact, await run_again(context, state, proof, tree)))
        await store_result(context, state, key, results[-1], began)
    return tuple(results)


def expected_red(context: RunContext, state: TaskState) -> Collection[str]:
    """Return the tests that may still fail: those of test-first tasks for work still to come."""
    written = written_first(context)
    return written if written and _is_more_to_build(context, state) else ()


def _is_more_to_build(context: RunContext, state: TaskState) -> bool:
    """Return whether a later task, of the same story where there is one, may make the tests pass."""
    task = state.task
    if task.kind is not TaskKind.BUILD:
        return True
    tasks = context.source.tasks().tasks
    keys = [one.key for one in tasks]
    later = tasks[keys.index(task.key) + 1 :] if task.key in keys else ()
    if context.lane is not None:  # an earlier one may still be at work
        later = tuple(one for one in tasks if one.key != task.key)
    return any(
        one.status is TaskStatus.PENDING
        and one.story == task.story
        and with_kind(one, context.policy.kinds).kind is TaskKind.BUILD
        for one in later
    )
