"""The proof card of one task."""

from __future__ import annotations

import msgspec

from segue.fleet.looking import read_tasks
from segue.reports.card.build import build_cards
from segue.reports.card.card import ProofCard
from segue.reports.card.layout import lay_out
from segue.web import queries
from segue.web.routes import Data, NotFound, PageRequest, PageRoute


def query_proof(request: PageRequest) -> Data:
    """Return the card of one task, and what the badges beside it need."""
    run = queries.get_run(request.store, request.path["run"])
    view, key = request.view(run), request.path["task"]
    if key not in view.tasks:
        raise NotFound(f"There is no task {key[:60]!r} in run {run.id}.", hint=f"See /runs/{run.id}")
    [card] = build_cards(request.store, run, read_tasks(request.app, run)[0], keys=(key,))
    return {
        "title": f"Proof of task {key}",
        "run": run.id,
        "task": queries.describe_task(view, view.tasks[key]),
        "card": card.to_json(),
    }


def present_proof(data: Data) -> Data:
    """Arrange the card for people."""
    return {"layout": lay_out(msgspec.convert(data["card"], ProofCard))}


PAGES = (
    PageRoute(
        "/runs/{run}/tasks/{task}/proof",
        "proof.html",
        "Proof",
        query_proof,
        present_proof,
        section="/runs",
        live=True,
    ),
)
