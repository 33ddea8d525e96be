"""The structured log: one record per relevant event, never the text of a prompt."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import msgspec

from segue.cli.terminal.output import one_line
from segue.config.settings import LogSettings
from segue.domain.errors import UsageError
from segue.domain.events import (
    AgentEnded,
    AgentOutput,
    AgentRaw,
    AgentStuck,
    AgentText,
    AgentThought,
    AgentTool,
    BaseChecked,
    BudgetPassed,
    Event,
    NoticeGiven,
    PatchMade,
    PromptSent,
    Recorded,
    RunParked,
    StateImported,
    TaskCollided,
    TaskStarted,
    TaskWaiting,
    WaitBegan,
    WaitEnded,
)
from segue.ports import Observer
from segue.system.files import check_way

_WARNINGS = (
    StateImported,
    BudgetPassed,
    NoticeGiven,
    BaseChecked,
    RunParked,
    WaitBegan,
    WaitEnded,
    TaskCollided,
    AgentStuck,
)
_SILENT = (AgentOutput, AgentRaw, AgentText, AgentThought, AgentTool, PatchMade)
_FIELDS = (
    *("task", "phase", "attempt", "agent", "model", "argv0", "pid", "exit_code", "signal", "adopted"),
    *("duration", "ok", "ms", "commit", "state", "note", "text", "line", "until", "done", "reason"),
    *("attempts", "findings", "failure", "round", "remaining", "source", "repo", "flow"),
    *("command", "bytes", "service", "seconds", "stderr"),
)
"""The fields a record may contain; all others are left out of the log."""
_OF_LANES: dict[type[Event], tuple[str, ...]] = {
    TaskStarted: ("lane", "after", "why"),
    TaskWaiting: ("by", "why"),
    TaskCollided: ("tasks", "files", "then"),
}
"""What else is logged where several tasks are worked on at once."""


def refuse_log(settings: LogSettings) -> None:
    """Refuse a log file that could not be written; nothing is made."""
    if settings.file is None or settings.file == "-":
        return
    path = Path(settings.file)
    check_way(path)
    if path.is_dir():
        raise _unwritable(path, "it is a folder")
    if not path.parent.is_dir():
        raise _unwritable(path, f"the folder {path.parent} does not exist")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise _unwritable(path, os.strerror(errno.EACCES))


def _unwritable(path: Path, why: str) -> UsageError:
    return UsageError(
        f"The log file {path} cannot be written: {why}.",
        kept="Nothing was started.",
        hint="Choose another file with --log-file",
    )


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
    check_way(path)
    try:
        path.touch()
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from error
    with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
        yield [_Log(file, settings.format == "json")]


class _Log:
    """Writes records as JSON lines or text."""

    def __init__(self, file: TextIO, as_json: bool) -> None:
        self._file = file
        self._as_json = as_json

    def __call__(self, event: Recorded) -> None:
        """Write the event."""
        if isinstance(event.event, _SILENT):
            return
        record = log_record(event)
        if self._as_json:
            text = json.dumps(record, ensure_ascii=False, default=str)
        else:
            text = " ".join(f"{key}={_quoted(str(value))}" for key, value in record.items())
        self._file.write(text + "\n")
        self._file.flush()


def log_record(recorded: Recorded) -> dict[str, Any]:
    """Return an event as a flat record: run, task, phase, attempt, command, exit code, duration."""
    event, step = recorded.event, (recorded.step or "").split("/")
    fields = _fields(event)
    record: dict[str, Any] = {"ts": recorded.ts, "level": _level(event, fields), "event": recorded.type}
    record["run"] = recorded.run
    if len(step) >= 3:
        record |= {"task": step[1], "phase": step[2]}
    if isinstance(event, PromptSent):
        return record | {"prompt_hash": event.digest, "prompt_length": event.length}
    return record | fields


def _fields(event: Event) -> dict[str, Any]:
    """Return what is logged of an event, with the facts that only some agents report."""
    facts = event.facts if isinstance(event, AgentEnded) else {}
    values = {name: facts.get(name, getattr(event, name, None)) for name in _FIELDS}
    values |= {name: getattr(event, name) or None for name in _OF_LANES.get(type(event), ())}
    return {name: msgspec.to_builtins(value) for name, value in values.items() if value not in (None, "")}


def _level(event: Event, fields: dict[str, Any]) -> str:
    if fields.get("ok") is False or fields.get("done") is False or fields.get("failure"):
        return "error"
    return "warning" if isinstance(event, _WARNINGS) else "info"


def _quoted(value: str) -> str:
    return repr(one_line(value, 300)) if " " in value or "\n" in value else value
