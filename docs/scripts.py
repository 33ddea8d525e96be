"""The tables that explain the scripts of simulators: every key, selector, action and fault."""

from __future__ import annotations

from typing import Any

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
    "search": _keys(search.SearchScript),
    "search on": _keys(search.SearchEntry),
    "search faults": search.FAULTS,
}
"""Name of a table → word → meaning."""


def query_meanings() -> dict[str, str]:
    """Return every query of the reports, linked, with what one of its rows is."""
    found = {}
    for name in QUERIES:
        comment = read_sql(name).partition("\nWITH ")[0].replace("\n-- ", " ").removeprefix("-- ")
        found[f"[`{name}`](../../src/segue/reports/sql/{name}.sql)"] = comment.partition(". ")[0].rstrip(".")
    return found
