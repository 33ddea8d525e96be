"""What follows from a verdict: the policy table, and what each action does.

Who judges a flow that builds from one prompt may ask for more than another attempt: a search on the web, a
command from a list, a new plan.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable

from msgspec import Struct

from segue.domain.diagnostic import find_refusal, parse
from segue.domain.events import DiagnosticRun, SearchDone
from segue.domain.job import Mode
from segue.domain.results import (
    DiagnosticOutput,
    LaunchInput,
    LaunchOutput,
    StepFacts,
    StepResult,
)
from segue.domain.text import keep_start
from segue.domain.verdict import Action, Hit, Result, Verdict
from segue.flow.context import Building, RunContext
from segue.flow.evidence import tree_before, undo_edits, verdict_after
from segue.flow.launch import LaunchRequest
from segue.flow.phase import DIAGNOSTIC, SEARCH
from segue.flow.phases.outline import may_replan, replan
from segue.flow.state import PhaseEnd, TaskState
from segue.prompts.task import research_prompt

_KEPT = 16 * 1024
"""How much the agent is told of what a search or a command has brought."""
_ADDRESS = re.compile(r"https?://[^\s<>\"')\]}]+")


class Round(Struct, frozen=True):
    """A verdict that is not PROCEED, and everything around it."""

    context: RunContext
    building: Building
    state: TaskState
    verdict: Verdict

    @property
    def request(self) -> str:
        """What the judge asks for: what to search, which command to run, why the step is skipped."""
        return self.verdict.request or self.verdict.reason


class Resolution(Struct, frozen=True):
    """What an action brings: notes for the next attempt, or the end of the phase."""

    notes: str = ""
    end: PhaseEnd | None = None


async def retry(_now: Round) -> Resolution:
    """RETRY: send the agent back with what is missing; nothing else is needed."""
    return Resolution()


async def skip(now: Round) -> Resolution:
    """SKIP: leave the step out, with the judge's reason."""
    return Resolution(end=PhaseEnd(True, f"skipped: {now.request}", skipped=True))


async def modify(now: Round) -> Resolution:
    """MODIFY_PLAN: plan the rest again and end the step; it comes again if the new plan keeps it."""
    if not may_replan(now.context, now.building, now.state):
        limit = now.building.replans
        return Resolution(
            end=PhaseEnd(False, f"Replan limit ({limit}) reached. The judge says: {now.request}")
        )
    result = await replan(now.context, now.building, now.state, now.request, done=False)
    if not result.ok:
        return Resolution(end=PhaseEnd(False, f"no new plan: {result.output.verdict.reason}"))
    return Resolution(end=PhaseEnd(False, f"planned again: {now.request}", replanned=True))


async def diagnose(now: Round) -> Resolution:
    """RUN_DIAGNOSTIC: run a command that the judge asks for; one that is not allowed is refused."""
    context, task, command = now.context, now.state.task, now.verdict.request
    number = now.state.resolutions
    key = f"{now.state.folder}/{DIAGNOSTIC.name}/{number}"

    async def work(_token: str) -> StepResult[DiagnosticOutput]:
        began = time.monotonic()
        refused, code, printed = await _run_allowed(now, command)
        seconds, output = round(time.monotonic() - began, 3), context.redact(printed)[-_KEPT:]
        said = (command, not refused, refused, code, seconds, output)
        await context.emit(DiagnosticRun(task.key, *said, task.build_phase), key)
        return StepResult(not refused, DiagnosticOutput(*said))

    facts = StepFacts(task.key, DIAGNOSTIC.name, number, build_phase=task.build_phase)
    found = (await context.journal.step(key, DiagnosticOutput, work, facts=facts)).output
    if not found.allowed:
        return Resolution(f"The command `{command}` was asked for, but it was not run: {found.reason}")
    ended = "could not be run" if found.exit_code is None else f"exit code {found.exit_code}"
    return Resolution(f"$ {command}\n{ended}\n{found.output}")


async def _run_allowed(now: Round, command: str) -> tuple[str, int | None, str]:
    """Return why it was refused, or its exit code and output."""
    try:
        argv = parse(command)
    except ValueError as problem:
        return str(problem), None, ""
    refused = find_refusal(argv, now.building.diagnostics)
    if refused:
        return refused, None, ""
    async with now.context.workspace.checkout(now.state.head) as folder:
        code, output = await now.building.run_diagnostic(argv, folder)
    return "", code, output


async def search(now: Round) -> Resolution:
    """WEB_SEARCH: ask an agent; the one at work is told what was found, or that it failed."""
    context, state, query = now.context, now.state, now.request
    task, attempts = state.task, context.attempts(SEARCH, state)
    async for attempt in attempts:
        tree = await tree_before(context, attempt.key, state.now)
        request = LaunchRequest(
            research_prompt(task, query, attempt.feedback),
            Mode.ASK,
            context.workspace.root,
            state.head,
            web=True,
            before=LaunchInput(tree=tree),
        )
        async with attempt.launch(request) as outcome:
            edited = await undo_edits(context, task.key, tree, outcome)
            ended = edited or LaunchOutput(verdict=verdict_after(outcome.failure), failure=outcome.failure)
            failure = ended.failure.message if ended.failure else ""
            await _store(now, attempt.key, attempt.by.name, _sources(outcome.text), failure)
            attempt.output = ended
    output = attempts.result.output
    if output.failure:
        return Resolution(f"A search for {query!r} was tried, but it failed: {output.failure.message}")
    return Resolution(f"A search for {query!r} found:\n\n{keep_start(output.text, _KEPT)}")


def _sources(text: str) -> tuple[Hit, ...]:
    """Return the pages an agent names."""
    addresses = dict.fromkeys(address.rstrip(".,;:") for address in _ADDRESS.findall(text))
    return tuple(Hit(url=address) for address in addresses)


async def _store(now: Round, key: str, source: str, results: tuple[Hit, ...], failure: str) -> None:
    task, number = now.state.task, now.state.resolutions
    event = SearchDone(task.key, now.request, source, results, number, failure, task.build_phase)
    await now.context.emit(event, key)


ACTIONS: dict[Action, Callable[[Round], Awaitable[Resolution]]] = {
    Action.RETRY: retry,
    Action.WEB_SEARCH: search,
    Action.RUN_DIAGNOSTIC: diagnose,
    Action.SKIP: skip,
    Action.MODIFY_PLAN: modify,
}
"""Verdict → action. PROCEED needs none; what is not in the table counts as RETRY."""

COUNTED = (Action.RETRY, Action.WEB_SEARCH, Action.RUN_DIAGNOSTIC)
"""The actions that use up the resolutions of a task; replanning has a limit of its own."""


def what_follows(verdict: Verdict, spent: int, limit: int, chooses: bool = True) -> Action:
    """Return what follows from a verdict when the task was sent back `spent` times of at most `limit`.

    STOP: a person is needed. A judge that does not choose has one answer to work that is not done: RETRY.
    """
    if verdict.result is Result.PASS:
        return Action.PROCEED
    if verdict.action is Action.STOP:
        return Action.STOP
    action = verdict.action if chooses and verdict.action in ACTIONS else Action.RETRY
    return Action.STOP if action in COUNTED and spent >= limit else action
