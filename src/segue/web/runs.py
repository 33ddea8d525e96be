"""The list of runs, with search and filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from segue.domain.run import USUAL_RUNS, Run, RunKind, RunState
from segue.system.git.worktree import branch_of
from segue.view.load import select_kinds, state_of
from segue.view.run import RunView
from segue.web import queries
from segue.web.queries import escape_like
from segue.web.routes import Data, PageRequest, PageRoute, slice_page

if TYPE_CHECKING:
    from segue.store.store import Store


SIZE = 25
"""Runs on one page."""

FILTERS = ("q", "repo", "source", "agent", "flow", "state", "kind")
_SPEC = ("repo", "source", "agent", "flow")
_WORDS = " OR ".join(
    f"lower({place}) LIKE lower(?) ESCAPE '!'"
    for place in (
        "id",
        "note",
        *(f"spec->>'{name}'" for name in ("title", "source", "repo", "agent", "model")),
    )
)
"""Where the search looks."""


def query_runs(request: PageRequest) -> Data:
    """Return one page of the runs that match, and the choices of the filters."""
    chosen = {name: request.text(name) for name in FILTERS}
    conditions = [(f"spec->>'{name}' = ?", chosen[name]) for name in _SPEC if chosen[name]]
    kinds = (RunKind(chosen["kind"]),) if chosen["kind"] in set(RunKind) else USUAL_RUNS
    found = _find_ids(request.store, kinds, conditions, chosen)
    number, pages = request.page(len(found), SIZE)
    shown = slice_page(found, number, SIZE)
    return {
        "runs": [_make_row(run, request.view(run)) for run in map(request.store.run, shown) if run],
        "total": len(found),
        "page": number,
        "pages": pages,
        "filters": chosen,
        "filtered": any(chosen.values()),
        "choices": _list_choices(request.store),
        "any": bool(request.store.runs(limit=1)),
    }


def _find_ids(
    store: Store, kinds: Sequence[RunKind], conditions: list[tuple[str, str]], chosen: Mapping[str, str]
) -> list[str]:
    """Find the ids of the runs that match, newest first."""
    state = chosen["state"]
    where = " AND ".join([select_kinds(kinds), *(condition for condition, _ in conditions)])
    values: list[object] = [value for _, value in conditions]
    if chosen["q"]:
        text, words = match_words(chosen["q"])
        where, values = f"{where} AND {text}", [*values, *words]
    if state and state not in (RunState.RUNNING, RunState.PARKED, RunState.STOPPED):
        where, values = f"{where} AND state = ?", [*values, state]
        state = ""
    sql = f"SELECT id, state FROM orchestrator_runs WHERE {where} ORDER BY created DESC, id"  # noqa: S608
    rows = store.query(sql, values)
    if not state:
        return [str(row["id"]) for row in rows]
    return [str(row["id"]) for row in rows if _actual_state(store, row) == state]


def match_words(words: str) -> tuple[str, list[object]]:
    """Return the condition for runs with these words, whatever their case, and its arguments."""
    return f"({_WORDS})", [f"%{escape_like(words)}%"] * _WORDS.count("?")


def _actual_state(store: Store, row: dict[str, Any]) -> str:
    """Return the state of a run; one whose process is gone is stopped, whatever its row says."""
    if row["state"] not in (RunState.RUNNING, RunState.PARKED):
        return str(row["state"])
    run = store.run(str(row["id"]))
    return state_of(run) if run else ""


def _make_row(run: Run, view: RunView) -> dict[str, Any]:
    return {
        **describe_run(run, view),
        "tasks": len(view.tasks),
        "done": view.done,
        "needs_human": sum(task.state == "needs_human" for task in view.tasks.values()),
        **queries.describe_usage(view),
    }


def describe_run(run: Run, view: RunView) -> dict[str, Any]:
    """Describe a run: its state, and with what it was started."""
    state, spec = state_of(run, view), run.spec
    return {
        **{name: getattr(run, name) for name in ("id", "note", "created", "updated", "wake")},
        **{name: getattr(spec, name) for name in ("source", "kind", "agent", "model", "flow", "repo")},
        "name": run.title,
        "source_name": run.source_name,
        "repo_name": PurePath(spec.repo).name,
        "branch": branch_of(run.id) if spec.worktree else spec.branch,
        "onto": spec.onto,
        "has_tasks": spec.kind.has_tasks,
        "state": state,
        "going": state in queries.ACTIVE,
        "working": state in queries.AT_WORK,
        "fleet": _describe_origin(run),
        "findings": sum(task.remaining for task in view.tasks.values() if task.state == "done"),
        "proof": _find_weakest(view),
        "isolation": view.isolation or None,
    }


def _find_weakest(view: RunView) -> str | None:
    """Return how well everything is proven that is done: as well as the weakest task; None: not known."""
    proofs = [task.proof for task in view.tasks.values() if task.state == "done"]
    if None in proofs:
        return None
    return min({proof.level for proof in proofs if proof}, key=lambda level: level.rank, default=None)


def _describe_origin(run: Run) -> dict[str, Any] | None:
    """Describe what was submitted to a fleet; None for a run of one machine."""
    origin = run.spec.origin
    if origin is None:
        return None
    return {name: getattr(origin, name) for name in ("commit", "branch", "needs", "priority", "submitter")}


def _list_choices(store: Store) -> dict[str, list[str]]:
    columns = ", ".join(f"spec->>'{name}' AS {name}" for name in _SPEC)
    rows = store.query(f"SELECT DISTINCT {columns} FROM orchestrator_runs")  # noqa: S608
    found = {name: sorted({str(row[name]) for row in rows if row[name]}) for name in _SPEC}
    return {**found, "state": list(map(str, RunState)), "kind": list(map(str, RunKind))}


PAGES = (PageRoute("/runs", "runs.html", "Runs", query_runs, menu="Runs", live=True, slow=True),)
