"""What a cloud agent pushed in place of the run's contract: nobody believes it, and it is named."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from segue.domain.events import Tampered
from segue.domain.proof import Tampering
from segue.domain.task import Task
from segue.domain.workspace import Snapshot
from segue.flow.context import RunContext
from segue.flow.state import TaskState
from segue.system.beneath import read_below

_BOX = re.compile(r"\s*(?:[-*+]|\d+[.)])\s*\[(?P<mark>.)\]\s*(?P<words>.*)")
_MOST = 5
_LONGEST = 60


async def name_pushed(
    context: RunContext, state: TaskState, now: Snapshot, files: Collection[str], key: str
) -> None:
    """Name what the last launch changed in the files that say what is to be done, and what is done."""
    touched = {path: subject for path, subject in _contract(context).items() if path in files}
    if not touched or state.now.head == now.head:
        return
    before, after = [await _read(context, head, touched) for head in (state.now.head, now.head)]
    found = tuple(
        one
        for path, subject in touched.items()
        for one in compare_lines(path, subject, before[path], after[path], state.task)
    )
    if found:
        await context.emit(Tampered(state.task.key, found), key)


def _contract(context: RunContext) -> dict[str, str]:
    """Return the files of the contract by their path in the repository, each with what it is."""
    source, home = context.source, os.path.realpath(context.workspace.root)
    subjects = dict.fromkeys(source.contract_files[:1], "tasks")
    subjects |= dict.fromkeys((path for path in source.own_files if path not in subjects), "state")
    subjects |= dict.fromkeys((path for path in source.contract_files if path not in subjects), "criteria")
    real = {Path(os.path.realpath(path)): subject for path, subject in subjects.items()}
    return {
        path.relative_to(home).as_posix(): subject
        for path, subject in real.items()
        if path.is_relative_to(home)
    }


async def _read(context: RunContext, head: str, paths: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the lines of files as a commit has them; links that lead out of it are not followed."""
    async with context.workspace.checkout(head) as folder:
        data = {path: read_below(folder, folder / path) for path in paths}
    return {path: text.decode("utf-8", "replace").splitlines() for path, text in data.items()}


def compare_lines(path: str, subject: str, old: list[str], new: list[str], task: Task) -> Iterator[Tampering]:
    """Say what was changed in one file; ticking the own task is a habit that means no harm."""
    name = Path(path).name
    others = [[line for line in lines if not _is_own_box(line, task)] for lines in (old, new)]
    if others[0] == others[1] or (subject == "criteria" and name in task.text):
        return
    ticked = [_words(line) for line in (Counter(others[1]) - Counter(others[0])) if _is_ticked(line)]
    if ticked and subject == "tasks":
        shown = ", ".join(ticked[:_MOST]) + (" …" if len(ticked) > _MOST else "")
        text = f"The agent marked as done in {name} of its branch: {shown}. Those marks do not count."
        yield Tampering("ticks", text, name)
    else:
        text = f"The agent changed {name} in its branch. The run continues with what it said before."
        yield Tampering(subject, text, name)


def _is_own_box(line: str, task: Task) -> bool:
    return _BOX.match(line) is not None and re.search(rf"\b{re.escape(task.key)}\b", line) is not None


def _is_ticked(line: str) -> bool:
    box = _BOX.match(line)
    return box is not None and box["mark"] != " "


def _words(line: str) -> str:
    box = _BOX.match(line)
    assert box is not None
    return box["words"][:_LONGEST].strip()
