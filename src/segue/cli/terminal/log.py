"""The structured log: one record per relevant event, never the text of a prompt."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from segue.cli.terminal.output import one_line
from segue.config.settings import LogSettings
from segue.domain.errors import UsageError
from segue.domain.event import EventType, Recorded
from segue.ports import Observer

_LEVELS = {EventType.STATE_IMPORTED: "warning", EventType.NOTICE: "warning", EventType.RUN_PARKED: "warning"}
_SILENT = {EventType.AGENT_OUTPUT, EventType.AGENT_RAW, EventType.AGENT_TEXT, EventType.AGENT_TOOL}
_FIELDS = (
    *("task", "phase", "attempt", "agent", "model", "argv0", "pid", "exit_code", "signal", "adopted"),
    *("duration", "ok", "ms", "commit", "state", "note", "text", "line", "until", "done", "reason"),
    *("attempts", "findings", "dismissed", "failure", "round", "remaining", "source", "repo", "flow"),
    *("command", "bytes"),
)
"""The fields a record may contain; all others are left out of the log."""


@contextmanager
def open_log(settings: LogSettings) -> Iterator[list[Observer]]:
    """Yield the observers that write the log: none if no log is configured."""
    if settings.file is None:
        yield []
        return
    if settings.file == "-":
        yield [_Log(sys.stderr, settings.format == "json")]
        return
    path = Path(settings.file)
    try:
        path.touch()
    except OSError as error:
        raise UsageError(
            f"The log file cannot be written: {error}", hint="Choose another file with --log-file"
        ) from error
    with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
        yield [_Log(file, settings.format == "json")]


class _Log:
    """Writes records as JSON lines or text."""

    def __init__(self, file: TextIO, as_json: bool) -> None:
        self._file = file
        self._as_json = as_json

    def __call__(self, event: Recorded) -> None:
        """Write the event."""
        if event.type in _SILENT:
            return
        record = log_record(event)
        text = json.dumps(record, ensure_ascii=False, default=str) if self._as_json else _as_text(record)
        self._file.write(text + "\n")
        self._file.flush()


def log_record(event: Recorded) -> dict[str, Any]:
    """Return an event as a flat record: run, task, phase, attempt, command, exit code, duration."""
    record: dict[str, Any] = {"ts": event.ts, "level": _level(event), "event": event.type, "run": event.run}
    parts = (event.step or "").split("/")
    if len(parts) >= 3:
        record |= {"task": parts[1], "phase": parts[2]}
    if event.type == EventType.PROMPT:
        return record | {"prompt_hash": event.data.get("digest"), "prompt_length": event.data.get("length")}
    return record | {name: event.data[name] for name in _FIELDS if event.data.get(name) is not None}


def _level(event: Recorded) -> str:
    failed = event.data.get("ok") is False or event.data.get("done") is False or event.data.get("failure")
    return "error" if failed else _LEVELS.get(EventType(event.type), "info")


def _as_text(record: dict[str, Any]) -> str:
    return " ".join(f"{key}={_quoted(str(value))}" for key, value in record.items())


def _quoted(value: str) -> str:
    return repr(one_line(value, 300)) if " " in value or "\n" in value else value
