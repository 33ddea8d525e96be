"""Issues of beads, from the snapshot in `.beads/`; completion goes to `bd` where it is installed."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from segue.domain.errors import SourceError
from segue.domain.graph import Dependency, WaitKind
from segue.domain.installed import source_of
from segue.domain.task import Completion, Notice, Task, TaskStatus
from segue.domain.text import plain
from segue.ports import SourceRequest
from segue.sources.listed import KEPT, ListedFile, Reading, add_heading, clean_text, read_criteria
from segue.system.files import signature
from segue.system.process.capture import probe
from segue.system.programs import find

_FILE = "issues.jsonl"
_EXPORT = f"bd export -o .beads/{_FILE}"
_HIDDEN_TYPES = frozenset({"message", "gate", "molecule", "event", "agent", "role"})
_LEFT_OUT = frozenset({"pinned", "tombstone"})
_PEOPLE = frozenset({"blocked", "deferred"})
_WAITS = frozenset({"blocks", "waits-for"})
_OLD = 86_400.0
_TITLE = 200
_KEY = re.compile(r"[\w.-]{1,60}")


class BeadsSource(ListedFile):
    """The open issues of a snapshot. The file is never written: the database of beads would overwrite it."""

    kind = "beads"
    folder = ".beads"
    file = Path(_FILE)
    largest = 64 * 1024**2
    unreadable = f"beads writes it only when asked: {_EXPORT}"

    @classmethod
    def matches(cls, request: SourceRequest) -> bool:
        """Return whether the folder of beads, or a snapshot in it, was named."""
        return request.named is not None and source_of(request.named) == cls.kind

    @property
    def kept_out(self) -> Sequence[Path]:
        """The folder of beads, which `bd` writes."""
        return (self.path.parent,)

    def announce(self, task: Task, run: str) -> None:  # noqa: ARG002 - beads knows no runs
        """Let `bd` set the issue to in_progress."""
        self._tell("update", task.key, "--status", "in_progress")

    def mark(self, task: Task, completion: Completion) -> None:
        """Record the completion, and let `bd` close the issue."""
        with self._own_change():  # `bd` may renew the snapshot
            super().mark(task, completion)
            if completion.status is TaskStatus.DONE:
                commit = f" in {completion.commit[:12]}" if completion.commit else ""
                self._tell("close", task.key, "--reason", f"Done by Segue{commit}")

    def _tell(self, *arguments: str) -> None:
        """Run `bd`, if it is installed; Segue's own record counts whatever it says."""
        program = find("bd")
        if program is not None:
            probe([program, *arguments], cwd=self.path.parent.parent)

    def _interpret(self, data: bytes, variant: str) -> Reading:  # noqa: ARG002 - the snapshot says it all
        return read_issues(data, self.path.name, _notice_age(self.path))


def _notice_age(path: Path) -> list[Notice]:
    found = signature(path)
    written = found[2] / 1e9 if found else time.time()
    if written > time.time() - _OLD:
        return []
    day = f"{datetime.fromtimestamp(written, UTC):%Y-%m-%d}"
    return [Notice(1, f"This snapshot is of {day}. Renew it: {_EXPORT}")]


class _Bead(Struct):
    key: str
    line: int
    facts: Mapping[str, Any]
    waits: tuple[str, ...] = ()
    status: TaskStatus = TaskStatus.PENDING
    why: str = ""


def read_issues(data: bytes, name: str, notices: Sequence[Notice] = ()) -> Reading:
    """Return the issues of a snapshot that are tasks; raises SourceError for a line that is not JSON."""
    beads = {bead.key: bead for bead in _read_lines(data, name)}
    parents = {
        str(link.get("depends_on_id"))
        for bead in beads.values()
        for link in _links(bead.facts)
        if link.get("type") == "parent-child"
    }
    for bead in beads.values():
        _judge(bead)
    listed = {
        key: bead
        for key, bead in beads.items()
        if not (bead.facts.get("issue_type") == "epic" and key in parents) and not _is_hidden(bead.facts)
    }
    _leave_blocked(listed, beads)
    said = [Notice(bead.line, f"{bead.key} {bead.why}.") for bead in listed.values() if bead.why]
    ordered = sorted(listed.values(), key=lambda bead: (_priority(bead.facts), bead.line))
    tasks = [_task(bead, listed) for bead in ordered]
    return Reading.of(tasks, (*notices, *said), f"Read as a snapshot of beads: {len(tasks)} issues.")


def _read_lines(data: bytes, name: str) -> Iterator[_Bead]:
    for number, line in enumerate(data.decode("utf-8-sig", "replace").split("\n"), 1):
        if not line.strip():
            continue
        try:
            facts = json.loads(line)
        except (ValueError, RecursionError):
            hint = f"Write it again: {_EXPORT}"
            raise SourceError(f"{name}, line {number} is not JSON.", kept=KEPT, hint=hint) from None
        if not isinstance(facts, dict) or facts.get("_type", "issue") != "issue":
            continue
        key = facts.get("id")
        if isinstance(key, str) and _KEY.fullmatch(key):
            yield _Bead(key, number, facts)


def _is_hidden(facts: Mapping[str, Any]) -> bool:
    return (
        facts.get("issue_type") in _HIDDEN_TYPES
        or facts.get("status") in _LEFT_OUT
        or bool(facts.get("is_template") or facts.get("template"))
    )


def _judge(bead: _Bead) -> None:
    """Find out whether an issue is done, for a person, or open, and what it waits for."""
    status = str(bead.facts.get("status", "open"))
    links = _links(bead.facts)
    bead.waits = tuple(
        dict.fromkeys(str(link.get("depends_on_id")) for link in links if link.get("type") in _WAITS)
    )
    if status == "closed":
        bead.status = TaskStatus.DONE
    elif status in _PEOPLE:
        bead.status, bead.why = TaskStatus.SKIPPED, f"is {status}, so it is left to a person"
    elif any(link.get("type") == "conditional-blocks" for link in links):
        bead.status, bead.why = TaskStatus.SKIPPED, "is only for the case that another one fails"
    elif _is_deferred(bead.facts.get("defer_until")):
        bead.status, bead.why = TaskStatus.SKIPPED, "is deferred"


def _is_deferred(until: Any) -> bool:
    try:
        found = datetime.fromisoformat(str(until))
    except ValueError:
        return False
    aware = found if found.tzinfo else found.replace(tzinfo=UTC)
    return aware.timestamp() > time.time()


def _links(facts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    links = facts.get("dependencies")
    return [link for link in links if isinstance(link, dict)] if isinstance(links, list) else []


def _leave_blocked(listed: Mapping[str, _Bead], every: Mapping[str, _Bead]) -> None:
    """Leave issues out that wait for one which is neither done nor among the tasks to do."""
    changed = True
    while changed:
        changed = False
        for bead in listed.values():
            if bead.status is not TaskStatus.PENDING:
                continue
            for other in bead.waits:
                known = every.get(other)
                if known is None or known.status is TaskStatus.DONE:
                    continue  # what the snapshot does not have is closed and cleared away
                if known.key not in listed or known.status is not TaskStatus.PENDING:
                    bead.status, bead.why = (
                        TaskStatus.SKIPPED,
                        f"waits for {other}, which is left to a person",
                    )
                    changed = True
                    break


def _priority(facts: Mapping[str, Any]) -> int:
    value = facts.get("priority")
    return value if isinstance(value, int) and not isinstance(value, bool) else 2


def _task(bead: _Bead, listed: Mapping[str, _Bead]) -> Task:
    facts = bead.facts
    title = plain(clean_text(facts.get("title")), _TITLE)
    parts = [
        clean_text(facts.get("description")),
        add_heading("Design", facts.get("design")),
        add_heading("Notes", facts.get("notes")),
    ]
    waits = tuple(one for one in bead.waits if one in listed and one != bead.key)
    return Task(
        bead.key,
        title or bead.key,
        "\n\n".join(filter(None, parts)) or title,
        bead.status,
        bead.line,
        criteria=read_criteria(bead.key, facts.get("acceptance_criteria")),
        depends_on=(Dependency(waits, WaitKind.STATED, "beads says so"),) if waits else (),
    )
