"""Queries about one run: its view, its settings and its steps."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

from segue.domain.errors import SegueError, UsageError
from segue.domain.events import Recorded, read_event
from segue.domain.outcome import Budget
from segue.domain.run import Run
from segue.domain.statement import list_marks
from segue.runtime.app import App
from segue.runtime.sources import load_run_app
from segue.store.rows import CHATTY, Rows
from segue.view.data import task_data
from segue.view.load import ACTIVE as ACTIVE
from segue.view.load import AT_WORK as AT_WORK
from segue.view.load import load_view, state_of
from segue.view.run import FOLDED, RunView
from segue.view.task import TaskView
from segue.web.cache import VersionedCache

if TYPE_CHECKING:
    from segue.store.store import Store


class NotFound(UsageError):
    """There is nothing at this address."""


RESULT = (
    "CASE WHEN s.output->'verdict'->>'result' <> 'PASS' OR s.output->'verdict'->'criteria'->0 IS NOT NULL"
    " THEN s.output->'verdict'->>'result' END"
)
"""The result of a step in SQL. A launch that ended well has judged nothing: it has no result."""
_STEPS = """SELECT s.run_id, s.key, s.gen, s.seq, s.task, s.phase, s.attempt, s.agent, s.model, s.build_phase,
 s.state, s.started, s.ended, s.superseded, {result} AS result,
 s.output->'verdict'->>'action' AS action,
 coalesce(s.output->'failure'->>'message', s.output->'verdict'->>'reason', s.output->>'reason') AS reason
 FROM orchestrator_steps s WHERE s.run_id = ? AND {chosen} ORDER BY s.seq"""
_QUIET = "".join(f" AND type <> '{name}'" for name in CHATTY)
"""An index leads past what agents say by the thousand, where a query repeats this."""
_END = f"""SELECT min(seq) - 1 AS last FROM orchestrator_steps WHERE run_id = ? AND key = ? AND seq > ?
 UNION ALL SELECT min(seq) FROM orchestrator_events
 WHERE run_id = ? AND seq > ? AND step = ? AND type = 'step.ended'{_QUIET}"""  # noqa: S608
_LAST = "SELECT coalesce(max(seq), 0) AS last FROM orchestrator_events WHERE run_id = ?"
_LAST += _QUIET


def get_view(store: Store, run: Run, views: VersionedCache[RunView]) -> RunView:
    """Return the view of a run: a known one until something happens in the run."""
    [row] = store.query(_LAST, [run.id])
    return views.get(run.id, (row["last"], state_of(run)), lambda: _load_view(store, run, views))


def _load_view(store: Store, run: Run, views: VersionedCache[RunView]) -> RunView:
    """Load a view; one of a run at work grows by what has happened since, which thousands of tasks need.

    Readers of the view as it was keep lists of their own; a task in them may be newer than the rest.
    """
    state = state_of(run)
    version, before = views.look(run.id)
    if before is None or state not in AT_WORK or not isinstance(version, tuple) or version[1] not in AT_WORK:
        return load_view(store, run)
    work = copy(before.work)
    work.under_way, work.stretches = dict(work.under_way), list(work.stretches)
    view = copy(before)
    view.work, view.tasks, view.waiting = work, dict(view.tasks), dict(view.waiting)
    view.waits, view.comments = dict(view.waits), dict(view.comments)
    view.said, view.heard = set(view.said), set(view.heard)
    for event in store.events(run.id, before.seq, kinds=FOLDED):
        view.apply(event)
    return view


def describe_request(view: RunView) -> dict[str, Any] | None:
    """Return the pull request of the run, if it has one whose address can be opened."""
    found = view.delivery
    if found is None or not found.url.startswith(("https://", "http://")):
        return None
    return {"number": found.number, "url": found.url, "draft": found.draft, "label": found.label}


def describe_step(step: Mapping[str, Any]) -> dict[str, Any]:
    """Describe a step in one line of a task."""
    names = ("seq", "key", "task", "phase", "attempt", "agent", "model", "state", "started")
    ended = step["ended"]
    return {
        **{name: step[name] for name in (*names, "result", "action", "reason")},
        "seconds": (ended - step["started"]) / 1000 if ended else None,
        "old": step["superseded"] is not None,
    }


def describe_usage(view: RunView) -> dict[str, Any]:
    """Describe what a run has used."""
    usage = view.usage
    return {
        "launches": view.launches,
        "input_tokens": usage.input_tokens,
        "cached_tokens": usage.cached_tokens,
        "cached_share": usage.cached_share,
        "output_tokens": usage.output_tokens,
        "tokens": usage.tokens,
        "cost_usd": usage.cost_usd,
        "seconds": view.seconds(time.time()),
        "spent": view.work.spent_seconds(time.time()),
    }


def describe_place(run: Run) -> dict[str, Any]:
    """Describe a run in short, for the pages of its parts."""
    state = state_of(run)
    return {
        **{"id": run.id, "name": run.title, "source": run.spec.source, "repo": run.spec.repo},
        **{"state": state, "going": state in ACTIVE, "working": state in AT_WORK},
        "fleet": run.spec.origin is not None,
    }


def describe_task(view: RunView, task: TaskView) -> dict[str, Any]:
    """Describe a task: its state, and what was used for it."""
    return {
        **task_data(view, task),
        "conclusion": task.conclusion,
        "doubts": _list_doubts(task),
        "agent": task.agent,
        "remaining": task.remaining,
        "started": task.started,
    }


def _list_doubts(task: TaskView) -> list[str]:
    """Return the marks that a person should see wherever the level is shown, and whose word it was."""
    marks = list_marks(task.proof) if task.proof else []
    return [mark.name for mark in marks if mark.is_doubt or mark.name.startswith("accepted")]


def get_run(store: Store, run_id: str) -> Run:
    """Return the run with exactly this id."""
    run = store.run(run_id)
    if run is None or run.id != run_id:
        raise NotFound(f"There is no run {run_id[:60]!r}.", hint="See the list of runs.")
    return run


def read_budget(app: App, run: Run) -> Budget:
    """Return the budget of the run; an empty one if its repository or settings are gone."""
    try:
        return load_run_app(app, run).loaded.settings.limits.budget()
    except (SegueError, OSError):
        return Budget()


def list_steps(store: Store, run_id: str, tasks: Sequence[str]) -> Rows:
    """Return the steps of some tasks, without their output."""
    if not tasks:
        return []
    marks = ", ".join("?" * len(tasks))
    return store.query(_STEPS.format(result=RESULT, chosen=f"s.task IN ({marks})"), [run_id, *tasks])


def list_run_steps(store: Store, run_id: str) -> Rows:
    """Return the steps that belong to the run as a whole, not to a task."""
    return store.query(_STEPS.format(result=RESULT, chosen="s.task IS NULL"), [run_id])


def find_end(store: Store, step: Mapping[str, Any]) -> int:
    """Return the last event of a step, before a later attempt of the same name; while it runs, any."""
    run, key, seq = step["run_id"], step["key"], step["seq"]
    rows = store.query(_END, [run, key, seq, run, seq, key])
    return min((int(row["last"]) for row in rows if row["last"] is not None), default=2**62)


def get_step(store: Store, run_id: str, seq: int) -> dict[str, Any]:
    """Return one step with its input and output."""
    rows = store.query("SELECT * FROM orchestrator_steps WHERE run_id = ? AND seq = ?", [run_id, seq])
    if not rows:
        raise NotFound(f"There is no step {seq} in run {run_id}.", hint=f"See /runs/{run_id}")
    return rows[0]


EVENT_ROWS = "SELECT run_id, seq, ts, step, type, data FROM orchestrator_events"


def match_text(words: str) -> tuple[str, str]:
    """Return the condition for events with these words, whatever their case, and its argument."""
    # As encoded in JSON: quotes and line breaks have a backslash there.
    written = json.dumps(words, ensure_ascii=False)[1:-1]
    return "lower(CAST(data AS text)) LIKE lower(?) ESCAPE '!'", f"%{escape_like(written)}%"


def escape_like(text: str) -> str:
    """Return the text with a `!` before what LIKE would read as a pattern."""
    return re.sub("([!%_])", r"!\1", text)


def read_events(store: Store, where: str, values: Sequence[object], order: str, limit: int) -> list[Recorded]:
    """Return the first events that fulfil a condition, in an order, both written in SQL."""
    sql = f"{EVENT_ROWS} WHERE {where} ORDER BY {order} LIMIT {limit}"
    return [
        Recorded(row["run_id"], row["seq"], row["ts"], row["step"], read_event(row["type"], row["data"]))
        for row in store.query(sql, values)
    ]
