"""Decides which boxes of a tasks.md with ids are its tasks.

Also reads what the file says about a phase: its goal, its purpose, the checkpoint at its end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from segue.domain.task import Notice
from segue.sources.markdown.boxes import Box
from segue.sources.markdown.ids import atoms, named, numbered
from segue.sources.markdown.lines import Heading, Line, heading, list_item, plain

PHASE = re.compile(r"phase", re.IGNORECASE)
_CHECKLIST = re.compile(r"check-?\s?list", re.IGNORECASE)
_CHECKS = re.compile(
    r"accept|criteri|definition of done|validat|verif|review|\bgates?\b|prerequisit|deploy|success",
    re.IGNORECASE,
)


class Chosen(Struct, frozen=True):
    """The boxes that are tasks, in order."""

    tasks: tuple[Box, ...]
    notices: tuple[Notice, ...] = ()


def is_checklist(headings: Sequence[Heading]) -> bool:
    """A phase may be called validation; a checklist or the criteria of a story hold no tasks."""
    return any(
        _CHECKLIST.search(head.text) or (_CHECKS.search(head.text) and not PHASE.search(head.text))
        for head in headings
        if head.level > 1
    )


def choose(boxes: Sequence[Box]) -> Chosen:
    """Return the boxes with an id, without what a checklist says about others ("T001-T010 are complete")."""
    known = [box for box in boxes if box.named]
    outside = {atom for box in known if not is_checklist(box.headings) for atom in atoms(box.id)}
    spoken_of = [box for box in known if is_checklist(box.headings) and outside.issuperset(atoms(box.id))]
    text = "This box of a checklist speaks of {}; it is not read as a task."
    notices = tuple(Notice(box.line.number, text.format(box.id)) for box in spoken_of)
    return Chosen(tuple(box for box in known if box not in spoken_of), notices)


_LABELLED = re.compile(r"\s*\*\*(?=\S)(.{2,60}?)\*\*\s*(.*)")
_CHECKPOINT = re.compile(r"checkpoint", re.IGNORECASE)
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
