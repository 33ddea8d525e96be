"""The pages of one task: what is wrong with it, diff, proof, steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from segue.domain.errors import SegueError
from segue.domain.question import is_question
from segue.domain.run import Run
from segue.reports.card.build import build_cards, read_findings
from segue.reports.card.card import CheckCard, ProofCard
from segue.reports.card.layout import lay_out
from segue.runtime.sources import read_tasks
from segue.view.run import RunView
from segue.web import queries
from segue.web.diffs import find_task_commits, read_diff, read_patch, split_by_file
from segue.web.failure import find_failure
from segue.web.routes import Data, NotFound, PageRequest, PageRoute
from segue.web.step import StepOutput, cut_piece
from segue.web.timeline import HIDDEN

if TYPE_CHECKING:
    from segue.store.store import Store


def query_task(request: PageRequest) -> Data:
    """Return everything about one task that fits on a page; the diff is fetched when it is opened."""
    run, view, key = find_task(request)
    steps = queries.list_steps(request.store, run.id, [key])
    reviewed = next((step["key"] for step in reversed(steps) if step["phase"] == "review"), None)
    task = view.tasks[key]
    return {
        "title": task.title,
        "run": queries.describe_place(run),
        "task": queries.describe_task(view, task),
        "asks": task.state != "done" and is_question(task.reason),
        "failures": read_failures(request.store, run.id, key)
        if task.state not in ("done", "skipped")
        else [],
        "findings": read_findings(request.store, run, reviewed) if task.remaining else [],
        "isolation": view.isolation or None,
        "comments": list(view.comments.get(key, {}).values()),
        "unheard": list(view.unheard(key).values()),
        "steps": [queries.describe_step(step) for step in steps if step["phase"] not in HIDDEN],
        "self": f"/runs/{run.id}/tasks/{key}",
    }


_LOOKED_AT = 12
"""Among how many of the latest steps of a task is looked for its last checks."""


def read_failures(store: Store, run_id: str, key: str) -> list[dict[str, Any]]:
    """Return the checks of the last round that failed, each with the lines that say why."""
    rows = store.query(
        "SELECT seq, output FROM orchestrator_steps"  # noqa: S608
        " WHERE run_id = ? AND task = ? AND superseded IS NULL"
        f" ORDER BY seq DESC LIMIT {_LOOKED_AT}",
        [run_id, key],
    )
    rounds = ((row["seq"], StepOutput.read(row["output"]).checks) for row in rows)
    seq, checks = next(((seq, checks) for seq, checks in rounds if checks), (0, ()))
    return [
        {
            "command": check.command,
            "reason": check.reason,
            "tests": list(check.broken or check.failing),
            "excerpt": find_failure(check.output),
            "where": f"/runs/{run_id}/steps/{seq}",
            "output": f"/runs/{run_id}/steps/{seq}/check-{number}",
        }
        for number, check in enumerate(checks, 1)
        if not CheckCard.read(check).ok
    ]


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
        "place": queries.describe_place(run),
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
        return *read_diff(run, *commits), 0
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
