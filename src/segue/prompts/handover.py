"""What a task is told of earlier ones: what they really did, the most relevant first, within a fixed size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from segue.domain.amounts import list_some
from segue.domain.results import WorkNote
from segue.domain.task import Task

_MOST_TASKS = 10
_MOST_FILES = 8


def describe_handover(known: Mapping[str, WorkNote], task: Task, size: int) -> str:
    """Describe what other tasks did: those it waits for, those whose files it names, the last ones.

    It takes at most `size` bytes; what does not fit is left out from the end, the files of a task last.
    """
    others = {key: note for key, note in known.items() if key != task.key}
    chosen = _choose(others, task)
    entries, left = {}, size
    for key in chosen:
        for text in (_tell(key, others[key], task), _list_files(key, others[key])):
            cost = len(text.encode()) + 1
            if cost <= left:
                entries[key], left = text, left - cost
                break
    lines = [entries[key] for key in chosen if key in entries]
    rest = len(others) - len(entries)
    said = f"({rest} more tasks before this one are done)"
    return "\n".join([*lines, said] if rest and len(said) <= left else lines)


def _choose(others: Mapping[str, WorkNote], task: Task) -> Sequence[str]:
    """Return the tasks to tell of, the most relevant first."""
    waited = _waited(task)
    text = f"{task.title}\n{task.text}"
    near = [key for key, note in others.items() if any(_is_named(path, text) for path in note.files)]
    order = [key for key in others if key in waited] + near + list(others)[::-1]
    return list(dict.fromkeys(order))[: _MOST_TASKS + len(waited)]


def _waited(task: Task) -> set[str]:
    return {key for one in task.depends_on for key in one.keys}


def _is_named(path: str, text: str) -> bool:
    return path in text or PurePosixPath(path).name in text


def _list_files(key: str, note: WorkNote) -> str:
    return f"- {key}: {list_some(note.files, _MOST_FILES)}"


def _tell(key: str, note: WorkNote, task: Task) -> str:
    """Tell all that is known of a task."""
    mark = " (this task waits for it)" if key in _waited(task) else ""
    lines = [f"- {key}{mark}: {list_some(note.files, _MOST_FILES)}"]
    if note.names:
        lines += ["  Names that it made or changed:", *(f"    {line}" for line in note.names.splitlines())]
    if note.said:
        lines.append(f"  It said: {note.said}")
    if note.demanded:
        lines += ["  It was sent back for:", *(f"    {line}" for line in note.demanded)]
    return "\n".join(lines)
