"""Rows of a table of tasks, from JSON: one document, or an object on each line.

Files of Task Master and beads are such tables. Their words are translated into the columns of a table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from segue.domain.errors import SourceError

KEPT = "Nothing was changed."
_TEXTS = ("text", "description", "details", "design", "notes", "teststrategy")
_HEADED = {"design": "Design", "notes": "Notes", "teststrategy": "Test strategy"}
_CRITERIA = ("criteria", "acceptance_criteria", "acceptancecriteria")
_HARD = (None, "blocks", "waits-for")
"""Kinds of links between issues of beads that say what must be done first."""
_NO_TASKS = frozenset({"epic", "message", "gate", "molecule", "event", "agent", "role"})
_GONE = frozenset({"tombstone", "pinned"})


class Row(Struct, frozen=True):
    """What is said about one task."""

    place: str
    """Where it is in the file, for messages."""
    line: int | None
    cells: Mapping[str, Any]
    foreign: bool = False
    """Whether another tool wrote it, so that it may have any number of other columns."""


def read_json(text: str, name: str) -> Iterator[Row]:
    """Yield the tasks of a JSON document: a list, or one under `tasks`, or that of a tag in Task Master."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{name} is not JSON: {error}.", kept=KEPT, hint="Correct the file") from None
    listed = [one for one in _find_list(document, name) if isinstance(one, dict)]
    return _flatten([_lower(one) for one in listed])


def read_json_lines(text: str, name: str) -> Iterator[Row]:
    """Yield the objects of a file that has one on each line; what beads says beside its tasks is left out."""
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            raise wrong(name, f"line {number}", "is not JSON") from None
        if not isinstance(found, dict):
            raise wrong(name, f"line {number}", "is not a JSON object")
        cells = _lower(found)
        if not _is_left_out(cells):
            yield Row(f"line {number}", number, _translate(cells), "issue_type" in cells)


def wrong(name: str, place: str, words: str) -> SourceError:
    """Return the error for a row that cannot be read."""
    return SourceError(
        f"{name}, {place} {words}.", kept=KEPT, hint="Fix it there; see `docs/guides/issues.md`"
    )


def _find_list(document: Any, name: str) -> Sequence[Any]:
    found = document.get("tasks", document) if isinstance(document, dict) else document
    if isinstance(found, dict):
        tags = [one["tasks"] for one in found.values() if isinstance(one, dict) and "tasks" in one]
        master = found.get("master")
        found = master["tasks"] if isinstance(master, dict) and "tasks" in master else next(iter(tags), None)
    if not isinstance(found, list):
        hint = 'Write a list, {"tasks": […]}, or let Task Master write the file'
        raise SourceError(f"{name} has no list of tasks.", kept=KEPT, hint=hint)
    return found


def _flatten(tasks: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """Yield a task, or its subtasks in its place: what waits for a task waits for all its subtasks."""
    parts = {_id(task): [_part(task, sub) for sub in _subtasks(task)] for task in tasks}
    for number, task in enumerate(tasks, 1):
        subtasks, cells = _subtasks(task), _translate(task)
        waits = _expand(cells["depends_on"], parts)
        if not subtasks:
            yield Row(f"task {number}", None, {**cells, "depends_on": waits}, foreign=True)
        for sub in subtasks:
            inner = _translate(sub)
            # A short id means a sibling.
            own = [one if "." in str(one) else f"{_id(task)}.{one}" for one in inner["depends_on"]]
            about = "\n\n".join(filter(None, (f"Part of: {cells.get('title', '')}", cells["text"])))
            inner |= {"id": _part(task, sub), "depends_on": [*own, *waits]}
            inner["text"] = "\n\n".join(filter(None, (inner["text"] or str(inner.get("title", "")), about)))
            yield Row(f"task {number}", None, inner, foreign=True)


def _translate(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a task says in the columns of a table."""
    texts = ((name, value) for name in _TEXTS if isinstance(value := cells.get(name), str) and value.strip())
    headed = (f"{_HEADED[name]}: {value}" if name in _HEADED else value for name, value in texts)
    rest = {name: value for name, value in cells.items() if name not in (*_TEXTS, *_CRITERIA, "dependencies")}
    return {
        **rest,
        "text": "\n\n".join(map(str.strip, headed)),
        "criteria": next((cells[name] for name in _CRITERIA if cells.get(name)), None),
        "depends_on": _waits(cells.get("depends_on") or cells.get("dependencies")),
    }


def _waits(value: Any) -> Any:
    """Return the ids that are waited for: of a list, also those in links of beads; a text stays as it is."""
    if not isinstance(value, list):
        return value or []
    links = (one for one in value if not isinstance(one, dict) or one.get("type") in _HARD)
    return [one.get("depends_on_id") if isinstance(one, dict) else one for one in links]


def _expand(waits: Any, parts: Mapping[str, Sequence[str]]) -> list[Any]:
    listed = waits if isinstance(waits, list) else [waits]
    return [key for one in listed for key in parts.get(str(one)) or [one]]


def _is_left_out(cells: Mapping[str, Any]) -> bool:
    return (
        cells.get("_type", "issue") != "issue"
        or cells.get("issue_type") in _NO_TASKS
        or cells.get("status") in _GONE
        or bool(cells.get("is_template"))
    )


def _subtasks(task: Mapping[str, Any]) -> list[dict[str, Any]]:
    listed = task.get("subtasks")
    return [_lower(one) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _part(task: Mapping[str, Any], subtask: Mapping[str, Any]) -> str:
    """Return the key of a subtask: `2.1`, also where the file has that already."""
    return f"{_id(task)}.{_id(subtask).rpartition('.')[2]}"


def _id(task: Mapping[str, Any]) -> str:
    return str(task.get("id", "")).strip()


def _lower(given: Mapping[str, Any]) -> dict[str, Any]:
    return {str(field).strip().lower(): value for field, value in given.items()}


def unknown_columns(rows: Iterable[Row], known: Sequence[str]) -> list[str]:
    """Return the columns that nobody reads, of rows that people wrote."""
    fields = (field for row in rows if not row.foreign for field in row.cells)
    return list(dict.fromkeys(field for field in fields if field and field not in known))
