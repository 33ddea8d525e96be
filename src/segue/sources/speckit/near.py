"""Finds what looks like tasks in a tasks.md without any box that has an id, so that a refusal can name it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from segue.sources.speckit.ids import named
from segue.sources.speckit.lines import Line, heading, list_item

_TASK_N = re.compile(r"[\W_]*task\s*#?[0-9]", re.IGNORECASE)


def near_misses(lines: Sequence[Line]) -> dict[str, int]:
    """Counts of each kind that was seen."""
    seen: Counter[str] = Counter()
    for line in lines:
        if not line.block and line.text.strip() and (kind := _kind(line)):
            seen[kind] += 1
    return dict(seen)


def _kind(line: Line) -> str:
    if head := heading(line):
        if named(head.text):
            return "task headings such as `### T001`"
        return "headings such as `## Task 1`" if _TASK_N.match(head.text) else ""
    text = line.text.strip()
    if text.startswith("|"):
        cells = [cell.strip() for cell in text.strip("|").split("|")]
        return "table rows with an id" if any(map(named, cells[:2])) else ""
    found = named(list_item(line) or text)
    if found is None:
        return ""
    if "**" in found.before:
        return "lines with a bold id but no box"
    return "list items with an id but no box" if list_item(line) is not None else ""
