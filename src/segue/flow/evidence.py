"""Done is a claim until there is evidence: what an attempt claimed, against what can be seen."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from segue.domain.amounts import list_some
from segue.domain.errors import AGAIN, Unfinished, WorkspaceError
from segue.domain.events import CheckRun, NoticeGiven, PatchMade
from segue.domain.job import Role
from segue.domain.outcome import Failure, FailureKind, Outcome
from segue.domain.proof import CheckResult, CheckState
from segue.domain.question import ASKS, find_question
from segue.domain.results import LaunchInput, LaunchOutput, read_as
from segue.domain.verdict import Action, CriterionVerdict, Result, Verdict
from segue.domain.workspace import Snapshot, WorkChanges
from segue.flow.context import Examination, RunContext
from segue.flow.endings import advise, cited_files, way_out
from segue.flow.errors import ErrorRecorder
from segue.flow.pushed import guard_branch
from segue.flow.state import TaskState
from segue.system.git.folders import find_place
from segue.system.git.index import name_heavy
from segue.system.git.objects import Objects

RETRIED = {FailureKind.CRASH, FailureKind.RATE_LIMIT, FailureKind.NO_RESULT, FailureKind.TRUNCATED}
RETRIED |= {FailureKind.TIMEOUT, FailureKind.HANG, FailureKind.NO_CHANGE, FailureKind.LOST}
RETRIED |= {FailureKind.OUTAGE, FailureKind.MAX_TURNS, FailureKind.STUCK, FailureKind.TAMPERED}
RETRIED |= {
    FailureKind.UNSHOWN,
    FailureKind.UNKNOWN,
    FailureKind.INTERRUPTED,
    FailureKind.USAGE_LIMIT,
    FailureKind.REFUSED,
}
"""Failures that another attempt may overcome; a wrong key or a missing program will not go away."""

_SAYS_LITTLE = {FailureKind.USAGE_LIMIT, FailureKind.RATE_LIMIT, FailureKind.OUTAGE, FailureKind.AUTH}
_SAYS_LITTLE |= {FailureKind.NOT_STARTED, FailureKind.INTERRUPTED, FailureKind.LOST, FailureKind.DELETED}
_SAYS_LITTLE |= {FailureKind.BRANCH, FailureKind.TAMPERED}
"""Failures after which there is nothing to judge: nobody worked, or nobody knows what was done."""

_NO_CHANGE = "The agent ended, but nothing in the work tree or on the branch has changed."
_LAST_WORDS = 300
_LOOKS = (0.2, 2.0)
"""Seconds until a look at the work tree that failed is repeated."""
_KEPT_FILES = 200
_LISTED = 5
_KEPT_DIFF = 256 * 1024


def failure_of(outcome: Outcome, changed: bool, allow_no_change: bool) -> Failure | None:
    """Return why the attempt failed, given the evidence; None when it succeeded."""
    if outcome.failure is not None:
        return outcome.failure
    if not changed and not allow_no_change:
        return _explain_no_change(outcome)
    return None


def _explain_no_change(outcome: Outcome) -> Failure:
    """Return why nothing has changed: the agent asks something, met an error, or said something else."""
    said = outcome.text.strip()
    if question := find_question(said):
        return Failure(FailureKind.QUESTION, f"{ASKS}{question}")
    if outcome.doubt is not None:
        return outcome.doubt
    last = " ".join(said[-_LAST_WORDS:].split())
    words = f"It said last: {'…' if len(said) > _LAST_WORDS else ''}{last}" if last else "It said nothing."
    known = (*outcome.facts.get("inside", ()), *_describe_tools(outcome.facts))
    return Failure(FailureKind.NO_CHANGE, " ".join((_NO_CHANGE, *known, words)))


def _describe_tools(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Say that nothing which the agent tried succeeded: it may not be lazy, but unable."""
    used, failed = facts.get("tools", 0), facts.get("tools_failure", 0)
    if not used or used != failed:
        return ()
    uses = "The only use of a tool" if used == 1 else f"All {used} uses of tools"
    return (f"{uses} failed: the agent's version may not fit its model.",)


def gets_verdict(context: RunContext, failure: Failure | None) -> bool:
    """Return whether a judge decides what follows from a failed attempt, as from any other work.

    So are failures of a build measured. A cloud agent that ends well is verified, whatever it pushed.
    """
    if failure is None or context.judging is None:
        return False
    if context.building is not None:
        return failure.kind not in _SAYS_LITTLE
    return context.cloud and failure.kind is FailureKind.NO_CHANGE


def take_attempt(state: TaskState, output: LaunchOutput) -> None:
    """Take over what an attempt left; of one that failed, the judge is told why."""
    state.take(output)
    if output.failure is not None:
        said = "\n".join(filter(None, (f"The attempt failed: {output.failure.message}", output.text)))
        state.last = replace(state.last, summary=said)


def verdict_after(failure: Failure | None, changed: bool = False) -> Verdict:
    """Return what follows from an attempt."""
    if failure is None:
        return Verdict(Result.PASS, Action.PROCEED, "changed" if changed else "no change needed")
    partial = changed and failure.kind not in (FailureKind.NOT_STARTED, FailureKind.AUTH)
    action = Action.RETRY if failure.kind in RETRIED else Action.STOP
    return Verdict(Result.PARTIAL if partial else Result.FAIL, action, advise(failure))


def start_of(context: RunContext, state: TaskState) -> str:
    """Return what a launch starts from: a cloud agent gets the branch, others the commit.

    One that cannot continue a session starts where the last attempt has stopped.
    """
    if not context.cloud:
        return state.base.head
    continues = context.agents[Role.EXECUTE][0].agent.can.follow_up
    return state.base.branch if continues else state.now.branch


async def changes_since(
    context: RunContext, state: TaskState, key: str, outcome: Outcome, *, allow_no_change: bool
) -> LaunchOutput:
    """Conclude from what the agent has left, compared with what the task began with; `key` is the step.

    A git that fails or is killed meanwhile says nothing about the agent, which is not launched again for it.
    """
    for pause in _LOOKS:
        with suppress(WorkspaceError):
            return await _look(context, state, key, outcome, allow_no_change)
        await asyncio.sleep(pause)
    try:
        return await _look(context, state, key, outcome, allow_no_change)
    except WorkspaceError as error:
        raise Unfinished(
            f"What the agent of task {state.task.key} left could not be looked at: {error.message}",
            reason=error.message,
            kept="Its work is where it left it; on resume only the look is repeated.",
            hint=f"Fix what git reports, then {AGAIN}",
        ) from error


async def _look(
    context: RunContext, state: TaskState, key: str, outcome: Outcome, allow_no_change: bool
) -> LaunchOutput:
    lost: Failure | None = None
    now = state.now
    try:
        now = await guard_branch(
            context, state, await context.workspace.arrive(outcome.branches, state.now), key
        )
    except WorkspaceError as error:
        if not context.cloud:
            raise
        lost = Failure(FailureKind.BRANCH, error.message)
    moved = now != state.base
    changes = await context.workspace.changes(state.base, now) if moved else WorkChanges()
    changed = changes != WorkChanges()  # commits without files, and branches without commits, change nothing
    files = changes.files
    if changed and not (changes.links or changes.unmerged):  # git makes no tree of these
        await _record_patch(context, state, now, len(files), key)
    wrong = lost or await _find_way_out(context, state, outcome, (now, files)) or _not_committable(changes)
    failure = failure_of(replace(outcome, failure=outcome.failure or wrong), changed, allow_no_change)
    return LaunchOutput(
        verdict=verdict_after(failure, changed),
        failure=failure,
        changed=changed,
        files=files[:_KEPT_FILES],
        files_changed=len(files),
        head=now.head,
        branch=now.branch,
    )


async def _find_way_out(
    context: RunContext, state: TaskState, outcome: Outcome, left: tuple[Snapshot, Collection[str]]
) -> Failure | None:
    """Return how an agent ended that gives up or asks; what it wrote itself shows nothing."""
    root, (now, files), diff = context.workspace.root, left, ""
    if cited_files(outcome, root) & set(files):
        with suppress(WorkspaceError):  # git makes no tree of an unfinished merge
            _, diff = await context.workspace.patch(state.base.head, now)
    return way_out(outcome, state.task, root, diff)


async def _record_patch(context: RunContext, state: TaskState, now: Snapshot, files: int, key: str) -> None:
    """Record what the attempt left as a diff: the branch may be gone when somebody asks for it."""
    task, base = state.task.key, state.base.head
    try:
        tree, diff = await context.workspace.patch(base, now)
    except WorkspaceError as error:
        await context.emit(NoticeGiven(f"The patch was not recorded: {error.message}", task=task), key)
        return
    cut = max(0, len(diff) - _KEPT_DIFF)
    kept = f"{diff[:_KEPT_DIFF]}\n[{cut} characters cut]\n" if cut else diff
    await context.emit(PatchMade(task, base, now.head, tree, kept, files, cut), key)


def _not_committable(changes: WorkChanges) -> Failure | None:
    """Return a failure when a commit would not hold the work, or would hold the rest of a conflict."""
    if changes.links:
        text = (
            f"{', '.join(changes.links[:5])} has a git repository of its own, so a commit would hold a link "
            "to it and none of its files. Its work must be part of this repository."
        )
    elif changes.unmerged or changes.conflicted:
        files = dict.fromkeys((*changes.unmerged, *changes.conflicted))
        text = f"A merge was left unresolved: {', '.join([*files][:5])}."
    elif changes.heavy:
        text = (
            f"{name_heavy(changes.heavy)} A commit would be without it; it was left where it is. Remove it, "
            "list it in .gitignore if the work can do without, or raise that setting."
        )
    else:
        return None
    return Failure(FailureKind.TAMPERED, text)


async def tree_before(context: RunContext, key: str, known: Snapshot | None = None) -> Snapshot:
    """Return the work tree before an agent that must not edit: as it is now, or as it was at its launch.

    `known` is what a cloud agent starts from, far from any work tree.
    """
    begun = next((step.input for step in context.journal.steps(key) if step.key == key), {})
    seen = read_as(LaunchInput, begun).tree
    if seen is not None:
        return seen
    return known if known is not None and context.cloud else await context.workspace.snapshot()


async def has_advanced(context: RunContext, before: Snapshot, now: Snapshot) -> bool:
    """Return whether somebody has committed since on the same branch: who must not edit commits nothing."""
    moved = before.head and now.head != before.head and now.branch == before.branch
    place = find_place(context.workspace.root) if moved and not context.cloud else None
    return place is not None and await Objects(place.common).is_ancestor(before.head, now.head)


async def undo_edits(
    context: RunContext, task: str, before: Snapshot, outcome: Outcome
) -> LaunchOutput | None:
    """Return a failure when an agent that must not edit has changed something; undone where possible."""
    now = await context.workspace.arrive(outcome.branches, before)
    is_committed = await has_advanced(context, before, now)
    if now == before or (is_committed and (before.dirty or not now.dirty)):
        return None
    undone = (is_committed or now.head == before.head) and not before.dirty and not context.cloud
    message = f"The agent changed files in plan mode: {', '.join(now.files[:5]) or now.head[:10]}."
    if undone:
        name = f"task {task}" if task else "the plan"
        where = await context.workspace.set_aside(f"segue: changed in plan mode by {name}")
        message += f" They were undone and kept as {where}."
        await context.emit(NoticeGiven(message, task=task))
    failure = Failure(FailureKind.PLAN_EDITED, message)
    action = Action.RETRY if undone else Action.STOP
    return LaunchOutput(verdict=Verdict(Result.FAIL, action, message), failure=failure, changed=True)


_KEPT_OUTPUT = 32 * 1024
_SHOWN_OUTPUT = 4 * 1024


def clean_result(redact: Callable[[str], str], result: CheckResult) -> CheckResult:
    """Return a result without secrets, and with no more output than is kept."""
    output = redact(result.output)[-_KEPT_OUTPUT:]
    words = (redact(result.command), redact(result.reason))
    return replace(result, output=output, command=words[0], reason=words[1])


async def store_result(
    context: RunContext,
    state: TaskState,
    key: str,
    result: CheckResult,
    began: float,
    examined: Examination | None = None,
) -> None:
    """Store what a check printed, and as errors what it complained about."""
    task, found = state.task, examined.found if examined else None
    seconds = round(time.monotonic() - began, 3)
    said = (result.command, result.exit_code, result.output)
    bare = replace(result, output="") if result.state is not None else None
    await context.emit(CheckRun(task.key, *said, seconds, task.build_phase, found, bare), key)
    if not result.ok and result.exit_code is not None:
        errors = [item for item in (found or {}).get("findings", ()) if item.get("level") == "error"]
        recorder = ErrorRecorder(context.journal, task.key, "verify", task.build_phase, key)
        await recorder.check_failed(result, [str(item["message"]) for item in errors])


def refuse_switched_off(result: CheckResult) -> CheckResult:
    """Return a check as failed where old tests that fail now were skipped, removed or left unrun."""
    off = [one for one in result.unsettled if one.off]
    if not (result.ok and off):
        return result
    places = [f"{one.path}:{one.line} {describe_change(one.why)}" for one in off]
    reason = f"{list_some(places, _LISTED)} although its old version fails. Old tests must run and pass."
    return replace(result, state=CheckState.CONTESTED, reason=reason)


def describe_change(why: str) -> str:
    """Return what happened to an old test, to follow its name: `is skipped now,`."""
    what = re.split(r"[;,]", why)[0]
    return f"{what.removeprefix('It ')}," if what.startswith(("It is ", "It was ")) else "was changed,"


def checks_verdict(results: tuple[CheckResult, ...]) -> Verdict:
    """Return what the checks say, with a criterion for each command."""
    criteria = tuple(CriterionVerdict(f"check: {one.command}", one.ok, _said(one)) for one in results)
    failed = [f"{one.command} ({_ending(one)})" for one in results if not one.ok]
    result = Result.PARTIAL if any(one.met for one in criteria) else Result.FAIL
    return Verdict(result, Action.RETRY, "; ".join(failed), criteria)


def _ending(result: CheckResult) -> str:
    if result.reason:
        return result.reason
    return "could not be run" if result.exit_code is None else f"exit code {result.exit_code}"


def _said(result: CheckResult) -> str:
    return "" if result.ok else f"{_ending(result)}\n{result.output[-_SHOWN_OUTPUT:]}".strip()
