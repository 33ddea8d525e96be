"""Lists that are read from the code: words of simulators' scripts, queries of reports, columns of views."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any

from segue.domain.installed import import_name, require_part
from segue.domain.options import options_schema
from segue.store import connect


def _keys(kind: type[Any]) -> dict[str, str]:
    """Return the keys of a table with the descriptions from its type."""
    return {name: field["description"] for name, field in options_schema(kind)["properties"].items()}


_SCRIPTS: dict[str, tuple[str, ...]] = {
    "acp": ("sim.acp.script:SETTINGS",),
    "acp selectors": ("sim.acp.script:SELECTORS",),
    "acp actions": ("sim.acp.script:ACTIONS",),
    "acp faults": ("sim.acp.script:FAULTS",),
    "chat": ("notify.sim.chats:SlackScript", "notify.sim.chats:NtfyScript"),
    "chat on": ("notify.sim.chats:ChatEntry",),
    "cloud": ("sim.cloud.script:CloudScript",),
    "cloud on": ("sim.cloud.script:CloudEntry",),
    "cloud run faults": ("sim.cloud.script:RUN_FAULTS",),
    "cloud faults": ("sim.cloud.script:CloudFault",),
    "cloud request faults": ("sim.cloud.script:REQUEST_FAULTS",),
    "cursor": ("sim.cursor.script:SETTINGS",),
    "cursor selectors": ("sim.cursor.script:SELECTORS",),
    "cursor actions": ("sim.cursor.script:ACTIONS",),
    "cursor faults": ("sim.cursor.script:FAULTS",),
    "github": ("sim.github.script:GithubScript",),
    "github repos": ("sim.github.script:GithubRepo",),
    "github tokens": ("sim.github.script:GithubToken",),
    "github faults": ("sim.github.script:GithubFault",),
    "github request faults": ("sim.github.script:FAULTS",),
    "gitlab": ("trackers.gitlab_sim.script:GitlabScript",),
    "gitlab tokens": ("trackers.gitlab_sim.script:GitlabToken",),
    "gitlab faults": ("trackers.gitlab_sim.script:GitlabFault",),
    "gitlab request faults": ("trackers.gitlab_sim.script:FAULTS",),
    "llm": ("segue.sim.llm.script:LlmScript",),
    "llm on": ("segue.sim.llm.script:LlmEntry",),
    "scripted": ("segue.agents.scripted.acts:ScriptedEntry",),
    "search": ("searchers.sim:SearchScript",),
    "search on": ("searchers.sim:SearchEntry",),
    "search faults": ("searchers.sim:FAULTS",),
    "sessions": ("clouds.sim.script:SessionScript",),
    "sessions on": ("clouds.sim.script:SessionEntry",),
    "sessions faults": ("clouds.sim.script:SessionFault",),
    "sessions request faults": ("clouds.sim.script:REQUEST_FAULTS",),
}
"""Name of a table → the types or tables that explain its words, in a part unless they begin with `segue`."""
SCRIPTS = tuple(_SCRIPTS)


def script_words(name: str) -> dict[str, str]:
    """Return word → meaning of a script; raises UsageError if it belongs to a part that is not installed."""
    words: dict[str, str] = {}
    for where in _SCRIPTS[name]:
        found = import_name(where if where.startswith("segue.") else f"segue.parts.{where}")
        words |= _keys(found) if isinstance(found, type) else found
    return words


def query_meanings() -> dict[str, str]:
    """Return every query of the reports, linked, with what one of its rows is."""
    require_part("lab", "The list of queries")
    selection = import_module("segue.parts.lab.reports.selection")
    found = {}
    for name in selection.QUERIES:
        lines = takewhile(lambda line: line.startswith("-- "), selection.read_sql(name).splitlines())
        comment = " ".join(line.removeprefix("-- ") for line in lines)
        link = f"[`{name}`](../../src/segue/parts/lab/reports/sql/{name}.sql)"
        found[link] = comment.partition(". ")[0].rstrip(".")
    return found


JOURNAL = {
    "orchestrator_runs": "one row per run; `spec` is what was asked for, `lease` ends its owner's claim",
    "orchestrator_steps": "one row per attempt at a phase of a task; `output` is how it ended, "
    "`tries` above 1 that it was interrupted, `superseded` when a later `gen` replaced it",
}
"""What the two large tables of the journal are about."""

VIEWS = {
    "orchestrator_events": "one row per event",
    "orchestrator_prompts": "each prompt once; a `prompt` event names it by its digest",
    "orchestrator_signals": "messages to a run, such as `stop`",
    "orchestrator_slots": "today always empty",
    "orchestrator_migrations": "the applied versions of the schema",
    "orchestrator_run_summaries": "a view, one row per run",
    "orchestrator_step_summaries": "a view, one row per step",
    "orchestrator_errors": "a view, one row per `error` event",
    "orchestrator_tool_events": "a view, one row per `agent.tool` event",
    "orchestrator_commands": "a view, one row per command; `origin` is `agent`, `diagnostic` or `check`",
    "orchestrator_verdicts": "a view, one row per `verdict` event",
    "orchestrator_launch_tools": "a view, one row per launch whose agent reports its tools",
}
"""What the smaller tables and the views of the journal are about."""


def view_columns(tables: dict[str, str]) -> list[str]:
    """Return a sentence per table or view, with its columns as a new database has them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "segue.db"
        with connect(path):
            pass
        with closing(sqlite3.connect(path)) as connection:
            query = "SELECT name FROM pragma_table_info(?)"
            found = {view: [name for (name,) in connection.execute(query, (view,))] for view in tables}
    return [
        f"`{view}`, {about}: {', '.join(f'`{name}`' for name in found[view])}."
        for view, about in tables.items()
    ]
