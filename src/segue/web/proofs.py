"""How well finished work is proven, run by run, and the tasks whose proof a person should look at."""

from __future__ import annotations

from collections import Counter
from typing import Any

from segue.domain.proof import Level
from segue.domain.run import USUAL_RUNS, Run
from segue.domain.statement import MEANINGS, list_marks
from segue.view.run import RunView
from segue.web import queries
from segue.web.routes import Data, PageRequest, PageRoute
from segue.web.runs import describe_run

RUNS = 20
"""The newest runs."""

MOST = 12
"""Tasks to look at that are listed of one run."""


def query_proofs(request: PageRequest) -> Data:
    """Return the newest runs with the levels of what is done in them."""
    runs = [(run, request.view(run)) for run in request.store.runs(limit=RUNS, kinds=USUAL_RUNS)]
    return {
        "title": "Proof",
        "levels": {level.value: MEANINGS[level] for level in sorted(MEANINGS, key=lambda level: -level.rank)},
        "runs": [
            _describe(run, view) for run, view in runs if any(task.proof for task in view.tasks.values())
        ],
    }


def _describe(run: Run, view: RunView) -> dict[str, Any]:
    done = [task for task in view.tasks.values() if task.state == "done"]
    counts = Counter(_name(task.proof.level) if task.proof else "unknown" for task in done)
    names = [*(level.value for level in Level if not level.is_old), "accepted", "unknown"]
    doubtful = [task for task in done if _has_doubt(task)]
    return {
        "run": describe_run(run, view),
        "done": len(done),
        "total": len(view.tasks),
        "levels": {name: counts[name] for name in reversed(names) if counts[name]},
        "look_at": [queries.describe_task(view, task) for task in doubtful[:MOST]],
        "doubtful": len(doubtful),
    }


def _name(level: Level) -> str:
    return "accepted" if level.is_old else level.value


def _has_doubt(task: Any) -> bool:
    """Return whether something beside the level of a task should be looked at, or nothing is proven."""
    proof = task.proof
    if proof is None:
        return False
    return bool(task.tampering) or not proof.level.proven or any(mark.is_doubt for mark in list_marks(proof))


PAGES = (PageRoute("/proofs", "proofs.html", "Proof", query_proofs, menu="Proof", live=True),)
