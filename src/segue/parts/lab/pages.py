"""The pages of the lab: reports, whose figures link to the steps behind them, and experiments."""

from __future__ import annotations

import getpass
import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from segue.domain.errors import UsageError
from segue.domain.plan import BuildPhase
from segue.domain.run import TASK_RUNS, StepState
from segue.domain.verdict import Action, Result
from segue.flow.phase import PHASES
from segue.parts.lab.experiment.report import find_experiments, report_experiment
from segue.parts.lab.labels.events import Label, LabelOrigin
from segue.parts.lab.labels.give import Labelled, give, read_word
from segue.parts.lab.page_cells import format_table
from segue.parts.lab.reports.build import REPORTS, build_reports
from segue.parts.lab.reports.page_table import MOST_ROWS, count_drawn
from segue.parts.lab.reports.report import DatasetReport, ReportTable, cell_to_json
from segue.parts.lab.reports.selection import Selection, select_runs
from segue.runtime.app import App
from segue.view.load import select_kinds
from segue.web.queries import RESULT
from segue.web.routes import ActionResult, ActionRoute, Data, NotFound, PageRequest, PageRoute

if TYPE_CHECKING:
    from segue.store.store import Store


FILTERS = ("since", "agent", "model", "source", "kind")
"""The filters of `segue report`."""

_ASKS = {
    "gaps": "Tasks and errors that recur across runs, by build phase.",
    "recovery": "What was done about failed attempts, and how often the next attempt passed.",
    "compare": "Agents and models on the same source. Only significant differences are shown.",
    "proof": "How well tasks are proven, by agent and model.",
    "verification": "How often judges, checks and levels were right, where somebody has labelled the work.",
    "routing": "What each agent's attempts cost and reached, and what other choices would have cost.",
}
_EMPTY = {
    "gaps": "Nothing failed in these runs.",
    "recovery": "No failed attempt was followed by another one yet:",
    "compare": "Only finished runs count. Run the same plan with two agents:",
    "proof": "No task has ended in these runs.",
    "verification": "No work is labelled yet. Say of some tasks, chosen by chance, whether they are right:",
    "routing": "No agent has worked in these runs.",
}
_TRY = {
    "gaps": ("segue demo feature",),
    "recovery": ("segue run plan.md --flow spec", "segue demo build"),
    "compare": ("segue experiment todo.toml", "segue run plan.md --agent claude"),
    "proof": ("segue run plan.md",),
    "verification": ("segue label add last 1 good", "segue label git"),
    "routing": ("segue run plan.md",),
}


def make_query(name: str) -> Callable[[PageRequest], Data]:
    """Return the query of one report."""

    def query(request: PageRequest) -> Data:
        chosen = {filter_: request.text(filter_) for filter_ in FILTERS}
        selection, problem = select_for(request.store, chosen)
        [report] = build_reports(request.store, (name,), selection)
        return {
            "title": report.title,
            "asks": _ASKS[name],
            "report": report.name,
            "kind": report.kind,
            "runs": report.runs,
            "notes": list(report.notes),
            **describe_tables(report),
            "filters": chosen,
            "filtered": any(chosen.values()),
            "problem": problem,
            "choices": _list_choices(request.store),
            "empty": {"next": _EMPTY[name], "commands": _TRY[name]},
            "any": bool(request.store.runs(limit=1, kinds=TASK_RUNS)),
            "to_label": choose_unlabelled(request.store) if name == "verification" else [],
        }

    return query


_UNLABELLED = """SELECT t.run_id, t.task, t.title, t.proof_level FROM segue_tasks t
 WHERE t.state = 'done' AND NOT EXISTS (
   SELECT 1 FROM segue_labels l WHERE l.run_id = t.run_id AND l.task = t.task)
 ORDER BY t.run_id, t.task"""
_ASKED = 5


def choose_unlabelled(store: Store) -> list[dict[str, Any]]:
    """Return some tasks to be labelled, by chance: picked ones would say little about the others."""
    rows = store.query(_UNLABELLED)
    chance = random.Random(len(rows))  # noqa: S311 - the same ones until one of them is labelled
    return chance.sample(rows, min(_ASKED, len(rows)))


async def label(app: App, path: Mapping[str, str], form: Mapping[str, str]) -> ActionResult:
    """Store what a person says about the work of a task."""
    good = read_word(form.get("good", ""))
    said = Label(
        path["task"], good, LabelOrigin.PERSON, getpass.getuser(), form.get("reason", "").strip()[:500]
    )

    with app.store() as store:
        await give(store, [Labelled(path["run"], said)])
    words = "right" if good else "wrong"
    return ActionResult(f"Task {path['task']} of run {path['run']} is labelled {words}.", "/verification")


ACTIONS = (ActionRoute("/runs/{run}/tasks/{task}/label", label),)


def select_for(store: Store, chosen: Mapping[str, str]) -> tuple[Selection, str]:
    """Select the runs, and describe the problem of a filter that has to be ignored."""
    filters = {name: chosen[name] for name in FILTERS}
    try:
        return select_runs(store, **filters), ""
    except UsageError:
        problem = f"{chosen['since'][:40]!r} is not a date or duration. Write 7d, 12h or 2026-01-31."
        return select_runs(store, **{**filters, "since": ""}), problem


def present_report(data: Data) -> Data:
    """Format all tables, with their figures."""
    return {"tables": [format_table(data, table) for table in data["tables"]]}


def describe_tables(report: DatasetReport) -> Data:
    """Return the rows of all tables by their names, and what the page needs to know of each."""
    rows = {table.name: table.records() for table in report.tables}
    return {**rows, "tables": [_describe_table(table) for table in report.tables]}


def _describe_table(table: ReportTable) -> dict[str, Any]:
    """Describe a table; its rows are stored under its own name."""
    return {
        "name": table.name,
        "title": table.title,
        "columns": list(table.columns),
        "note": table.note,
        "total": len(table.rows),
        "shown": min(len(table.rows), MOST_ROWS),
        "drawn": count_drawn(table),
        "sql": table.sql,
    }


def _list_choices(store: Store) -> dict[str, list[str]]:
    rows = store.query(
        "SELECT DISTINCT spec->>'agent' AS agent, spec->>'model' AS model, kind FROM orchestrator_runs"  # noqa: S608
        f" WHERE {select_kinds()}"
    )
    return {
        name: sorted({str(row[name]) for row in rows if row[name]}) for name in ("agent", "model", "kind")
    }


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


SIZE = 50
CHOICES = {
    "phase": list(PHASES),
    "state": [str(state) for state in StepState],
    "result": [str(result) for result in Result],
    "action": [str(action) for action in Action],
    "build": [*(str(phase) for phase in BuildPhase), "none"],
}
_WHERE = {
    "phase": "s.phase = ?",
    "state": "s.state = ?",
    "result": f"{RESULT} = ?",
    "action": "s.output->'verdict'->>'action' = ? AND s.output->'verdict'->>'result' <> 'PASS'",
    "build": "s.build_phase = ?",
}
_STEPS = """SELECT s.run_id, s.seq, s.key, s.task, s.phase, s.attempt, s.agent, s.model, s.build_phase,
 s.state, s.started, s.ended, r.source, {result} AS result,
 s.output->'verdict'->>'action' AS action,
 coalesce(s.output->'failure'->>'message', s.output->'verdict'->>'reason') AS reason
 FROM (SELECT id, spec->>'source' AS source FROM orchestrator_runs WHERE true{runs}) r
 JOIN orchestrator_steps s ON s.run_id = r.id WHERE s.phase IN ({phases}){steps}
 ORDER BY s.run_id DESC, s.seq DESC LIMIT {limit} OFFSET ?"""


def query_steps(request: PageRequest) -> Data:
    """Return the steps that match, newest first."""
    chosen = {name: request.text(name) for name in (*CHOICES, *FILTERS)}
    runs, values = select_for(request.store, chosen)[0].to_sql()
    where = ""
    phases = CHOICES["phase"]
    values += phases
    for name, condition in _WHERE.items():
        if chosen[name] == "none" and name == "build":
            where += " AND s.build_phase IS NULL"
        elif chosen[name]:
            where, values = f"{where} AND {condition}", [*values, chosen[name]]
    number = request.number("page", 1, 1_000_000) or 1
    sql = _STEPS.format(
        result=RESULT, runs=runs, steps=where, phases=", ".join("?" * len(phases)), limit=SIZE + 1
    )
    rows = request.store.query(sql, [*values, (number - 1) * SIZE])
    return {
        "title": "Steps",
        "steps": [
            {**row, "seconds": (row["ended"] - row["started"]) / 1000 if row["ended"] else None}
            for row in rows[:SIZE]
        ],
        "page": number,
        "pages": number + (len(rows) > SIZE),
        "filters": chosen,
        "choices": CHOICES,
        "kept": {name: chosen[name] for name in FILTERS if chosen[name]},
    }


PAGES = (
    *(
        PageRoute(
            f"/{name}",
            "report.html",
            name.capitalize(),
            make_query(name),
            present_report,
            menu="Lab",
            slow=True,
        )
        for name in REPORTS
    ),
    PageRoute(
        "/experiments",
        "experiments.html",
        "Experiments",
        query_experiments,
        menu="Lab",
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
    PageRoute("/steps", "steps.html", "Steps", query_steps, menu="Lab"),
)
