"""The pages of one task: why it is where it is, its criteria and findings, its launches, diff and proof."""

from __future__ import annotations

import msgspec

from segue.domain.errors import SegueError
from segue.domain.run import Run
from segue.reports.card.build import build_cards
from segue.reports.card.card import ProofCard
from segue.reports.card.layout import lay_out
from segue.reports.timeline import HIDDEN
from segue.runtime.stored import read_tasks
from segue.view.run import RunView
from segue.web import queries
from segue.web.diffs import find_task_commits, read_diff, read_patch, split_by_file
from segue.web.routes import Data, NotFound, PageRequest, PageRoute
from segue.web.run import describe_step
from segue.web.step import cut_piece

_CARD = ("criteria", "findings", "missing", "reasons", "judge", "agents", "isolation", "open_findings")


def query_task(request: PageRequest) -> Data:
    """Return everything about one task that fits on a page; the diff is fetched when it is opened."""
    run, view, key = find_task(request)
    steps = queries.list_steps(request.store, run.id, [key])
    known = _build_card(request, run, key).to_json()
    return {
        "title": view.tasks[key].title,
        "run": queries.describe_place(run),
        "task": queries.describe_task(view, view.tasks[key]),
        "card": {name: known[name] for name in _CARD},
        "comments": list(view.comments.get(key, ())),
        "steps": [describe_step(step) for step in steps if step["phase"] not in HIDDEN],
        "self": f"/runs/{run.id}/tasks/{key}",
    }


def query_diff(request: PageRequest) -> Data:
    """Return everything that the work on one task has changed, a piece at a time."""
    run, view, key = find_task(request)
    text, why, cut = _read_work(request, run, key)
    part = cut_piece(text, request.number("from"))
    return {
        "title": f"Diff of task {key}",
        "run": queries.describe_place(run),
        "task": queries.describe_task(view, view.tasks[key]),
        "diff": {**part, "text": "", "files": split_by_file(part["text"])} if part["total"] else None,
        "no_diff": why,
        "cut": cut,
        "self": f"/runs/{run.id}/tasks/{key}/diff",
    }


def find_task(request: PageRequest) -> tuple[Run, RunView, str]:
    """Find the run and the task that an address names."""
    run = queries.get_run(request.store, request.path["run"])
    view, key = request.view(run), request.path["task"]
    if key not in view.tasks:
        raise NotFound(f"There is no task {key[:60]!r} in run {run.id}.", hint=f"See /runs/{run.id}")
    return run, view, key


def query_proof(request: PageRequest) -> Data:
    """Return the card of one task, and what the badges beside it need."""
    run, view, key = find_task(request)
    return {
        "title": f"Proof of task {key}",
        "run": run.id,
        "task": queries.describe_task(view, view.tasks[key]),
        "card": _build_card(request, run, key).to_json(),
    }


def present_proof(data: Data) -> Data:
    """Arrange the card for people."""
    return {"layout": lay_out(msgspec.convert(data["card"], ProofCard))}


def _build_card(request: PageRequest, run: Run, key: str) -> ProofCard:
    [card] = build_cards(request.store, run, read_tasks(request.app, run)[0], keys=(key,))
    return card


def _read_work(request: PageRequest, run: Run, key: str) -> tuple[str, str, int]:
    """Return the diff of a task, or why there is none, and how many characters were not recorded."""
    patch = read_patch(request.store, run.id, key)
    if patch is not None:
        return patch.diff, "" if patch.diff else "The last attempt left nothing changed.", patch.cut
    commits = find_task_commits(request.store, run.id, key)
    if commits is None:
        return "", "No change was recorded.", 0
    try:
        return *read_diff(request.app, run, *commits), 0
    except SegueError as error:
        return "", str(error), 0


_TASK = "/runs/{run}/tasks/{task}"
PAGES = (
    PageRoute(_TASK, "task.html", "Task", query_task, section="/runs", live=True),
    PageRoute(f"{_TASK}/diff", "diff.html", "Diff", query_diff, section="/runs"),
    PageRoute(
        f"{_TASK}/proof", "proof.html", "Proof", query_proof, present_proof, section="/runs", live=True
    ),
)
