"""Lists that are read from the code: words of simulators' scripts, queries of reports, columns of views."""

from __future__ import annotations

import importlib
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from segue.agents.scripted.acts import ScriptedEntry
from segue.domain.installed import find_command
from segue.domain.options import options_schema
from segue.reports.selection import QUERIES, read_sql
from segue.sim.acp import script as acp
from segue.sim.chat.ntfy import NtfyScript
from segue.sim.chat.press import ChatEntry
from segue.sim.chat.slack import SlackScript
from segue.sim.cloud import script as cloud
from segue.sim.cursor import script as cursor
from segue.sim.github import script as github
from segue.sim.gitlab import script as gitlab
from segue.sim.llm import script as llm
from segue.sim.search import app as search
from segue.store import connect


def _keys(*kinds: type[Any]) -> dict[str, str]:
    """Return the keys of these tables with the descriptions from their types."""
    fields = [options_schema(kind)["properties"] for kind in kinds]
    return {name: field["description"] for table in fields for name, field in table.items()}


SCRIPTS: dict[str, dict[str, str]] = {
    "acp": acp.SETTINGS,
    "acp selectors": acp.SELECTORS,
    "acp actions": acp.ACTIONS,
    "acp faults": acp.FAULTS,
    "chat": _keys(SlackScript, NtfyScript),
    "chat on": _keys(ChatEntry),
    "cloud": _keys(cloud.CloudScript),
    "cloud on": _keys(cloud.CloudEntry),
    "cloud run faults": cloud.RUN_FAULTS,
    "cloud faults": _keys(cloud.CloudFault),
    "cloud request faults": cloud.REQUEST_FAULTS,
    "cursor": cursor.SETTINGS,
    "cursor selectors": cursor.SELECTORS,
    "cursor actions": cursor.ACTIONS,
    "cursor faults": cursor.FAULTS,
    "github": _keys(github.GithubScript),
    "github repos": _keys(github.GithubRepo),
    "github tokens": _keys(github.GithubToken),
    "github faults": _keys(github.GithubFault),
    "github request faults": github.FAULTS,
    "gitlab": _keys(gitlab.GitlabScript),
    "gitlab tokens": _keys(gitlab.GitlabToken),
    "gitlab faults": _keys(gitlab.GitlabFault),
    "gitlab request faults": gitlab.FAULTS,
    "llm": _keys(llm.LlmScript),
    "llm on": _keys(llm.LlmEntry),
    "scripted": _keys(ScriptedEntry),
    "search": _keys(search.SearchScript),
    "search on": _keys(search.SearchEntry),
    "search faults": search.FAULTS,
}
"""Name of a table → word → meaning."""


def part_scripts(name: str) -> dict[str, dict[str, str]]:
    """Return the same for the simulators of a part; raises UsageError if it is not installed."""
    if name != "sessions":
        raise KeyError(name)
    find_command("sim devin")
    sessions = importlib.import_module("segue.parts.clouds.sim.script")
    return {
        "sessions": _keys(sessions.SessionScript),
        "sessions on": _keys(sessions.SessionEntry),
        "sessions faults": _keys(sessions.SessionFault),
        "sessions request faults": sessions.REQUEST_FAULTS,
    }


def query_meanings() -> dict[str, str]:
    """Return every query of the reports, linked, with what one of its rows is."""
    found = {}
    for name in QUERIES:
        comment = read_sql(name).partition("\nWITH ")[0].replace("\n-- ", " ").removeprefix("-- ")
        found[f"[`{name}`](../../src/segue/reports/sql/{name}.sql)"] = comment.partition(". ")[0].rstrip(".")
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
