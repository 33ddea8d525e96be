"""Tasks from a table: CSV, JSON lines or JSON, also of Task Master and beads. It is never written."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.errors import SourceError, UsageError
from segue.domain.graph import Dependency, WaitKind, sort_tasks
from segue.domain.task import Notice, Task, TaskList, TaskStatus
from segue.domain.text import plain
from segue.domain.verdict import Criterion
from segue.ports import Source, SourceFiles, SourceRequest, SourceTraits
from segue.sources.progress import pair_key
from segue.sources.recognise import FOLDERS, is_table
from segue.sources.waits import note_waits
from segue.sources.watched import WatchedFile
from segue.system.reading import check_inside, explain_unreadable, work_tree

FIELDS = ("id", "title", "text", "criteria", "depends_on", "status")
STATUSES = {
    TaskStatus.PENDING: "pending open todo in-progress in_progress no false",
    TaskStatus.DONE: "done completed complete closed yes true x",
    TaskStatus.SKIPPED: "skipped deferred blocked review",
    TaskStatus.CANCELLED: "cancelled canceled",
}
_STATUS = {"": TaskStatus.PENDING} | {word: one for one, words in STATUSES.items() for word in words.split()}
_FOR_PEOPLE = ("blocked", "review")
"""A person must do something about it first, and so about what waits for it."""
_TEXTS = {"text": "", "description": "", "details": "", "design": "Design: ", "notes": "Notes: "}
_TEXTS |= {"teststrategy": "Test strategy: "}
_CRITERIA = ("criteria", "acceptance_criteria", "acceptancecriteria")
_HARD = (None, "blocks", "waits-for")
"""Kinds of links between issues of beads that say what must be done first."""
_NO_TASKS = frozenset({"epic", "message", "gate", "molecule", "event", "agent", "role"})
_KEPT = "Nothing was changed."
_TITLE = 200
_KEY = re.compile(r"[^\s/\\][^/\\\n]{0,99}")

Cells = dict[str, Any]


class Row(Struct, frozen=True):
    """What is said about one task, by the columns of a table."""

    place: str
    """Where it is in the file, for messages."""
    line: int | None
    cells: Cells


class TableSource(Source):
    """A file with a table of tasks that is run in one repository."""

    kind = "table"
    in_files = True
    traits = SourceTraits(numbered=True)

    @classmethod
    def matches(cls, request: SourceRequest) -> bool:
        """Return whether such a file was named."""
        return request.named is not None and is_table(request.named)

    @classmethod
    def open(cls, request: SourceRequest) -> Self:
        """Open the file that was named, or that in the folder of a tool that was named."""
        if request.named is None:
            raise UsageError("No table was named.", hint="segue run tasks.csv")
        path = request.here / request.named
        path /= FOLDERS.get(path.name, "")
        check_inside(path, work_tree(request.repo))
        return cls(path, request.repo)

    def __init__(self, path: Path, repo: Path) -> None:
        self.path = Path(os.path.realpath(path))
        self._named = Path(os.path.abspath(path))  # noqa: PTH100 - a link is part of the contract
        self.key = pair_key(self.kind, str(self.path), repo)
        self._file = WatchedFile(self.path)
        self._data: bytes | None = None
        self._listing = TaskList(())

    @property
    def address(self) -> str:
        """The path of the file."""
        return str(self.path)

    @property
    def title(self) -> str:
        """The name of the file."""
        return self.path.name

    @property
    def files(self) -> SourceFiles:
        """The file, as it was named: a link stays where it leads."""
        return SourceFiles(contract=(self._named,))

    def tasks(self) -> TaskList:
        """Return the rows as tasks; raises SourceError and names the row that is wrong."""
        try:
            data = self._file.read()
        except OSError as error:
            hint = "Check the path and who may read it."
            if self.path.parent.name == ".beads":
                hint = "Write it with: bd export -o .beads/issues.jsonl"
            raise SourceError(explain_unreadable(self.path, error), kept=_KEPT, hint=hint) from error
        if data is not self._data:
            self._listing, self._data = read_table(data, self.path.name), data
        return self._listing


def read_table(data: bytes, name: str) -> TaskList:
    """Return the tasks of a table, each after those it waits for."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise _wrong(name, f"line {line}", "is not UTF-8 text") from None
    suffix = Path(name).suffix.lower()
    notices: list[Notice] = []
    if suffix == ".json":
        form, rows = "JSON", list(_read_json(text, name))
    elif suffix in (".jsonl", ".ndjson"):
        form, rows = "JSON lines", list(_read_json_lines(text, name))
    else:
        form, rows = "CSV", list(_read_csv(text, name))
        unknown = [one for one in (rows[0].cells if rows else ()) if one and one not in FIELDS]
        if unknown:
            names = ", ".join(plain(one, 40) for one in unknown[:10])
            notices.append(Notice(1, f"These columns are not read: {names}."))
    keys = _read_keys(rows, name)
    tasks = [
        _read_task(key, row, frozenset(keys), name, notices) for key, row in zip(keys, rows, strict=True)
    ]
    held = {
        key
        for key, row in zip(keys, rows, strict=True)
        if _text(row.cells.get("status")).lower() in _FOR_PEOPLE
    }
    tasks = _leave_to_people(tasks, held, notices)
    by_key = {task.key: task for task in tasks}
    ordered = [by_key[key] for key in sort_tasks({task.key: task.depends_on for task in tasks})]
    notices = [*note_waits(ordered), *notices]
    return TaskList(tuple(ordered), tuple(notices), f"Read as {form}: {len(tasks)} tasks.")


def _wrong(name: str, place: str, words: str) -> SourceError:
    return SourceError(
        f"{name}, {place} {words}.", kept=_KEPT, hint="Fix it there; see `docs/guides/issues.md`"
    )


def _read_csv(text: str, name: str) -> Iterator[Row]:
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max((",", ";", "\t"), key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    header: list[str] = []
    line = 1
    try:
        for cells in reader:
            began, line = line, reader.line_num + 1
            if not any(cell.strip() for cell in cells):
                continue
            if not header:
                header = _read_header(cells, name, began)
            elif len(cells) > len(header):
                words = f"has {len(cells)} cells, but there are {len(header)} columns"
                raise _wrong(name, f"line {began}", words)
            else:
                yield Row(f"line {began}", began, dict(zip(header, cells, strict=False)))
    except csv.Error as error:
        raise _wrong(name, f"line {reader.line_num}", f"is not CSV: {error}") from None


def _read_header(cells: Sequence[str], name: str, line: int) -> list[str]:
    header = [cell.strip().lower() for cell in cells]
    if not {"title", "text"} & set(header):
        raise SourceError(
            f"{name}, line {line}: the first line names no column `title` or `text`.",
            kept=_KEPT,
            hint=f"Begin the file with: {','.join(FIELDS)}",
        )
    twice = [cell for cell in header if cell and header.count(cell) > 1]
    if twice:
        raise _wrong(name, f"line {line}", f"names the column `{plain(twice[0], 40)}` twice")
    return header


def _read_json_lines(text: str, name: str) -> Iterator[Row]:
    """Yield the objects of a file that has one on each line; what beads says beside its tasks is left out."""
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            raise _wrong(name, f"line {number}", "is not JSON") from None
        if not isinstance(found, dict):
            raise _wrong(name, f"line {number}", "is not a JSON object")
        cells = _lower(found)
        is_task = cells.get("_type", "issue") == "issue" and cells.get("issue_type") not in _NO_TASKS
        if is_task and cells.get("status") not in ("tombstone", "pinned") and not cells.get("is_template"):
            yield Row(f"line {number}", number, _translate(cells))


def _read_json(text: str, name: str) -> Iterator[Row]:
    """Yield the tasks of a document: a list, one under `tasks`, or that of the first tag of Task Master."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{name} is not JSON: {error}.", kept=_KEPT, hint="Correct the file") from None
    tags = [document, *(document.values() if isinstance(document, dict) else ())]
    if isinstance(document, dict) and "master" in document:
        tags.insert(0, document["master"])
    lists = (one["tasks"] if isinstance(one, dict) and "tasks" in one else one for one in tags)
    listed = next((one for one in lists if isinstance(one, list)), None)
    if listed is None:
        hint = 'Write a list, {"tasks": […]}, or let Task Master write the file'
        raise SourceError(f"{name} has no list of tasks.", kept=_KEPT, hint=hint)
    return _flatten([_lower(one) for one in listed if isinstance(one, dict)])


def _flatten(tasks: Sequence[Cells]) -> Iterator[Row]:
    """Yield a task, or its subtasks in its place: what waits for a task waits for all its subtasks."""
    parts = {_text(task.get("id")): [_part(task, sub) for sub in _subtasks(task)] for task in tasks}
    for number, task in enumerate(tasks, 1):
        subtasks, cells, key = _subtasks(task), _translate(task), _text(task.get("id"))
        waits = [
            other for one in _split(cells["depends_on"], r"[,;\s]+") for other in parts.get(one) or [one]
        ]
        if not subtasks:
            yield Row(f"task {number}", None, {**cells, "depends_on": waits})
        for sub in subtasks:
            inner = _translate(sub)
            # A short id means a sibling.
            own = [one if "." in one else f"{key}.{one}" for one in _split(inner["depends_on"], r"[,;\s]+")]
            about = (
                inner["text"] or _text(inner.get("title")),
                f"Part of: {cells.get('title', '')}",
                cells["text"],
            )
            inner |= {"id": _part(task, sub), "depends_on": [*own, *waits]}
            yield Row(f"task {number}", None, {**inner, "text": "\n\n".join(filter(None, about))})


def _translate(cells: Cells) -> Cells:
    """Return what another tool says about a task, by the columns of a table."""
    texts = ((lead, cells.get(name)) for name, lead in _TEXTS.items())
    waits = cells.get("depends_on") or cells.get("dependencies") or []
    if isinstance(waits, list):
        hard = (one for one in waits if not isinstance(one, dict) or one.get("type") in _HARD)
        waits = [one.get("depends_on_id") if isinstance(one, dict) else one for one in hard]
    return {
        **cells,
        "text": "\n\n".join(
            f"{lead}{text.strip()}" for lead, text in texts if isinstance(text, str) and text.strip()
        ),
        "criteria": next((cells[name] for name in _CRITERIA if cells.get(name)), None),
        "depends_on": waits,
    }


def _subtasks(task: Cells) -> list[Cells]:
    listed = task.get("subtasks")
    return [_lower(one) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _part(task: Cells, subtask: Cells) -> str:
    """Return the key of a subtask: `2.1`, also where the file has that already."""
    return f"{_text(task.get('id'))}.{_text(subtask.get('id')).rpartition('.')[2]}"


def _lower(given: Mapping[str, Any]) -> Cells:
    return {str(name).strip().lower(): value for name, value in given.items()}


def _read_keys(rows: Sequence[Row], name: str) -> list[str]:
    """Return the keys of all rows: their ids, or their places where none has an id."""
    keys = [_text(row.cells.get("id")) for row in rows]
    if not any(keys):
        return [str(place) for place in range(1, len(rows) + 1)]
    for place, (key, row) in enumerate(zip(keys, rows, strict=True)):
        if not _KEY.fullmatch(key) or not key.isprintable():
            words = f"has the id {plain(key, 40)!r}" if key else "has no id, but others have"
            raise _wrong(name, row.place, f"{words}; an id is a short word without a slash")
        if key in keys[:place]:
            raise _wrong(name, row.place, f"has the id {key}, which another row has, too")
    return keys


def _read_task(key: str, row: Row, known: frozenset[str], name: str, notices: list[Notice]) -> Task:
    cells = row.cells
    title, text = _text(cells.get("title")), _text(cells.get("text"))
    if not title and not text:
        raise _wrong(name, row.place, "has neither a title nor a text")
    word = _text(cells.get("status")).lower()
    if word not in _STATUS:
        words = f"has the unknown status {plain(word, 40)!r}; known: {', '.join(filter(None, _STATUS))}"
        raise _wrong(name, row.place, words)
    named = dict.fromkeys(one for one in _split(cells.get("depends_on"), r"[,;\s]+") if one != key)
    waits = tuple(one for one in named if one in known)
    absent = (plain(one, 40) for one in named if one not in known)
    said = f"{key} waits for {{}}, which is not in this file; that is ignored."
    notices += [Notice(row.line, said.format(one)) for one in absent]
    return Task(
        key,
        plain(title or text, _TITLE) or f"Row {key}",
        text or title,
        _STATUS[word],
        row.line,
        criteria=tuple(
            Criterion(f"C{place}", one) for place, one in enumerate(_criteria(cells.get("criteria")), 1)
        ),
        depends_on=(Dependency(waits, WaitKind.STATED, "its row says so"),) if waits else (),
    )


def _leave_to_people(tasks: Sequence[Task], held: Iterable[str], notices: list[Notice]) -> list[Task]:
    """Leave out what a person must do something about first, and what waits for that."""
    by_key = {task.key: task for task in tasks}
    for key in (left := list(held)):
        notices.append(Notice(by_key[key].line, f"{key} is left to a person, as its status says."))
    for key in left:  # grows while it is gone through
        for task in tasks:
            waits = {other for wait in task.depends_on for other in wait.keys}
            if key in waits and task.key not in left and task.status is TaskStatus.PENDING:
                left.append(task.key)
                notices.append(Notice(task.line, f"{task.key} waits for {key}, so it is left out."))
    pending = TaskStatus.PENDING
    return [
        replace(task, status=TaskStatus.SKIPPED) if task.key in left and task.status is pending else task
        for task in tasks
    ]


def _criteria(value: Any) -> list[str]:
    """Return criteria: a list, or a text with one on each line or between semicolons."""
    text = value if isinstance(value, str) else ""
    parts = _split(value, r"\n" if "\n" in text.strip() else r";")
    return [words for part in parts if (words := re.sub(r"^(?:[-*+]\s+)?(?:\[[ xX]\]\s+)?", "", part))]


def _split(value: Any, separator: str) -> list[str]:
    parts = [_text(one) for one in value] if isinstance(value, list) else re.split(separator, _text(value))
    return [part.strip() for part in parts if part.strip()]


def _text(value: Any) -> str:
    if value is None or isinstance(value, dict | list):
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value).replace("\r\n", "\n").strip()
