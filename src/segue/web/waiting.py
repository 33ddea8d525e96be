"""What waits for a person in one run: its plan, its tasks, the run itself, limits, and work to look at."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from segue.domain.amounts import describe_until
from segue.domain.events import PLAN_GATE
from segue.domain.run import Run, RunKind, RunState
from segue.system.files import read_start
from segue.system.git.folders import git_dirs
from segue.view.load import ACTIVE, is_lost, state_of
from segue.view.run import RunView

_CONFIG_BYTES = 256 * 1024


class InboxKind(StrEnum):
    """Why something is in the inbox."""

    QUESTION = "approval"
    """An action of the relay waits for a yes or no."""
    PLAN = "plan"
    """A plan waits for approval."""
    GATE = "gate"
    """The run waits after a task."""
    TASK = "task"
    """A task needs a human."""
    RUN = "run"
    """The run failed, or needs a human as a whole."""
    LOST = "lost"
    """Nobody drives the run."""
    LIMIT = "limit"
    """The run waits for a usage limit, or for a service."""
    DELIVERY = "delivery"
    """The work is proposed, or is on a branch of its own."""

    @property
    def is_information(self) -> bool:
        """True for what needs no decision in Segue."""
        return self in (InboxKind.LIMIT, InboxKind.DELIVERY)


class InboxItem(Struct, frozen=True, kw_only=True):
    """One thing that waits."""

    kind: InboxKind
    why: str
    since: int
    """Milliseconds since the epoch."""
    task: str | None = None
    until: int | None = None
    """When it continues without anybody, in milliseconds since the epoch."""


def list_waiting(run: Run, view: RunView) -> list[InboxItem]:
    """Return what waits for a person in this run; nothing while it works and nobody is needed."""
    state = state_of(run)
    if is_lost(run):
        why = "The process that worked on this run is gone. Finished work is kept."
        return [*_list_tasks(view), InboxItem(kind=InboxKind.LOST, why=why, since=run.updated)]
    if state in ACTIVE:
        return [*_list_tasks(view), *_list_limits(run, view)]
    if state is RunState.DONE:
        return list(_list_deliveries(run, view))
    if state not in (RunState.NEEDS_HUMAN, RunState.FAILED):
        return []
    if view.gate is not None and state is RunState.NEEDS_HUMAN:
        return [*_list_tasks(view), _make_gate(run, view, view.gate)]
    found = list(_list_tasks(view))
    why = run.note or "The run ended without saying why; its log does."
    return found or [InboxItem(kind=InboxKind.RUN, why=why, since=run.updated)]


def _list_tasks(view: RunView) -> Iterator[InboxItem]:
    for task in view.tasks.values():
        if task.state == "needs_human":
            since = task.ended or task.started or 0
            yield InboxItem(kind=InboxKind.TASK, task=task.key, why=task.reason, since=since)


def _make_gate(run: Run, view: RunView, gate: str) -> InboxItem:
    since = view.gate_ts or run.updated
    if gate == PLAN_GATE:
        return InboxItem(kind=InboxKind.PLAN, why="Nothing is built before you approve it.", since=since)
    return InboxItem(kind=InboxKind.GATE, task=gate, why=run.note, since=since)


def _list_limits(run: Run, view: RunView) -> Iterator[InboxItem]:
    """Yield what continues without anybody: after a usage limit, or when a service is back."""
    parked = [task for task in view.tasks.values() if task.state == "parked" and task.wake]
    for task in parked:
        until = round((task.wake or 0) * 1000)
        why = f"Waits for a usage limit, {describe_until(until / 1000)}."
        yield InboxItem(kind=InboxKind.LIMIT, task=task.key, why=why, since=run.updated, until=until)
    if not parked and run.state is RunState.PARKED and run.wake:
        why = f"Waits for a usage limit, {describe_until(run.wake / 1000)}."
        yield InboxItem(kind=InboxKind.LIMIT, why=why, since=run.updated, until=run.wake)
    for since, wait in view.waits.values():
        why = f"Waits for {wait.service}, {describe_until(wait.until)}: {wait.reason}"
        yield InboxItem(kind=InboxKind.LIMIT, why=why, since=since, until=round(wait.until * 1000))


def _list_deliveries(run: Run, view: RunView) -> Iterator[InboxItem]:
    found = view.delivery
    if found is None or found.merged:
        return
    yield InboxItem(kind=InboxKind.DELIVERY, why=found.text, since=run.updated)


def refuse_request(run: Run) -> str:
    """Return why no pull request can be opened for a run; empty: nothing is known against it."""
    if run.spec.kind is RunKind.CONVERSATION or not run.spec.kind.has_tasks:
        return "it has no branch of its own"
    if run.spec.origin is not None:
        return "its worker pushes the branch; open the pull request from that"
    if run.spec.worktree is None:
        return "the run works in your own work tree; start the next one with --pr"
    folders = git_dirs(Path(run.spec.repo))
    if folders is None:
        return "its repository is gone"
    config = read_start(folders[1] / "config", _CONFIG_BYTES)
    return "" if b'[remote "origin"]' in config else "the repository has no remote called origin"
