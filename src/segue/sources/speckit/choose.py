"""Decides which lines of a tasks.md are its tasks, where boxes, headings, tables and lists meet.

Also reads what the file says about a phase: its goal, its purpose, the checkpoint at its end.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from segue.domain.task import Notice, TaskStatus
from segue.sources.markdown.ids import atoms, named, numbered
from segue.sources.markdown.lines import Heading, Line, find_words, heading, list_item, plain
from segue.sources.markdown.marks import Form, status_line
from segue.sources.markdown.shapes import Shape, TaskLine

PHASE = find_words("phase")
_CHECKLIST = find_words("checklist")
_CHECKS = find_words("checks")
_ABOUT_TASKS = find_words("about tasks")
_SHOWN_ROWS = 12


class Chosen(Struct, frozen=True):
    """The lines that are tasks, in order; or `rivals`, two lists of the same tasks to choose from."""

    tasks: tuple[TaskLine, ...]
    notices: tuple[Notice, ...] = ()
    rivals: tuple[tuple[TaskLine, ...], ...] = ()
    about: Mapping[str, TaskLine] = field(default_factory=dict)
    """Headings whose sections say more about a task, by its id."""


def is_checklist(headings: Sequence[Heading]) -> bool:
    """A phase may be called validation; a checklist or the criteria of a story hold no tasks."""
    return any(
        _CHECKLIST.search(head.text) or (_CHECKS.search(head.text) and not PHASE.search(head.text))
        for head in headings
        if head.level > 1
    )


def choose(found: Sequence[TaskLine], lines: Sequence[Line], which: int | None) -> Chosen:
    """Return the tasks of a file that has ids; `which` list if it has two of the same tasks."""
    notices: list[Notice] = []
    boxes = list(_without_references([t for t in found if t.shape is Shape.BOX and t.named], notices))
    heads = [_with_status(t, lines) for t in found if t.shape is Shape.HEADING]
    heads, boxes = _nest(heads, boxes, lines)
    about: dict[str, TaskLine] = {}
    if _same_ids(heads, boxes) and not _are_details(heads, boxes):
        lists = sorted((heads, boxes), key=lambda tasks: tasks[0].line.number)
        if which is None:
            return Chosen((), tuple(notices), tuple(map(tuple, lists)))
        chosen = lists[which - 1]
        heads, boxes = (chosen, []) if chosen is heads else ([], chosen)
    elif _same_ids(heads, boxes):
        about, heads = {head.id: head for head in heads}, []
    tasks = sorted([*heads, *boxes], key=lambda task: task.line.number)
    known = frozenset(atom for task in tasks for atom in (task.id, *atoms(task.id)))
    rows = [t for t in found if t.shape is Shape.ROW and not _is_about_tasks(t)]
    items = _new_items([t for t in found if t.shape is Shape.ITEM], known)
    if not tasks:
        tasks = rows or items
    else:
        tasks = _with_rows(tasks, rows)
        if boxes and not heads:
            tasks = sorted([*tasks, *items], key=lambda task: task.line.number)
            if any(box.mark.status is TaskStatus.PENDING for box in boxes):
                why = "has no box; it is read as a task all the same."
                notices += [Notice(item.line.number, f"{item.id} {why}") for item in items]
        more = [row for row in rows if known.isdisjoint(atoms(row.id))]
        tasks = sorted([*tasks, *filter(_lists_work, more)], key=lambda task: task.line.number)
        speaks = "This row speaks of {}, which is no task of this file."
        notices += [Notice(row.line.number, speaks.format(row.id)) for row in more if not _lists_work(row)]
    return replace(_without_repetition(tasks, notices, which), about=about)


def describe(rivals: Sequence[Sequence[TaskLine]]) -> str:
    """Return two lists of the same tasks side by side."""
    rows = [(_heading_of(1, rivals[0]), _heading_of(2, rivals[1]))]
    by_id = [{task.id: task for task in tasks} for tasks in rivals]
    keys = list(dict.fromkeys(task.id for tasks in rivals for task in tasks))
    rows += [(_row(by_id[0].get(key), key), _row(by_id[1].get(key), key)) for key in keys[:_SHOWN_ROWS]]
    width = max(len(left) for left, _ in rows)
    text = "\n".join(f"  {left:<{width}}  │ {right}" for left, right in rows)
    return text + (f"\n  … and {len(keys) - _SHOWN_ROWS} more" if len(keys) > _SHOWN_ROWS else "")


def _heading_of(number: int, tasks: Sequence[TaskLine]) -> str:
    shapes = " and ".join(sorted({task.shape.value for task in tasks}))
    done = sum(task.mark.status is TaskStatus.DONE for task in tasks)
    first, last = tasks[0].line.number, tasks[-1].line.number
    return f"list {number}: {len(tasks)} {shapes}, lines {first} to {last}, {done} done"


def _row(task: TaskLine | None, key: str) -> str:
    if task is None:
        return f"{key} (not here)"
    title = plain(task.named.title if task.named else task.rest)
    return f"{key} {task.mark.status}: {title[:34]}"


def _without_references(boxes: Sequence[TaskLine], notices: list[Notice]) -> Iterator[TaskLine]:
    """Leave out what a checklist says about boxes that stand elsewhere ("T001-T010 are complete")."""
    outside = {atom for box in boxes if not is_checklist(box.headings) for atom in atoms(box.id)}
    for box in boxes:
        if is_checklist(box.headings) and outside.issuperset(atoms(box.id)):
            text = f"This box of a checklist speaks of {box.id}; it is not read as a task."
            notices.append(Notice(box.line.number, text))
        else:
            yield box


def _with_status(task: TaskLine, lines: Sequence[Line]) -> TaskLine:
    """Return a heading with the mark of the line `Status: …` below it, if it has none of its own."""
    if task.mark.form is not Form.NONE:
        return task
    for index in range(task.line.number, len(lines)):
        if heading(lines[index]):
            break
        if mark := status_line(lines[index]):
            return replace(task, mark=mark)
    return task


def _nest(
    heads: Sequence[TaskLine], boxes: Sequence[TaskLine], lines: Sequence[Line]
) -> tuple[list[TaskLine], list[TaskLine]]:
    """A heading whose section has tasks of its own is no task; a box with its own id is its mark."""
    own: dict[int, TaskLine] = {}
    sections: set[int] = set()
    numbers = {head.line.number: head for head in heads}
    kept = []
    for box in boxes:
        inside = [numbers[head.number] for head in box.headings if head.number in numbers]
        same = next((head for head in inside if head.id == box.id), None)
        if same is not None and same.line.number not in own:
            own[same.line.number] = box
            sections.update(head.line.number for head in inside if head is not same)
            continue
        sections.update(head.line.number for head in inside)
        kept.append(box)
    parents = {other.number for head in heads for other in head.headings[:-1] if other.number in numbers}
    sections.update(number for number in parents if _is_empty(lines, number))
    tasks = [head for head in heads if head.line.number not in sections]
    merged = [
        replace(head, mark=own[head.line.number].mark) if head.line.number in own else head for head in tasks
    ]
    return merged, kept


def _is_empty(lines: Sequence[Line], number: int) -> bool:
    """Return whether there is nothing between a heading and the next one."""
    for index in range(number, len(lines)):
        if heading(lines[index]) or lines[index].text.strip():
            return heading(lines[index]) is not None
    return True


def _same_ids(heads: Iterable[TaskLine], boxes: Iterable[TaskLine]) -> bool:
    return not {head.id for head in heads}.isdisjoint(box.id for box in boxes)


def _are_details(heads: Sequence[TaskLine], boxes: Sequence[TaskLine]) -> bool:
    """Headings without marks that say more about boxes are no list of their own."""
    return {head.id for head in heads} <= {box.id for box in boxes} and all(
        head.mark.form is Form.NONE for head in heads
    )


def _is_about_tasks(task: TaskLine) -> bool:
    below_title = [head for head in task.headings if head.level > 1]
    return any(_ABOUT_TASKS.search(head.text) and not PHASE.search(head.text) for head in below_title)


def _with_rows(tasks: Sequence[TaskLine], rows: Sequence[TaskLine]) -> list[TaskLine]:
    """Return the tasks; a heading without a mark has the one that a table has for it."""
    marks = {row.id: row.mark for row in reversed(rows) if row.mark.form is not Form.NONE}
    return [
        replace(task, mark=marks.pop(task.id))
        if task.shape is Shape.HEADING and task.mark.form is Form.NONE and task.id in marks
        else task
        for task in tasks
    ]


def _new_items(items: Sequence[TaskLine], known: Collection[str]) -> list[TaskLine]:
    """Return the list items that are tasks of their own: others speak of tasks that stand elsewhere."""
    seen, found = set(known), []
    for item in items:
        if seen.isdisjoint((item.id, *atoms(item.id))) and not _is_about_tasks(item):
            found.append(item)
            seen.update((item.id, *atoms(item.id)))
    return found


def _lists_work(row: TaskLine) -> bool:
    """Return whether a row is a task: it has a status, or its table is in a phase."""
    return row.mark.form is not Form.NONE or any(PHASE.search(head.text) for head in row.headings)


def _without_repetition(tasks: Sequence[TaskLine], notices: list[Notice], which: int | None) -> Chosen:
    """A list that was generated twice is two lists: the same ids with the same words."""
    seen: set[tuple[str, str]] = set()
    again = []
    for place, task in enumerate(tasks):
        words = (task.id, task.named.title if task.named else "")
        if words in seen:
            again.append(place)
        seen.add(words)
    if len(again) < 2 or len(again) * 2 < len(tasks) - again[0]:
        return Chosen(tuple(tasks), tuple(notices))
    lists = (tuple(tasks[: again[0]]), tuple(tasks[again[0] :]))
    if which is None:
        return Chosen((), tuple(notices), lists)
    return Chosen(lists[which - 1], tuple(notices))


_LABELLED = re.compile(r"\s*\*\*(?=\S)(.{2,60}?)\*\*\s*(.*)")
_CHECKPOINT = find_words("checkpoint")
_MOST_CHARS = 2000


def describe_phase(lines: Sequence[Line], title: str, line: int) -> str:
    """Return the heading of the phase that a line belongs to, and what is said about the whole phase.

    `title` is the heading as the task has it. Labels such as **Goal** are known by their form, because teams
    write them in many languages.
    """
    heads = [head for one in lines[:line] if (head := heading(one))]
    start = next((head for head in reversed(heads) if plain(head.text) == title), None)
    if start is None:
        return ""
    section = _section(lines, start)
    said = "\n".join([plain(start.text), *_statements(section)])
    return said if len(said) <= _MOST_CHARS else said[:_MOST_CHARS].rpartition("\n")[0]


def _section(lines: Sequence[Line], start: Heading) -> Sequence[Line]:
    below = (head for one in lines[start.number :] if (head := heading(one)))
    end = next((head.number for head in below if head.level <= start.level), len(lines) + 1)
    return lines[start.number : end - 1]


def _statements(section: Sequence[Line]) -> Iterator[str]:
    """Yield the paragraphs that begin with a bold label, each as one line; those of tasks are left out."""
    paragraph: list[str] = []
    in_task = False
    for line in [*section, None]:
        head = heading(line) if line else None
        if head:
            in_task = _is_task(head.text)
        text = "" if line is None or line.block or head else line.text.strip()
        item = line is not None and list_item(line) is not None
        found = None if item else _LABELLED.match(text)
        if paragraph and (not text or found or item):
            yield " ".join(paragraph)
            paragraph = []
        if found and not _is_task(found[1]) and (not in_task or _CHECKPOINT.search(found[1])):
            label = found[1].strip(" :：⚠️").replace("*", "")
            paragraph = [f"{label}: {found[2].lstrip(' :：')}".strip()]
        elif paragraph and text:
            paragraph.append(text)


def _is_task(text: str) -> bool:
    return named(text) is not None or numbered(text) is not None
