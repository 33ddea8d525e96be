"""Commits with trailers, made once: after a phase or at the end of a task.

The repository's own hooks come first: a check like others, whose complaints go back to the agent.
"""

from __future__ import annotations

import asyncio
import re
import stat
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from segue.domain.amounts import list_some
from segue.domain.errors import Unfinished, WorkspaceError
from segue.domain.events import Committed, NoticeGiven, VerdictGiven
from segue.domain.job import Mode, Role
from segue.domain.proof import CheckResult, CheckState
from segue.domain.results import CommitOutput, HookOutput, StepFacts, StepResult, read_as
from segue.domain.source import HookedFile, HookRun
from segue.domain.task import TaskKind
from segue.domain.verdict import Action, Verdict
from segue.domain.workspace import Snapshot
from segue.flow.actions import what_follows
from segue.flow.context import RunContext
from segue.flow.evidence import (
    changes_since,
    checks_verdict,
    clean_result,
    gets_verdict,
    start_of,
    store_result,
    take_attempt,
)
from segue.flow.launch import LaunchRequest
from segue.flow.phase import RESOLVE
from segue.flow.state import PhaseEnd, TaskState
from segue.prompts.task import resolve_prompt
from segue.system.beneath import Beneath

if TYPE_CHECKING:
    from segue.proof.repo_hooks import CommitHooks


async def commit_phase(context: RunContext, state: TaskState, label: str) -> PhaseEnd:
    """Commit what a phase changed, where the policy or the reviewer wants that."""
    if context.policy.commit == "phase" or context.needs_commits:
        return await _commit(context, state, label)
    return PhaseEnd(True)


async def commit_task(context: RunContext, state: TaskState) -> PhaseEnd:
    """Commit whatever the task's phases have left uncommitted."""
    if context.policy.commit == "never":
        return PhaseEnd(True)
    return await _commit(context, state, "task")


async def send_back(context: RunContext, state: TaskState, verdict: Verdict, label: str = "") -> PhaseEnd:
    """Send the agent back with exactly what is missing, in the same conversation where it has one.

    What it changes is committed on the same branch, after the hooks, which may send it back again; `label` is
    the name of that commit, where it is none of the counted fixes.
    """
    state.demanded += [verdict.reason, *(one.evidence for one in verdict.criteria if not one.met)]
    attempts = context.attempts(RESOLVE, state)
    async for attempt in attempts:
        session = state.session_for(attempt.by)
        write = partial(
            resolve_prompt,
            state.task,
            context.redact(context.source.context(state.task)),
            verdict,
            attempt.feedback,
            context.seed,
            cloud=context.cloud,
            notes=context.redact("\n\n".join(state.brought)),
            tried=context.redact("\n".join(state.tried)),
        )
        request = LaunchRequest(
            write,
            Mode.EDIT,
            context.workspace.root,
            start_of(context, state),
            session=session,
        )
        async with attempt.launch(request) as outcome:
            attempt.output = await changes_since(context, state, attempt.key, outcome, allow_no_change=True)
    result = attempts.result
    if not result.ok and not gets_verdict(context, result.output.failure):
        return PhaseEnd(False, result.output.verdict.reason)
    take_attempt(state, result.output)
    return await commit_phase(context, state, label or f"fix-{state.resolutions}")


HOOKS = "hooks"
"""The name of their steps."""
_STEP = "Segue-Step: "
_NO_TOKEN = "0" * 32
_TYPES = {TaskKind.TEST_FIRST: "test", TaskKind.DOCS: "docs", TaskKind.VERIFY_ONLY: "chore"}
_LONGEST = 72
"""Letters of a subject that those accept who count them."""


def is_last_commit(step: str) -> bool:
    """Return whether a step commits what is left at the end of a task, just before the task is marked."""
    return "/commit/task" in step


async def _commit(context: RunContext, state: TaskState, label: str) -> PhaseEnd:
    hooked = await pass_hooks(context, state, label)
    if hooked.ok:
        await _commit_as_is(context, state, label)
    return hooked


async def commit_as_is(context: RunContext, state: TaskState) -> None:
    """Commit what a task left, without asking the repository's hooks: a person has decided about it."""
    if context.policy.commit != "never":
        await _commit_as_is(context, state, "task")


async def _commit_as_is(context: RunContext, state: TaskState, label: str) -> None:
    key = f"{state.folder}/commit/{label}" + (f"/{state.start.round}" if state.start.round > 1 else "")

    async def work(token: str) -> StepResult[CommitOutput]:
        commit = await context.workspace.commit(commit_message(context, state, label, token))
        if commit:
            await context.emit(Committed(state.task.key, commit), key)
            await _name_moved(context, state, commit, key)
        return StepResult(True, CommitOutput(commit), soon=commit is not None)

    async def reconcile(token: str) -> StepResult[CommitOutput] | None:
        found = await context.workspace.find_commit(state.base.head, token)
        return StepResult(True, CommitOutput(found)) if found else None

    facts = StepFacts(state.task.key, "commit")
    try:
        result = await context.journal.step(key, CommitOutput, work, reconcile, facts)
    except WorkspaceError as error:
        raise Unfinished(
            f"Task {state.task.key} needs a human: {error.message}",
            reason=error.message,
            kept="The agent's changes are in the work tree; on resume only the commit is made again.",
            hint=f"Fix what git reports, then: segue resume {context.journal.run.id}",
        ) from error
    if result.output.commit:
        state.now = Snapshot(result.output.commit, state.now.branch, "")


async def _name_moved(context: RunContext, state: TaskState, commit: str, key: str) -> None:
    """Say which submodules a commit moves: what it names there is in another repository."""
    root = context.workspace.root
    moved = [] if context.cloud else [path for path in state.last.files if (root / path).is_dir()]
    if moved:
        text = f"Commit {commit[:10]} moves a submodule: {list_some(moved, 5)}. Segue pushes nothing there: "
        text += "push its commit too, or nobody else can fetch it."
        await context.emit(NoticeGiven(text, task=state.task.key), key)


async def pass_hooks(context: RunContext, state: TaskState, label: str) -> PhaseEnd:
    """Run the hooks on what would be committed; while that is allowed, send the agent back."""
    run = context.checking.hooks
    if run is None or run.is_empty or context.cloud or context.policy.commit == "never":
        return PhaseEnd(True)
    while True:
        tree = await context.workspace.tree(state.now)
        if state.base.head and tree == await context.workspace.tree_of(state.base.head):
            return PhaseEnd(True)
        if state.hooked is not None and state.hooked.is_allowed and state.hooked.tree == tree:
            return PhaseEnd(True)
        state.hooked = await _run_once(context, state, run, label, tree)
        result = state.hooked.check
        if result is None or result.ok:
            return PhaseEnd(True)
        verdict = state.verdict = checks_verdict((result,))
        if what_follows(verdict, state.resolutions, context.policy.resolutions) is Action.STOP:
            return PhaseEnd(False, result.reason)
        state.resolutions += 1
        ended = await send_back(context, state, verdict)
        if not ended.ok:
            return ended


async def _run_once(
    context: RunContext, state: TaskState, run: CommitHooks, label: str, tree: str
) -> HookOutput:
    """Run the hooks as one step of the journal; what they change is the agent's."""
    name = f"{HOOKS}/{label}" + (f"/{state.start.round}" if state.start.round > 1 else "")
    number = state.count(name)
    key = f"{state.folder}/{name}/{number}"

    async def work(_token: str) -> StepResult[HookOutput]:
        began = time.monotonic()
        found, left, changed = await _try(context, state, run, label, tree)
        if found is None:
            return StepResult(True, HookOutput(None, left, label))
        result = clean_result(context.redact, found.result)
        await store_result(context, state, key, result, began)
        if result.state is CheckState.BROKEN:
            raise WorkspaceError(result.reason)
        if not result.ok:
            await context.emit(VerdictGiven.of(state.task.key, checks_verdict((result,)), (result,)), key)
        if result.known:
            await _name_known(context, state, result)
        output = HookOutput(result, left, label, context.redact(found.message), changed)
        return StepResult(result.ok, output)

    facts = StepFacts(state.task.key, HOOKS, number, build_phase=state.task.build_phase, proves=True)
    try:
        found = (await context.journal.step(key, HookOutput, work, facts=facts)).output
    except WorkspaceError as error:
        raise _needs_human(context, state, error) from error
    if found.changed:
        state.now = await context.workspace.arrive((), state.now)
        files = tuple(dict.fromkeys((*state.last.files, *found.changed)))
        state.last = replace(state.last, files=files)
    if state.tree and found.tree != state.tree:
        state.checked = False
    return found


async def _try(
    context: RunContext, state: TaskState, run: CommitHooks, label: str, tree: str
) -> tuple[HookRun | None, str, tuple[str, ...]]:
    """Run the hooks, once more if they failed and changed files; return the tree that they left."""
    messages, changed = _messages(context, state, label), dict[str, None]()
    for is_last in (False, True):
        found = await run(state.base.head, tree, messages)
        files = found.files if found is not None else {}
        if found is None or not files:
            break
        changed |= dict.fromkeys(await asyncio.to_thread(_bring, context.workspace.root, files))
        tree = await context.workspace.tree(await context.workspace.arrive((), state.now))
        if found.result.ok or is_last:
            break
    return found, tree, tuple(changed)


def _bring(root: Path, files: Mapping[str, HookedFile | None]) -> list[str]:
    """Write files into the work tree, where a regular file is or nothing; return those that were written."""
    done = []
    with Beneath(root) as work:
        for path, file in files.items():
            now = work.status(path)
            if now is not None and not stat.S_ISREG(now.st_mode):
                continue
            with suppress(OSError):  # a link is on the way, or the folder is no folder
                if file is None:
                    work.delete(path)
                else:
                    _make_parents(work, path)
                    is_same = now is not None and bool(now.st_mode & 0o100) == bool(file.mode & 0o100)
                    work.write(path, file.data, None if is_same else file.mode, durable=False)
                done.append(path)
    return done


def _make_parents(work: Beneath, path: str) -> None:
    """Make the folders above a path, unless something else is there."""
    folder = path.rpartition("/")[0]
    above = [folder[:at] for at, letter in enumerate(f"{folder}/") if letter == "/"]
    if all((now := work.status(one)) is None or stat.S_ISDIR(now.st_mode) for one in above if one):
        work.make_folders(folder)


async def _name_known(context: RunContext, state: TaskState, result: CheckResult) -> None:
    """Say once that a hook failed before anybody worked."""
    steps = [step for step in context.journal.steps("task/") if step.phase == HOOKS and step.output]
    seen = (read_as(HookOutput, step.output).check for step in steps)
    if not any(one is not None and one.known for one in seen):
        text = f"The {result.command} says nothing about the work: {result.reason}"
        await context.emit(NoticeGiven(text, task=state.task.key))


def _needs_human(context: RunContext, state: TaskState, error: WorkspaceError) -> Unfinished:
    return Unfinished(
        f"Task {state.task.key} needs a human: {error.message}",
        reason=error.message,
        kept="The agent's changes are in the work tree; on resume only the hooks are run again.",
        hint="Repair the hook, or let it have what it lacks (check_network, check_timeout), "
        f'or leave hooks out: git.hooks = "off". Then: segue resume {context.journal.run.id}',
    )


def commit_message(context: RunContext, state: TaskState, label: str, token: str) -> str:
    """Return the message of a commit, as the hooks have left it if they were asked."""
    hooked = state.hooked
    if hooked is None or hooked.label != label or not hooked.message:
        return _write(context, state, _title(state, label), token)
    marked = re.sub(rf"^{_STEP}.*$", f"{_STEP}{token}", hooked.message.rstrip(), flags=re.M)
    return f"{marked}\n" if _STEP in marked else f"{marked}\n\n{_STEP}{token}\n"


def _messages(context: RunContext, state: TaskState, label: str) -> Sequence[str]:
    """Return the usual message, and one in the form of Conventional Commits for hooks that insist on it."""
    title = _title(state, label)
    said = state.task.title if label in ("task", "execute") else label.replace("-", " ")
    kind = "fix" if label.startswith("fix") else _TYPES.get(state.task.kind, "feat")
    plain = f"{kind}: {said[:1].lower()}{said[1:]}".rstrip(".")
    return [_write(context, state, one, _NO_TOKEN) for one in (title, plain[:_LONGEST])]


def _title(state: TaskState, label: str) -> str:
    task = state.task
    if label not in ("task", "execute"):
        return f"Task {task.key}: {label.replace('-', ' ')}"
    return task.title if task.title == f"Task {task.key}" else f"Task {task.key}: {task.title}"


def _write(context: RunContext, state: TaskState, title: str, token: str) -> str:
    agent = state.last.agent or context.agents[Role.EXECUTE][0].agent.name
    return (
        f"{title}\n\nSegue-Run: {context.journal.run.id}\nSegue-Task: {state.task.key}\n"
        f"Segue-Agent: {agent}\n{_STEP}{token}\n"
    )


def hook_checks(state: TaskState) -> tuple[CheckResult, ...]:
    """Return what the hooks said, for the proof."""
    found = state.hooked.check if state.hooked is not None else None
    return () if found is None else (replace(found, output=""),)
