"""Describes events for people, in the same words in the terminal, in logs and on the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from segue.domain import events as e
from segue.domain.amounts import describe_until, format_count, format_duration, list_some
from segue.domain.proof import BaseState
from segue.domain.statement import describe_proof
from segue.domain.verdict import Result


def describe_event(recorded: e.Recorded) -> str | None:
    """Describe an event in one line; None if it is of no interest to people."""
    if isinstance(recorded.event, e.RunParked | e.WaitBegan):
        return _describe_wait(recorded.event, recorded.ts / 1000)
    describe = _DESCRIPTIONS.get(type(recorded.event))
    return describe(recorded.event) if describe else recorded.event.describe()


def locate_event(recorded: e.Recorded) -> str:
    """Return where in a run an event belongs: `3 execute 1`."""
    parts = (recorded.step or "").split("/")
    if parts[0] in ("task", "final", "run", "turn"):
        return " ".join(parts[1:])
    return str(getattr(recorded.event, "task", None) or "")


def _describe_wait(event: e.RunParked | e.WaitBegan, at: float) -> str:
    until = describe_until(event.until, at)
    if isinstance(event, e.RunParked):
        return f"usage limit: task {event.task} waits {until}"
    return f"waiting for {event.service} {until}: {event.reason}"


def _describe_diagnostic(event: e.DiagnosticRun) -> str:
    ending = f"exit code {event.exit_code}" if event.allowed else f"not allowed: {event.reason}"
    return f"diagnostic {event.command}: {ending}"


def _describe_task_end(event: e.TaskEnded) -> str:
    if event.skipped or event.replanned:
        return f"task {event.task} {event.reason or ('skipped' if event.skipped else 'replanned')}"
    if event.done:
        proof = f": {describe_proof(event.proof)}" if event.proof else ""
        return f"task {event.task} done{proof}" + (f", commit {event.commit[:10]}" if event.commit else "")
    return f"task {event.task} needs a human: {event.reason}"


def _describe_collision(event: e.TaskCollided) -> str:
    others = ", ".join(event.tasks) or "new commits"
    return f"task {event.task} collides with {others}: {event.reason}: {_THEN[event.then]}"


def _describe_kept(event: e.WorkKept) -> str:
    if not event.ref:
        return f"what task {event.task} had left is in the work tree again"
    return f"what task {event.task} left ({list_some(event.files, 5)}) is kept as {event.ref}"


_THEN = {"again": "it is run again", "resolve": "an agent resolves it", "human": "it needs a human"}
"""What follows a collision."""


def _describe_agent_end(event: e.AgentEnded) -> str:
    ending = "finished" if event.exit_code is None else f"exit code {event.exit_code}"
    adopted = " (adopted)" if event.was_adopted else ""
    return f"agent ended: {event.failure.kind if event.failure else ending}{adopted}"


def _describe_circle(event: e.AgentStuck) -> str:
    agent = f"the agent of task {event.task}" if event.task else "the agent"
    if not event.reason:
        return f"{agent} has moved on"
    told = "; it was told" if event.told else ""
    ends = f"; it is ended in {format_duration(event.ends)} unless that changes" if event.ends else ""
    return f"{agent} seems stuck: {event.reason}{told}{ends}"


def _describe_verdict(event: e.VerdictGiven) -> str:
    if event.result is Result.PASS:  # without criteria nothing was judged: an agent has ended well
        met = len(event.criteria)
        said = "the one criterion is met" if met == 1 else f"all {met} criteria are met"
        return said if met else event.reason or "changed"
    asked = f" → {event.action} {event.request}".rstrip() if event.request else ""
    return f"{event.result}: {event.reason}{asked}"


def _describe_check(event: e.CheckRun) -> str:
    ending = "could not be run" if event.exit_code is None else f"exit code {event.exit_code}"
    found = event.result
    if found is None or found.state is None:
        return f"check {event.command}: {ending}"
    return f"check {event.command}: {found.state}" + (f": {found.reason}" if found.reason else "")


def _describe_base(event: e.BaseChecked) -> str:
    red = [check.words for check in event.checks if check.words]
    if event.checks and all(check.state is BaseState.EMPTY for check in event.checks):
        return "there are no tests before the first launch"
    return "; ".join(red) or "the checks pass before the first launch"


def _describe_review(event: e.Reviewed) -> str:
    if event.failure:
        return f"reviewer failed: {event.failure}"
    return format_count(event.findings, "finding")


def pick_input(given: Any) -> Any:
    """Return the most informative part of the input of a tool, or all of it."""
    known = given if isinstance(given, Mapping) else {}
    return next((known[name] for name in _INFORMATIVE if known.get(name)), given)


_INFORMATIVE = ("path", "file_path", "command", "pattern", "query", "url", "description")
"""The most informative inputs of tools, best first."""

_WAYS = {"session": "in its session", "turn": "as its next turn", "launch": "with its prompt"}

_DESCRIPTIONS: dict[type[e.Event], Callable[[Any], str | None]] = {
    e.RunStarted: lambda v: (
        f"run started: {v.source} with {v.agent}" + (f" from branch {v.base} of origin" if v.base else "")
    ),
    e.RunResumed: lambda v: f"run resumed: {v.source} with {v.agent}",
    e.WaitEnded: lambda v: f"{v.service} is back after {format_duration(v.seconds)}",
    e.RunEnded: lambda v: f"run ended: {v.state}",
    e.StateImported: lambda v: f"state imported: {v.text}",
    e.NoticeGiven: lambda v: f"line {v.line}: {v.text}" if v.line is not None else v.text,
    e.BudgetPassed: lambda v: f"{f'task {v.task}' if v.task else 'the plan'} used {v.text}",
    e.TaskStarted: lambda v: (
        f"task {v.task} started{f' on lane {v.lane}' if v.lane else ''}: {v.title}"
        + (f" (waited for {v.after}: {v.why})" if v.after else "")
    ),
    e.TaskWaiting: lambda v: f"task {v.task} waits for {', '.join(v.by)}: {v.why}",
    e.TaskMerged: lambda v: f"task {v.task} is merged: {v.commit[:10]}",
    e.TaskCollided: _describe_collision,
    e.GateReached: lambda v: (
        f"waits for a person: {v.text}"
        if v.task == e.PLAN_GATE
        else f"waits for a person after task {v.task}: {v.text}"
    ),
    e.TaskCommented: lambda v: (
        f"{v.by} on {'the plan' if v.task == e.PLAN_GATE else v.task}: {v.text}"
        f"{' (the task was done by then: nobody has got it)' if v.how == 'late' else ''}"
    ),
    e.WordsDelivered: lambda v: f"the agent has got what was said, {_WAYS[v.how]}",
    e.GatePassed: lambda v: f"a person let it continue after task {v.task}",
    e.TaskBlocked: lambda event: f"task {event.task} waits for {', '.join(event.by)}: {event.why}",
    e.TaskMarked: lambda v: f"{v.by} decided about task {v.task}: {v.reason}" if v.by else None,
    e.TaskEnded: _describe_task_end,
    e.WorkKept: _describe_kept,
    e.StepAdopted: lambda _: "continues where it was interrupted",
    e.PlanRevised: lambda v: f"plan of {format_count(len(v.new), 'step')}: {v.reason}",
    e.AgentChosen: lambda v: (
        f"{v.agent} {'takes over from ' + v.before if v.before else 'begins'}: {v.reason}"
    ),
    e.AgentReplaced: lambda v: f"{v.agent} is unavailable ({v.reason}): switched to {v.next}",
    e.CheckRun: _describe_check,
    e.BaseChecked: _describe_base,
    e.Tampered: lambda v: "tampering: " + " ".join(finding.text for finding in v.findings),
    e.SearchDone: lambda v: f"searched {v.query!r}: {v.failure or format_count(len(v.results), 'result')}",
    e.DiagnosticRun: _describe_diagnostic,
    e.Committed: lambda v: f"committed {v.commit[:10]}",
    e.AgentStarted: lambda v: " ".join(
        filter(None, ("agent started:", Path(v.argv0).name, v.agent_id, v.url))
    ),
    e.AgentText: lambda v: f"agent: {v.text}",
    e.AgentTool: lambda v: f"agent uses {v.name} {pick_input('' if v.input is None else v.input)}".rstrip(),
    e.AgentOutput: lambda v: f"agent prints: {v.text}" if v.text else None,
    e.AgentStuck: _describe_circle,
    e.AgentEnded: _describe_agent_end,
    e.VerdictGiven: _describe_verdict,
    e.Reviewed: _describe_review,
    e.WorkDelivered: lambda v: v.text,
    e.FeedbackReceived: lambda v: f"task {v.task} from the pull request: {v.title}",
    e.FeedbackAnswered: lambda v: f"task {v.task} was answered on the pull request",
    e.FinalCommandRun: lambda v: f"{v.label}: {v.command}: exit code {v.exit_code}",
}
