"""Tasks from a table: CSV or JSON with `id,title,text,criteria,depends_on,status`."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from msgspec.structs import replace

from segue.domain.errors import SourceError, UsageError
from segue.domain.graph import Dependency, WaitKind
from segue.domain.task import Notice, Task, TaskStatus
from segue.domain.text import plain
from segue.domain.verdict import Criterion
from segue.ports import SourceRequest
from segue.sources.listed import ListedSource, Reading
from segue.sources.recognise import FOLDERS, is_table
from segue.sources.rows import KEPT, Row, read_json, read_json_lines, unknown_columns, wrong
from segue.system.beneath import read_still
from segue.system.files import signature
from segue.system.reading import LARGEST, check_inside, explain_unreadable, work_tree

FIELDS = ("id", "title", "text", "criteria", "depends_on", "status")
STATUSES = {
    TaskStatus.PENDING: (
        "",
        "pending",
        "open",
        "todo",
        "to do",
        "in-progress",
        "in progress",
        "in_progress",
        "no",
        "false",
    ),
    TaskStatus.DONE: ("done", "completed", "complete", "closed", "yes", "true", "x"),
    TaskStatus.SKIPPED: ("skipped", "deferred", "blocked", "review"),
    TaskStatus.CANCELLED: ("cancelled", "canceled"),
}
_FOR_PEOPLE = ("blocked", "review")
"""A person must do something about it first, and so about what waits for it."""
_MOST_ROWS = 20_000
_TITLE = 200
_LONGEST_CELL = 1024**2
_KEY = re.compile(r"[^\s/\\][^/\\\n]{0,99}")
_STATUS = {word: status for status, words in STATUSES.items() for word in words}


class TableSource(ListedSource):
    """A file with a table of tasks that is run in one repository. The file is never written."""

    kind = "table"
    in_files = True
    renumbers = True

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
        return cls(path, request.repo, request.state_dir)

    def __init__(self, path: Path, repo: Path, state_dir: Path) -> None:
        self.path = Path(os.path.realpath(path))
        self._named = Path(os.path.abspath(path))  # noqa: PTH100 - a link is part of the contract
        self._last: tuple[bytes, Reading] | None = None
        super().__init__(str(self.path), repo, state_dir)

    @property
    def title(self) -> str:
        """The file as it is called in its project."""
        return self.path.name

    @property
    def contract_files(self) -> Sequence[Path]:
        """The file that lists the tasks, as it was named: a link stays where it leads."""
        return (self._named,)

    def _read(self) -> Reading:
        try:
            data = read_still(self.path, LARGEST)
        except OSError as error:
            hint = "Check the path and who may read it."
            if self.path.parent.name == ".beads":
                hint = "Write it with: bd export -o .beads/issues.jsonl"
            raise SourceError(explain_unreadable(self.path, error), kept=KEPT, hint=hint) from error
        if self._last is None or self._last[0] != data:
            self._last = data, read_table(data, self.path.name)
        return self._last[1]

    def _signature(self) -> object:
        return signature(self.path)


def read_table(data: bytes, name: str) -> Reading:
    """Return the tasks of a table; raises SourceError and names the place where it is wrong."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise wrong(name, f"line {line}", "is not UTF-8 text") from None
    readers = {".json": ("JSON", read_json), ".jsonl": ("JSON lines", read_json_lines)}
    readers[".ndjson"] = readers[".jsonl"]
    form, read = readers.get(Path(name).suffix.lower(), ("CSV", _read_csv))
    rows = list(read(text, name))
    if len(rows) > _MOST_ROWS:
        raise SourceError(f"{name} has more than {_MOST_ROWS} rows.", kept=KEPT, hint="Split it.")
    keys = _number(rows, name)
    known = dict.fromkeys(keys)
    notices = []
    if unknown := unknown_columns(rows, FIELDS):
        names = ", ".join(plain(field, 40) for field in unknown[:10])
        notices.append(Notice(1, f"These columns are not read: {names}."))
    tasks = []
    for key, row in zip(keys, rows, strict=True):
        task, absent = _read_task(key, row, known, name)
        tasks.append(task)
        notices += [
            Notice(row.line, f"{key} waits for {other}, which is not in this file; that is ignored.")
            for other in absent
        ]
    left = {key for key, row in zip(keys, rows, strict=True) if _status(row) in _FOR_PEOPLE}
    tasks = _leave_to_people(tasks, left, notices)
    return Reading.of(tasks, notices, f"Read as {form}: {len(tasks)} tasks.")


def _leave_to_people(tasks: list[Task], left: set[str], notices: list[Notice]) -> list[Task]:
    """Leave out what waits for something that a person must do first."""
    notices += [
        Notice(task.line, f"{task.key} is left to a person, as its status says.")
        for task in tasks
        if task.key in left
    ]
    waits = {task.key: {key for wait in task.depends_on for key in wait.keys} for task in tasks}
    pending = {task.key: task for task in tasks if task.status is TaskStatus.PENDING}
    while stuck := [key for key in pending if waits[key] & left]:
        for key in stuck:
            first = min(waits[key] & left)
            notices.append(Notice(pending.pop(key).line, f"{key} waits for {first}, so it is left out."))
        left = {*left, *stuck}
    return [
        replace(task, status=TaskStatus.SKIPPED)
        if task.status is TaskStatus.PENDING and task.key not in pending
        else task
        for task in tasks
    ]


def _read_csv(text: str, name: str) -> Iterator[Row]:
    delimiter = _find_delimiter(text)
    csv.field_size_limit(_LONGEST_CELL)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    header: list[str] | None = None
    line = 1
    try:
        for cells in reader:
            began, line = line, reader.line_num + 1
            if not any(cell.strip() for cell in cells):
                continue
            if header is None:
                header = _read_header(cells, name, began)
                continue
            if len(cells) > len(header):
                words = f"has {len(cells)} cells, but there are {len(header)} columns"
                raise wrong(name, f"line {began}", words)
            yield Row(f"line {began}", began, dict(zip(header, cells, strict=False)))
    except csv.Error as error:
        raise wrong(name, f"line {reader.line_num}", f"is not CSV: {error}") from None


def _find_delimiter(text: str) -> str:
    first = next((line for line in text.splitlines() if line.strip()), "")
    return max((",", ";", "\t"), key=first.count)


def _read_header(cells: Sequence[str], name: str, line: int) -> list[str]:
    header = [cell.strip().lower() for cell in cells]
    if not {"title", "text"} & set(header):
        raise SourceError(
            f"{name}, line {line}: the first line names no column `title` or `text`.",
            kept=KEPT,
            hint=f"Begin the file with: {','.join(FIELDS)}",
        )
    twice = [cell for cell in header if cell and header.count(cell) > 1]
    if twice:
        raise wrong(name, f"line {line}", f"names the column `{plain(twice[0], 40)}` twice")
    return header


def _number(rows: Sequence[Row], name: str) -> list[str]:
    """Return the keys of all rows: their ids, or their places where none has an id."""
    given = [_text(row.cells.get("id")) for row in rows]
    if not any(given):
        return [str(place) for place in range(1, len(rows) + 1)]
    seen: set[str] = set()
    for key, row in zip(given, rows, strict=True):
        if not _KEY.fullmatch(key) or not key.isprintable():
            words = f"has the id {plain(key, 40)!r}" if key else "has no id, but others have"
            raise wrong(name, row.place, f"{words}; an id is a short word without a slash")
        if key in seen:
            raise wrong(name, row.place, f"has the id {key}, which another row has, too")
        seen.add(key)
    return given


def _read_task(key: str, row: Row, known: Mapping[str, None], name: str) -> tuple[Task, list[str]]:
    """Return a task, and the ids it waits for that nobody has."""
    cells = row.cells
    title, text = _text(cells.get("title")), _text(cells.get("text"))
    if not title and not text:
        raise wrong(name, row.place, "has neither a title nor a text")
    status = _STATUS.get(_status(row))
    if status is None:
        known_words = ", ".join(word for word in _STATUS if word)
        words = plain(_text(cells.get("status")), 40)
        raise wrong(name, row.place, f"has the unknown status {words!r}; known: {known_words}")
    named = [one for one in _split(cells.get("depends_on"), r"[,;\s]+") if one != key]
    waits = tuple(dict.fromkeys(one for one in named if one in known))
    criteria = enumerate(_criteria(cells.get("criteria")), 1)
    task = Task(
        key,
        plain(title or text, _TITLE) or f"Row {key}",
        text or title,
        status,
        row.line,
        criteria=tuple(Criterion(f"C{place}", one) for place, one in criteria),
        depends_on=(Dependency(waits, WaitKind.STATED, "its row says so"),) if waits else (),
    )
    return task, [plain(one, 40) for one in dict.fromkeys(named) if one not in known]


def _status(row: Row) -> str:
    return _text(row.cells.get("status")).lower()


def _criteria(value: Any) -> list[str]:
    """Return criteria: a list, or a text with one on each line or between semicolons."""
    text = value if isinstance(value, str) else ""
    parts = _split(value, r"\n" if "\n" in text.strip() else r";")
    return [stripped for part in parts if (stripped := re.sub(r"^(?:[-*+]\s+)?(?:\[[ xX]\]\s+)?", "", part))]


def _split(value: Any, separator: str) -> list[str]:
    parts = [_text(one) for one in value] if isinstance(value, list) else re.split(separator, _text(value))
    return [part.strip() for part in parts if part.strip()]


def _text(value: Any) -> str:
    if value is None or isinstance(value, dict | list):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value).replace("\r\n", "\n").strip()
