"""The tasks of tasks.md as state.json has them."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from segue.domain.task import Notice, TaskStatus
from segue.sources.speckit.state import SpecState
from segue.sources.speckit.tasks import BoxTask, ParsedTasks


def unticked(parsed: ParsedTasks, state: SpecState | None) -> list[BoxTask]:
    """Tasks that are done by the record although their box is open."""
    if state is None:
        return []
    return [
        box
        for box in parsed.tasks
        if box.status is TaskStatus.PENDING and state.has(box.key, box.fingerprint)
    ]


def recorded(box: BoxTask, state: SpecState | None) -> BoxTask:
    """A task with an open box as the record has it: done, or left out by a person."""
    if state is None or box.status is not TaskStatus.PENDING:
        return box
    if state.has(box.key, box.fingerprint):
        return replace(box, status=TaskStatus.DONE)
    return replace(box, status=TaskStatus.SKIPPED) if state.skips(box.key, box.fingerprint) else box


def state_notices(boxes: list[BoxTask], state: SpecState | None) -> Iterator[Notice]:
    """Yield what a person should know about tasks that are done by the record."""
    if state is None:
        return
    here = {box.key: box for box in boxes}
    for key, box in here.items():
        if key in state.completed and box.status is TaskStatus.PENDING:
            text = f"{key} was done once but says something else now: it is pending again."
            yield Notice(box.line, text)
    gone = sorted(state.completed - here.keys())
    if gone:
        yield Notice(1, f"state.json counts tasks as done that are not in tasks.md: {', '.join(gone[:20])}.")
