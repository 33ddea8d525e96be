"""Tasks from a table: a CSV file, or JSON lines, with `id,title,text,criteria,depends_on,status`."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from segue.domain.errors import SourceError, UsageError
from segue.domain.graph import Dependency, WaitKind
from segue.domain.task import Notice, Task, TaskStatus
from segue.domain.text import plain
from segue.domain.verdict import Criterion
from segue.ports import SourceRequest
from segue.sources.listed import KEPT, ListedFile, Reading
from segue.sources.recognise import is_table

FIELDS = ("id", "title", "text", "criteria", "depends_on", "status")
STATUSES = {
    TaskStatus.PENDING: ("", "pending", "open", "todo", "to do", "in-progress", "in progress", "no", "false"),
    TaskStatus.DONE: ("done", "completed", "complete", "closed", "yes", "true", "x"),
    TaskStatus.SKIPPED: ("skipped", "deferred"),
    TaskStatus.CANCELLED: ("cancelled", "canceled"),
}
_MOST_ROWS = 20_000
_TITLE = 200
_LONGEST_CELL = 1024**2
_KEY = re.compile(r"[^\s/\\][^/\\\n]{0,99}")
_STATUS = {word: status for status, words in STATUSES.items() for word in words}


class TableSource(ListedFile):
    """A CSV or JSON lines file that is run in one repository. The file is never written."""

    kind = "table"
    in_files = True
    renumbers = True

    @classmethod
    def matches(cls, request: SourceRequest) -> bool:
        """Return whether a CSV or JSON lines file was named."""
        return request.named is not None and is_table(request.named)

    @classmethod
    def open(cls, request: SourceRequest) -> Self:
        """Open the file that was named."""
        if request.named is None:
            raise UsageError("No table was named.", hint="segue run tasks.csv")
        return super().open(request)

    def _interpret(self, data: bytes, variant: str) -> Reading:  # noqa: ARG002 - the table says it all
        return read_table(data, self.path.name)


def read_table(data: bytes, name: str) -> Reading:
    """Return the tasks of a table; raises SourceError and names the line where it is wrong."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _wrong(name, data[: error.start].count(b"\n") + 1, "is not UTF-8 text") from None
    lines = name.lower().endswith((".jsonl", ".ndjson"))
    rows = list(_read_json(text, name) if lines else _read_csv(text, name))
    if len(rows) > _MOST_ROWS:
        raise SourceError(f"{name} has more than {_MOST_ROWS} rows.", kept=KEPT, hint="Split it.")
    keys = _number(rows, name)
    known = dict.fromkeys(keys)
    notices = list(_unknown_fields(rows))
    tasks = []
    for key, (line, row) in zip(keys, rows, strict=True):
        task, unknown = _read_task(key, line, row, known, name)
        tasks.append(task)
        notices += [
            Notice(line, f"{key} waits for {other}, which is not in this file; that is ignored.")
            for other in unknown
        ]
    return Reading.of(tasks, notices, f"Read as {'JSON lines' if lines else 'CSV'}: {len(tasks)} tasks.")


Row = Mapping[str, Any]


def _read_json(text: str, name: str) -> Iterator[tuple[int, Row]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise _wrong(name, number, "is not JSON") from None
        if not isinstance(row, dict):
            raise _wrong(name, number, "is not a JSON object")
        yield number, {str(field).strip().lower(): value for field, value in row.items()}


def _read_csv(text: str, name: str) -> Iterator[tuple[int, Row]]:
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
                raise _wrong(name, began, f"has {len(cells)} cells, but there are {len(header)} columns")
            yield began, dict(zip(header, cells, strict=False))
    except csv.Error as error:
        raise _wrong(name, reader.line_num, f"is not CSV: {error}") from None


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
        raise _wrong(name, line, f"names the column `{plain(twice[0], 40)}` twice")
    return header


def _number(rows: Sequence[tuple[int, Row]], name: str) -> list[str]:
    """Return the keys of all rows: their ids, or their places where none has an id."""
    given = [_text(row.get("id")) for _, row in rows]
    if not any(given):
        return [str(place) for place in range(1, len(rows) + 1)]
    seen: set[str] = set()
    for key, (line, _) in zip(given, rows, strict=True):
        if not _KEY.fullmatch(key) or not key.isprintable():
            words = f"has the id {plain(key, 40)!r}" if key else "has no id, but others have"
            raise _wrong(name, line, f"{words}; an id is a short word without a slash")
        if key in seen:
            raise _wrong(name, line, f"has the id {key}, which another row has, too")
        seen.add(key)
    return given


def _read_task(key: str, line: int, row: Row, known: Mapping[str, None], name: str) -> tuple[Task, list[str]]:
    """Return a task, and the ids it waits for that nobody has."""
    title, text = _text(row.get("title")), _text(row.get("text"))
    if not title and not text:
        raise _wrong(name, line, "has neither a title nor a text")
    status = _STATUS.get(_text(row.get("status")).lower())
    if status is None:
        known_words = ", ".join(word for word in _STATUS if word)
        words = plain(_text(row.get("status")), 40)
        raise _wrong(name, line, f"has the unknown status {words!r}; known: {known_words}")
    named = [one for one in _split(row.get("depends_on"), r"[,;\s]+") if one != key]
    waits = tuple(dict.fromkeys(one for one in named if one in known))
    task = Task(
        key,
        plain(title or text, _TITLE) or f"Row {line}",
        text or title,
        status,
        line,
        criteria=tuple(
            Criterion(f"C{place}", one) for place, one in enumerate(_criteria(row.get("criteria")), 1)
        ),
        depends_on=(Dependency(waits, WaitKind.STATED, "its row says so"),) if waits else (),
    )
    return task, [plain(one, 40) for one in named if one not in known]


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


def _unknown_fields(rows: Sequence[tuple[int, Row]]) -> Iterator[Notice]:
    unknown = dict.fromkeys(field for _, row in rows for field in row if field and field not in FIELDS)
    if unknown:
        names = ", ".join(plain(field, 40) for field in list(unknown)[:10])
        yield Notice(1, f"These columns are not read: {names}.")


def _wrong(name: str, line: int, words: str) -> SourceError:
    return SourceError(
        f"{name}, line {line} {words}.", kept=KEPT, hint="Fix the line; see `segue help tasks`"
    )
