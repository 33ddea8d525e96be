"""Jump to a run, a task or a page by a few letters: what the palette of the page asks for."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from segue.domain.run import TASK_RUNS, USUAL_RUNS
from segue.view.load import select_kinds
from segue.web.events import escape_like
from segue.web.routes import Data, PageRequest, PageRoute, find_home, list_menu
from segue.web.runs import match_words

if TYPE_CHECKING:
    from segue.store.store import Store


RUNS = 8
TASKS = 12
_NEWEST = 200
"""Among how many of the newest runs with tasks words are looked for."""

_FIND_RUNS = (
    "SELECT id, kind, state, spec->>'title' AS title, spec->>'source' AS source FROM orchestrator_runs"
)
_FIND_TASKS = (
    "SELECT id, spec->'titles' AS titles FROM ("  # noqa: S608
    f"SELECT id, spec, created FROM orchestrator_runs WHERE {select_kinds(TASK_RUNS)}"
    f" ORDER BY created DESC LIMIT {_NEWEST}) AS newest"
    " WHERE lower(CAST(spec->'titles' AS text)) LIKE lower(?) ESCAPE '!' ORDER BY created DESC LIMIT 20"
)


def query_palette(request: PageRequest) -> Data:
    """Return where the words may lead: pages, runs, tasks."""
    words = request.text("q")[:100]
    pages = [
        {"kind": "page", "label": page.title, "detail": entry.title, "href": page.path}
        for entry in list_menu(request.app, request.store)
        for page in entry.tabs
        if words.lower() in page.title.lower()
    ]
    return {
        "title": "Jump to",
        "filters": {"q": words},
        "found": [*pages, *_find_runs(request.store, words), *_find_tasks(request.store, words)],
    }


def _find_runs(store: Store, words: str) -> list[dict[str, Any]]:
    """Find runs of all kinds by words; without words, the newest of the usual kinds."""
    where, values = match_words(words) if words else (select_kinds(USUAL_RUNS), [])
    rows = store.query(f"{_FIND_RUNS} WHERE {where} ORDER BY created DESC LIMIT {RUNS}", values)
    return [
        {
            "kind": "run",
            "label": str(row["title"] or "") or _shorten(str(row["source"])),
            "detail": f"{row['id']} · {row['kind']} · {row['state']}".replace("_", " "),
            "href": find_home(row["kind"], row["id"]),
        }
        for row in rows
    ]


def _shorten(source: str) -> str:
    """Return the last part of a path with its folder; a sentence as it is."""
    path = PurePath(source)
    return "/".join(path.parts[-2:]) if path.is_absolute() else source


def _find_tasks(store: Store, words: str) -> list[dict[str, Any]]:
    """Find tasks whose title contains the words, in the newest runs."""
    if not words:
        return []
    written = json.dumps(words, ensure_ascii=False)[1:-1]
    found = [
        {
            "kind": "task",
            "label": f"{key} {title}",
            "detail": str(row["id"]),
            "href": f"/runs/{row['id']}/tasks/{quote(key, safe='')}",
        }
        for row in store.query(_FIND_TASKS, [f"%{escape_like(written)}%"])
        for key, title in _read_titles(row["titles"]).items()
        if words.lower() in f"{key} {title}".lower()
    ]
    return found[:TASKS]


def _read_titles(titles: Any) -> dict[str, str]:
    """Return the titles of a run's tasks; SQLite returns JSON as text."""
    known = json.loads(titles) if isinstance(titles, str) else titles
    return {str(key): str(title) for key, title in known.items()} if isinstance(known, dict) else {}


PAGES = (PageRoute("/palette", "palette.html", "Jump to", query_palette, section="/palette"),)
