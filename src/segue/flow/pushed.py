"""Guards what cloud agents push: what they have no say in is named, and put back on their branch."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from pathlib import Path

from msgspec import Struct

from segue.domain.events import Tampered
from segue.domain.proof import Tampering
from segue.domain.task import Task, TaskStatus
from segue.domain.workspace import Snapshot
from segue.flow.context import RunContext
from segue.flow.state import TaskState
from segue.proof.contract import settle_file
from segue.system.git.branches import RemoteBranches

_BOX = re.compile(r"\s*(?:[-*+]|\d+[.)])\s*\[(?P<mark>.)\]\s*(?P<words>.*)")
_MOST_TICKS = 5
_LONGEST_TICK = 60
_MESSAGE = "Put back what says what is to be done"


class _Change(Struct, frozen=True):
    """What a launch did to one file, and what to put there."""

    path: str
    found: Tampering
    data: bytes | None = None
    """None: what was there before, or nothing."""


async def guard_branch(context: RunContext, state: TaskState, now: Snapshot, key: str) -> Snapshot:
    """Name what the launch changed of the contract, and return its branch with that taken back.

    The agent's own commits stay; a commit of Segue's follows them. After a kill it is found again.
    """
    branches, before = context.workspace, state.now.head
    if not isinstance(branches, RemoteBranches) or before == now.head:
        return now
    mark = f"{context.journal.run.id}/{key}"
    pushed = await branches.before_undo(now.head, mark)
    changes = await _compare(context, branches, state.task, before, pushed or now.head)
    if not changes:
        return now
    await context.emit(Tampered(state.task.key, tuple(one.found for one in changes)), key)
    if pushed:
        return now
    files = {one.path: one.data for one in changes}
    return await branches.put_back(now, before, files, _MESSAGE, f"{mark}\nSegue-Task: {state.task.key}")


async def _compare(
    context: RunContext, branches: RemoteBranches, task: Task, before: str, after: str
) -> list[_Change]:
    """Return what differs between two commits of what the agent has no say in."""
    touched = {one.path for one in await branches.repo.objects().changes(before, after)}
    own = {task.key, *(one.key for one in context.source.look().tasks if one.status is TaskStatus.DONE)}
    changes = []
    for path, subject in context.contract.items():
        if path not in touched:
            continue
        old, new = await branches.read(before, path), await branches.read(after, path)
        if subject == "settings":
            settled = settle_file(Path(path).name, old, new)
            if settled is not None:
                changes.append(_Change(path, Tampering("settings", settled.said, path), settled.data))
        elif subject != "criteria" or Path(path).name not in task.text:  # else the task asks for it
            found = compare_lines(path, subject, _lines(old), _lines(new), own)
            changes += [_Change(path, found)] if found is not None else []
    return changes


def _lines(data: bytes | None) -> list[str]:
    return (data or b"").decode("utf-8", "replace").splitlines()


def compare_lines(
    path: str, subject: str, old: list[str], new: list[str], own: Collection[str]
) -> Tampering | None:
    """Say what was changed in one file; ticking the own task, or one that is done, means no harm."""
    name = Path(path).name
    others = [[_without_own_mark(line, own) for line in lines] for lines in (old, new)]
    if others[0] == others[1]:
        return None
    ticked = [_words(line) for line in (Counter(others[1]) - Counter(others[0])) if _is_ticked(line)]
    if ticked and subject == "tasks":
        shown = ", ".join(ticked[:_MOST_TICKS]) + (" …" if len(ticked) > _MOST_TICKS else "")
        text = f"The agent marked as done in {name} of its branch: {shown}. That was taken back."
        return Tampering("ticks", text, name)
    text = f"The agent changed {name} in its branch. It was put back."
    return Tampering("task text" if subject == "tasks" else subject, text, name)


def _without_own_mark(line: str, keys: Collection[str]) -> str:
    """Return the line, with an open box if it is that of a task whose mark does not matter."""
    box = _BOX.match(line)
    if box is None or not any(re.match(rf"\W*{re.escape(key)}\b", box["words"]) for key in keys):
        return line
    return f"{line[: box.start('mark')]} {line[box.end('mark') :]}"


def _is_ticked(line: str) -> bool:
    box = _BOX.match(line)
    return box is not None and box["mark"] != " "


def _words(line: str) -> str:
    box = _BOX.match(line)
    assert box is not None
    return box["words"][:_LONGEST_TICK].strip()
