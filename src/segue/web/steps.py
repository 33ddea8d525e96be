"""The steps of all runs, with filters: the evidence behind the figures of reports."""

from __future__ import annotations

from segue.domain.plan import BuildPhase
from segue.domain.run import StepState
from segue.domain.verdict import Action, Result
from segue.flow.phase import PHASES
from segue.web.queries import RESULT
from segue.web.reports import FILTERS, select_for
from segue.web.routes import Data, PageRequest, PageRoute

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
_SQL = """SELECT s.run_id, s.seq, s.key, s.task, s.phase, s.attempt, s.agent, s.model, s.build_phase, s.state,
 s.started, s.ended, r.source, {result} AS result,
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
    sql = _SQL.format(
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


PAGES = (PageRoute("/steps", "steps.html", "Steps", query_steps, section="/runs"),)
