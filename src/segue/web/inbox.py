"""The inbox: everything that waits for a person, in all repositories whose runs are in this store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from segue.domain.amounts import describe_until
from segue.domain.errors import SegueError
from segue.domain.events import PLAN_GATE
from segue.domain.question import is_question
from segue.domain.run import USUAL_RUNS, Run, RunKind, RunState
from segue.runtime.comments import read_plan_text
from segue.runtime.sources import load_run_app
from segue.system.files import read_start
from segue.system.git.folders import git_dirs
from segue.view.load import ACTIVE, is_lost, select_kinds, state_of
from segue.view.run import RunView
from segue.web import queries
from segue.web.routes import Data, PageRequest, PageRoute, slice_page

if TYPE_CHECKING:
    pass


_CONFIG_BYTES = 256 * 1024


class InboxKind(StrEnum):
    """Why something is in the inbox."""

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
    if state is RunState.STOPPED:
        return list(_list_tasks(view))
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


SIZE = 20
"""Items on one page."""

DAYS = 30
"""What nobody has touched for longer is left to the list of runs."""

MOST = 300
"""Runs that are looked at, the latest first."""

_KINDS = (*USUAL_RUNS, RunKind.CONVERSATION)
"""Trials of experiments wait for nobody: their failures are results."""

_RUNS = f"""SELECT r.id FROM orchestrator_runs r
 WHERE {select_kinds(_KINDS)} AND r.updated > ?
 AND (r.state IN ('needs_human', 'failed', 'running', 'parked', 'queued', 'stopped')
      OR (r.state = 'done' AND r.spec->>'worktree' IS NOT NULL))
 AND (r.spec->>'origin' IS NOT NULL OR NOT EXISTS (
     SELECT 1 FROM orchestrator_runs n WHERE n.source_key = r.source_key AND n.created > r.created))
 ORDER BY r.updated DESC LIMIT {MOST}"""  # noqa: S608
"""The runs in which something may wait. Of a source the newest replaces the others, except in a fleet."""


def read_plan(request: PageRequest, run: Run, view: RunView) -> str | None:
    """Return the plan as text to edit, while the run waits for a person's word on it."""
    if view.gate != PLAN_GATE or run.state is not RunState.NEEDS_HUMAN:
        return None
    try:
        return read_plan_text(load_run_app(request.app, run), run)
    except (SegueError, OSError):
        return None


def query_inbox(request: PageRequest) -> Data:
    """Return what waits, that which waits longest first, and what is good to know."""
    chosen = {name: request.text(name) for name in ("repo", "kind")}
    found = list(_find_items(request))
    repos = sorted({run.spec.repo for run, _ in found})
    shown = [
        (run, item)
        for run, item in found
        if chosen["repo"] in ("", run.spec.repo) and chosen["kind"] in ("", item.kind)
    ]
    decisions = sorted((one for one in shown if not one[1].kind.is_information), key=lambda one: one[1].since)
    known = sorted((one for one in shown if one[1].kind.is_information), key=lambda one: -one[1].since)
    number, pages = request.page(len(decisions), SIZE)
    return {
        "title": "Inbox",
        "items": [describe_item(request, *one) for one in slice_page(decisions, number, SIZE)],
        "information": [describe_item(request, *one) for one in known[:SIZE]],
        "total": len(decisions),
        "waiting": _count(found),
        "page": number,
        "pages": pages,
        "filters": chosen,
        "choices": {"repo": repos, "kind": [str(kind) for kind in InboxKind]},
        "days": DAYS,
    }


def query_count(request: PageRequest) -> Data:
    """Return how many things wait for a decision."""
    return {"waiting": _count(list(_find_items(request)))}


def _count(found: list[tuple[Run, InboxItem]]) -> int:
    return sum(not item.kind.is_information for _, item in found)


def _find_items(request: PageRequest) -> Iterator[tuple[Run, InboxItem]]:
    """Yield what waits, run by run; the work grows with what waits, not with what has happened."""
    since = round(time.time() * 1000) - DAYS * 86_400_000
    for row in request.store.query(_RUNS, [since]):
        run = request.store.run(str(row["id"]))
        if run is None:
            continue
        for item in list_waiting(run, request.view(run)):
            yield run, item


def describe_item(request: PageRequest, run: Run, item: InboxItem) -> dict[str, Any]:
    """Describe what waits, with what is needed to decide."""
    view = request.view(run)
    task = view.tasks.get(item.task) if item.task else None
    state = state_of(run, view)
    gone = run.spec.origin is None and not Path(run.spec.repo).is_dir()
    return {
        "id": f"{run.id}-{item.task or item.kind}",
        "kind": item.kind,
        "run": {
            **{"id": run.id, "name": run.title, "agent": run.spec.agent, "state": state},
            **{"repo": run.spec.repo, "repo_name": PurePath(run.spec.repo).name, "kind": run.spec.kind},
            **{"going": state in queries.ACTIVE, "fleet": run.spec.origin is not None, "gone": gone},
        },
        "task": queries.describe_task(view, task) if task else None,
        "asks": task is not None and is_question(task.reason),
        "title": task.title if task else run.title,
        "why": "The repository no longer exists." if gone else item.why,
        "since": item.since,
        "until": item.until,
        "comments": list(view.comments.get(item.task or "", {}).values()),
        "plan": read_plan(request, run, view) if item.kind is InboxKind.PLAN else None,
        "titles": [one.title for one in view.tasks.values()][:SIZE] if item.kind is InboxKind.PLAN else [],
        "pull_request": queries.describe_request(view),
        "no_pull_request": refuse_request(run),
        "tasks": len(view.tasks),
        "done": view.done,
    }


PAGES = (
    PageRoute("/inbox", "inbox.html", "Inbox", query_inbox, menu="Inbox", live=True, slow=True),
    PageRoute("/inbox/count", "count.html", "Inbox", query_count, section="/inbox"),
)
