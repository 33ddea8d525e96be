"""Decides which boxes without an id are tasks, in a file whose other tasks have ids.

One that stands in a list with tasks is a task, and so is a list that is all a phase consists of. Criteria,
checklists and summaries stand in lists of their own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from msgspec.structs import replace

from segue.domain.task import Notice, TaskStatus
from segue.sources.markdown.boxes import Box
from segue.sources.markdown.lines import Line, heading
from segue.sources.speckit.choose import PHASE, Chosen, is_checklist

_MARKUP = re.compile(r"\s*(?:[-*+•#>|`~<_]|[0-9]{1,9}[.)]\s)")
_READ = "This box has no id; it is read as a task all the same, because it stands among tasks."
_OTHER = re.compile(
    r"accept|criteri|definition of done|validat|verif|review|\bgates?\b|prerequisit|deploy|success"
    r"|check-?\s?list|checkpoint|acceptance|scenario",
    re.IGNORECASE,
)


def with_unnamed(
    chosen: Chosen, found: Sequence[Box], lines: Sequence[Line], inside: Collection[int]
) -> Chosen:
    """Return the tasks and the boxes without an id among them; `inside` are the lines that belong to a task.

    Other open boxes are named, unless they belong to a task or a checklist.
    """
    if not any(task.named for task in chosen.tasks):
        return chosen
    known = {task.line.number for task in chosen.tasks}
    outside = [
        line
        for line in found
        if not line.named and line.line.number not in inside and not is_checklist(line.headings)
    ]
    boxes = _in_order([*chosen.tasks, *outside])
    among = [box for run in _lists(boxes, lines) if _has_tasks(run, known, lines) for box in run]
    more = [box for box in among if box.line.number not in known]
    stray = [box.line.number for box in outside if box not in more and _is_open(box)]
    notices = [Notice(box.line.number, _READ) for box in more if _is_open(box)]
    if stray:
        rest = "" if len(stray) == 1 else f", nor are {len(stray) - 1} more below"
        notices.append(Notice(stray[0], f"This open box has no id and is not read as a task{rest}."))
    tasks = _in_order([*chosen.tasks, *more])
    return replace(chosen, tasks=tasks, notices=(*chosen.notices, *notices))


def _in_order(tasks: Sequence[Box]) -> tuple[Box, ...]:
    return tuple(sorted(tasks, key=lambda task: task.line.number))


def _is_open(box: Box) -> bool:
    return box.mark.status is TaskStatus.PENDING


def _lists(boxes: Sequence[Box], lines: Sequence[Line]) -> Iterator[list[Box]]:
    """Yield the lists that the boxes stand in: blank lines end a list, unless they are between all items."""
    for indent in sorted({box.indent for box in boxes}):
        runs: list[list[Box]] = []
        for box in boxes:
            if box.indent == indent and runs and _between(runs[-1][-1], box, lines) == "":
                runs[-1].append(box)
            elif box.indent == indent:
                runs.append([box])
        yield from _join_loose(runs, lines)


def _join_loose(runs: Sequence[list[Box]], lines: Sequence[Line]) -> list[list[Box]]:
    """Join items that have blank lines between all of them."""
    joined = list(runs[:1])
    for before, run in pairwise(runs):
        if len(before) == len(run) == 1 and _between(before[0], run[0], lines) == "blank":
            joined[-1] = [*joined[-1], *run]
        else:
            joined.append(run)
    return joined


def _between(before: Box, box: Box, lines: Sequence[Line]) -> str:
    """Return what separates two boxes: nothing, a `blank` line, or `text`."""
    if before.headings != box.headings:
        return "text"
    gap, last = "", before.line.number
    for line in lines[before.line.number : box.line.number - 1]:
        is_lazy = line.number == last + 1 and not _MARKUP.match(line.text)
        if not line.text.strip():
            gap = gap or "blank"
        elif line.block or line.indent > before.indent or is_lazy:
            last = line.number
        else:
            return "text"
    return gap


def _has_tasks(run: Sequence[Box], known: Collection[int], lines: Sequence[Line]) -> bool:
    return any(box.line.number in known for box in run) or _is_a_phase(run[0], known, lines)


def _is_a_phase(first: Box, known: Collection[int], lines: Sequence[Line]) -> bool:
    """Return whether a list is all that a phase consists of, and nothing above it says what else it is."""
    if not first.headings or not PHASE.search(first.headings[-1].text):
        return False
    start = first.headings[-1].number
    rest = (line.number for line in lines[start:] if heading(line))
    end = next(rest, len(lines) + 1)
    above = " ".join(line.text for line in lines[start : first.line.number - 1])
    return not any(start < number < end for number in known) and not _OTHER.search(above)
