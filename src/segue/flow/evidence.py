"""Done is a claim until there is evidence: what an attempt claimed, against what can be seen."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from segue.domain.errors import Unfinished, WorkspaceError
from segue.domain.events import CheckRun, NoticeGiven, PatchMade, Tampered
from segue.domain.job import Role
from segue.domain.outcome import Failure, FailureKind, Outcome
from segue.domain.proof import CheckResult, Tampering
from segue.domain.results import LaunchInput, LaunchOutput, read_as
from segue.domain.task import Task
from segue.domain.verdict import Action, CriterionVerdict, Result, Verdict
from segue.domain.workspace import Snapshot, WorkChanges
from segue.flow.context import Examination, RunContext
from segue.flow.errors import ErrorRecorder
from segue.flow.state import TaskState
from segue.system.beneath import read_below
from segue.system.git.index import name_heavy

_BOX = re.compile(r"\s*(?:[-*+]|\d+[.)])\s*\[(?P<mark>.)\]\s*(?P<words>.*)")
_MOST_TICKS = 5
_LONGEST_TICK = 60


async def name_pushed(
    context: RunContext, state: TaskState, now: Snapshot, files: Collection[str], key: str
) -> None:
    """Name what the last launch changed in the files that say what is to be done, and what is done."""
    touched = {path: subject for path, subject in _contract(context).items() if path in files}
    if not touched or state.now.head == now.head:
        return
    before, after = [await _read_lines(context, head, touched) for head in (state.now.head, now.head)]
    found = tuple(
        one
        for path, subject in touched.items()
        for one in compare_lines(path, subject, before[path], after[path], state.task)
    )
    if found:
        await context.emit(Tampered(state.task.key, found), key)


def _contract(context: RunContext) -> dict[str, str]:
    """Return the files of the contract by their path in the repository, each with what it is."""
    source, home = context.source, os.path.realpath(context.workspace.root)
    subjects = dict.fromkeys(source.contract_files[:1], "tasks")
    subjects |= dict.fromkeys((path for path in source.own_files if path not in subjects), "state")
    subjects |= dict.fromkeys((path for path in source.contract_files if path not in subjects), "criteria")
    real = {Path(os.path.realpath(path)): subject for path, subject in subjects.items()}
    return {
        path.relative_to(home).as_posix(): subject
        for path, subject in real.items()
        if path.is_relative_to(home)
    }


async def _read_lines(context: RunContext, head: str, paths: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the lines of files as a commit has them; links that lead out of it are not followed."""
    async with context.workspace.checkout(head) as folder:
        data = {path: read_below(folder, folder / path) for path in paths}
    return {path: text.decode("utf-8", "replace").splitlines() for path, text in data.items()}


def compare_lines(path: str, subject: str, old: list[str], new: list[str], task: Task) -> Iterator[Tampering]:
    """Say what was changed in one file; ticking the own task is a habit that means no harm."""
    name = Path(path).name
    others = [[line for line in lines if not _is_own_box(line, task)] for lines in (old, new)]
    if others[0] == others[1] or (subject == "criteria" and name in task.text):
        return
    ticked = [_words(line) for line in (Counter(others[1]) - Counter(others[0])) if _is_ticked(line)]
    if ticked and subject == "tasks":
        shown = ", ".join(ticked[:_MOST_TICKS]) + (" …" if len(ticked) > _MOST_TICKS else "")
        text = f"The agent marked as done in {name} of its branch: {shown}. Those marks do not count."
        yield Tampering("ticks", text, name)
    else:
        text = f"The agent changed {name} in its branch. The run continues with what it said before."
        yield Tampering(subject, text, name)


def _is_own_box(line: str, task: Task) -> bool:
    return _BOX.match(line) is not None and re.search(rf"\b{re.escape(task.key)}\b", line) is not None


def _is_ticked(line: str) -> bool:
    box = _BOX.match(line)
    return box is not None and box["mark"] != " "


def _words(line: str) -> str:
    box = _BOX.match(line)
    assert box is not None
    return box["words"][:_LONGEST_TICK].strip()


RETRIED = {FailureKind.CRASH, FailureKind.RATE_LIMIT, FailureKind.NO_RESULT, FailureKind.TRUNCATED}
RETRIED |= {FailureKind.TIMEOUT, FailureKind.HANG, FailureKind.NO_CHANGE, FailureKind.LOST}
RETRIED |= {FailureKind.OUTAGE, FailureKind.MAX_TURNS, FailureKind.TAMPERED}
RETRIED |= {FailureKind.UNKNOWN, FailureKind.INTERRUPTED, FailureKind.USAGE_LIMIT, FailureKind.REFUSED}
"""Failures that another attempt may overcome; a wrong key or a missing program will not go away."""

NO_CHANGE = "The agent said it was done, but nothing in the work tree or on the branch has changed."
_LOOKS = (0.2, 2.0)
"""Seconds until a look at the work tree that failed is repeated."""
_KEPT_FILES = 200
_KEPT_DIFF = 256 * 1024


def failure_of(outcome: Outcome, changed: bool, allow_no_change: bool) -> Failure | None:
    """Return why the attempt failed, given the evidence; None when it succeeded."""
    if outcome.failure is not None:
        return outcome.failure
    if not changed and not allow_no_change:
        return Failure(FailureKind.NO_CHANGE, NO_CHANGE)
    return None


def verdict_after(failure: Failure | None, changed: bool = False) -> Verdict:
    """Return what follows from an attempt."""
    if failure is None:
        return Verdict(Result.PASS, Action.PROCEED, "changed" if changed else "no change needed")
    partial = changed and failure.kind not in (FailureKind.NOT_STARTED, FailureKind.AUTH)
    action = Action.RETRY if failure.kind in RETRIED else Action.STOP
    return Verdict(Result.PARTIAL if partial else Result.FAIL, action, failure.message)


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
            hint="Fix what git reports, then: segue resume",
        ) from error


async def _look(
    context: RunContext, state: TaskState, key: str, outcome: Outcome, allow_no_change: bool
) -> LaunchOutput:
    lost: Failure | None = None
    now = state.now
    try:
        now = await context.workspace.arrive(outcome.branches, state.now)
    except WorkspaceError as error:
        if not context.cloud:
            raise
        lost = Failure(FailureKind.BRANCH, error.message)
    changed = now != state.base
    changes = await context.workspace.changes(state.base, now) if changed else WorkChanges()
    files = changes.files
    if changed and not (changes.links or changes.unmerged):  # git makes no tree of these
        await _record_patch(context, state, now, len(files), key)
    if context.cloud and changed:
        await name_pushed(context, state, now, files, key)
    wrong = lost or _left_branch(context, state, now) or _not_committable(changes)
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


def _left_branch(context: RunContext, state: TaskState, now: Snapshot) -> Failure | None:
    """Return a failure when the agent left the branch: nobody would find the following work."""
    before = state.base
    if now.branch == before.branch or context.cloud:
        return None
    names = [one.branch or one.head[:10] for one in (before, now)]
    return Failure(FailureKind.BRANCH, f"The agent switched from branch {names[0]} to {names[1]}.")


def _not_committable(changes: WorkChanges) -> Failure | None:
    """Return a failure when a commit would not hold the work, or would hold the rest of a conflict."""
    if changes.links:
        text = (
            f"{', '.join(changes.links[:5])} has a git repository of its own, so a commit would hold a link "
            "to it and none of its files. Its work must be part of this repository."
        )
    elif changes.unmerged or changes.conflicted:
        text = f"A merge was left unresolved: {', '.join((*changes.unmerged, *changes.conflicted)[:5])}."
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


async def undo_edits(
    context: RunContext, task: str, before: Snapshot, outcome: Outcome
) -> LaunchOutput | None:
    """Return a failure when an agent that must not edit has changed something; undone where possible."""
    now = await context.workspace.arrive(outcome.branches, before)
    if now == before:
        return None
    undone = now.head == before.head and not before.dirty and not context.cloud
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


def clean_result(context: RunContext, result: CheckResult) -> CheckResult:
    """Return a result without secrets, and with no more output than is kept."""
    output = context.redact(result.output)[-_KEPT_OUTPUT:]
    words = (context.redact(result.command), context.redact(result.reason))
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
