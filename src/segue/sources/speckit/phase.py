"""What tasks.md says about the phase of a task: its goal, its purpose, the checkpoint at its end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from segue.sources.markdown.lines import Heading, Line, heading, list_item, plain

_LABELLED = re.compile(r"\s*\*\*(?=\S)(.{2,60}?)\*\*\s*(.*)")
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
    """Yield the paragraphs that begin with a bold label, each as one line."""
    paragraph: list[str] = []
    for line in [*section, None]:
        text = "" if line is None or line.block or heading(line) else line.text.strip()
        if paragraph and (not text or _LABELLED.match(text) or (line and list_item(line))):
            yield " ".join(paragraph)
            paragraph = []
        found = _LABELLED.match(text) if line and not list_item(line) else None
        if found:
            label = found[1].strip(" :：⚠️").replace("*", "")
            paragraph = [f"{label}: {found[2].lstrip(' :：')}".strip()]
        elif paragraph and text:
            paragraph.append(text)
