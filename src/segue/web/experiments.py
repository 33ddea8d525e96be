"""The pages of experiments: how far each is, and what its arms show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.reports.experiments import find_experiments, report_experiment
from segue.reports.report import cell_to_json
from segue.runtime.app import App
from segue.web.reports import describe_tables, present_report
from segue.web.routes import Data, NotFound, PageRequest, PageRoute

if TYPE_CHECKING:
    from segue.store.store import Store


_MOST = 50
"""Experiments on the list; each is counted when the page is asked for."""


def query_experiments(request: PageRequest) -> Data:
    """Return the experiments, that with the newest trial first."""
    names = find_experiments(request.store)
    return {
        "experiments": [_summarize(request.store, name) for name in names[:_MOST]],
        "total": len(names),
    }


def _summarize(store: Store, name: str) -> dict[str, Any]:
    report = report_experiment(store, name)
    arms = [
        {key: cell_to_json(row[key]) for key in ("arm", "over", "planned", "passed")}
        for row in report.tables[0].records()
    ]
    over = sum(arm["over"] for arm in arms)
    planned = sum(arm["planned"] or 0 for arm in arms)
    return {"name": name, "arms": arms, "over": over, "planned": planned or None, "notes": list(report.notes)}


def query_experiment(request: PageRequest) -> Data:
    """Return one experiment: its arms, differences to the first one, and whether it may be stopped."""
    name = request.path["name"]
    if name not in find_experiments(request.store):
        raise NotFound(f"There is no experiment {name[:60]!r}.", hint="See /experiments")
    report = report_experiment(request.store, name)
    return {
        "title": report.title,
        "name": name,
        "runs": report.runs,
        "notes": list(report.notes),
        "filters": {},
        **describe_tables(report),
    }


def has_experiments(_app: App, store: Store) -> bool:
    """Return whether there is anything to show."""
    return bool(store.query("SELECT 1 FROM orchestrator_runs WHERE kind = 'trial' LIMIT 1"))


PAGES = (
    PageRoute(
        "/experiments",
        "experiments.html",
        "Experiments",
        query_experiments,
        menu=True,
        slow=True,
        exists=has_experiments,
    ),
    PageRoute(
        "/experiments/{name}",
        "experiment.html",
        "Experiment",
        query_experiment,
        present_report,
        section="/experiments",
    ),
)
