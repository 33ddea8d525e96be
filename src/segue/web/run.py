"""The page of one run: what it does now, what it has used, its timeline, and its tasks with their steps."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from segue.domain.run import Run, RunState
from segue.ports import Store
from segue.reports.selection import Rows
from segue.reports.timeline import HIDDEN, Timeline, build_timeline
from segue.reports.timeline_svg import PHASES, draw_timeline
from segue.store.projections import TaskView, state_of, task_views
from segue.web import queries as facts
from segue.web.live import last_event, line_of
from segue.web.pages import Asked, Data, Page
from segue.web.runs import source_name

SIZE = 20
"""Tasks on one page: lanes of the timeline, too."""

FEED = 40
"""Events that are looked at for the feed."""

GOING = (RunState.RUNNING, RunState.PARKED)


def run_page(asked: Asked) -> Data:
    """Everything about one run that fits on a page."""
    store = asked.store
    run = facts.run_of(store, asked.path["run"])
    state = state_of(run)
    order = facts.task_order(store, run)
    number, pages, keys = _place(asked, run, order)
    steps = facts.steps_of(store, run.id, keys)
    whole = facts.run_steps(store, run.id) if number == 1 else []
    views = {view.key: view for view in task_views(run, facts.whole_steps(store, run.id, keys))}
    return {
        "title": source_name(run),
        "run": {**_facts(run), "state": state, "going": state in GOING},
        "used": facts.used(store, run.id),
        "caps": asdict(facts.caps(asked.app, run)),
        "open": [_named(step) for step in steps if step["state"] == "started" and state in GOING],
        "tasks": [_task(key, order[key], views, steps) for key in keys],
        "whole": [_named(step) for step in whole if step["phase"] not in HIDDEN],
        "timeline": asdict(_timeline(run, state, [*whole, *steps], order)),
        "feed": feed(store, run.id),
        "done": facts.done_tasks(store, run.id),
        "total": len(order),
        "page": number,
        "pages": pages,
    }


def _facts(run: Run) -> dict[str, Any]:
    spec = run.spec
    named = {name: getattr(spec, name) for name in ("source", "repo", "agent", "model", "flow")}
    times = {"created": run.created, "updated": run.updated, "wake": run.wake}
    return {
        "id": run.id,
        "name": source_name(run),
        "kind": spec.source_kind,
        **named,
        **times,
        "note": run.note,
    }


def _place(asked: Asked, run: Run, order: dict[str, str]) -> tuple[int, int, list[str]]:
    """Which tasks are shown: those that are asked for, else those around the one that is worked on."""
    keys = list(order)
    pages = max(1, -(-len(keys) // SIZE))
    number = asked.number("page") or (_current(asked.store, run, keys) // SIZE + 1)
    number = min(number, pages)
    return number, pages, keys[(number - 1) * SIZE : number * SIZE]


def _current(store: Store, run: Run, keys: list[str]) -> int:
    wanted = run.spec.titles and run.state is not RunState.DONE
    rows = store.query(
        "SELECT task FROM orchestrator_steps WHERE run_id = ? AND task IS NOT NULL ORDER BY seq DESC LIMIT 1",
        [run.id] if wanted else [""],
    )
    return keys.index(str(rows[0]["task"])) if rows else 0


def _task(key: str, title: str, views: dict[str, TaskView], steps: Rows) -> dict[str, Any]:
    view = views.get(key) or TaskView(key, title)
    shown = [step for step in steps if step["task"] == key and step["phase"] not in HIDDEN]
    told = {name: getattr(view, name) for name in ("state", "phase", "attempts", "verdict", "reason")}
    spent = {"tokens": view.tokens, "cost_usd": view.cost_usd, "seconds": view.seconds}
    where = {"branch": view.branch, "commit": view.commit, "started": view.started}
    return {"key": key, "title": title, **told, **spent, **where, "steps": [_named(step) for step in shown]}


def _named(step: dict[str, Any]) -> dict[str, Any]:
    names = (
        "seq",
        "key",
        "task",
        "phase",
        "attempt",
        "agent",
        "model",
        "state",
        "result",
        "action",
        "reason",
    )
    ended = step["ended"]
    return {
        **{name: step[name] for name in names},
        "started": step["started"],
        "seconds": (ended - step["started"]) / 1000 if ended else None,
        "old": step["superseded"] is not None,
    }


def _timeline(run: Run, state: RunState, steps: Rows, order: dict[str, str]) -> Timeline:
    now = int(time.time() * 1000) if state in GOING else run.updated
    began = min([step["started"] for step in steps], default=run.created)
    return build_timeline(run, steps, order, began, now)


def feed(store: Store, run_id: str) -> list[dict[str, Any]]:
    """The last things that happened, as sentences, the newest last."""
    after = max(0, last_event(store, run_id) - FEED)
    return [line for event in store.events(run_id, after, FEED) if (line := line_of(event))["text"]]


def drawing(data: Data) -> str:
    """The timeline of the page's data as a drawing whose bars lead to the steps."""
    from segue.reports.timeline import Bar, Lane

    told = data["timeline"]
    made = [Lane(**{**lane, "bars": tuple(Bar(**bar) for bar in lane["bars"])}) for lane in told["lanes"]]
    return draw_timeline(Timeline(**{**told, "lanes": tuple(made)}), link="#step-")


def legend(data: Data) -> list[str]:
    """The phases that occur in the timeline."""
    used = {
        bar["phase"] if bar["phase"] in PHASES else "other"
        for lane in data["timeline"]["lanes"]
        for bar in lane["bars"]
    }
    return [phase for phase in (*PHASES, "other") if phase in used]


PAGES = (Page("/runs/{run}", "run.html", "Run", run_page, section="/runs", live=True),)
