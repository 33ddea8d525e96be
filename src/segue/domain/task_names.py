"""What people write for several tasks: `1,2`, `1-3`, `Task 2`."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SPAN = re.compile(r"(.+?)\s*(?:-|\.\.\.?|\u2013)\s*(.+)")
_BETWEEN = re.compile(r"\s*[,;+]\s*|\s+")


def split_keys(text: str, known: Sequence[str]) -> list[str]:
    """Return the tasks that a text names, in order; empty if any part of it names none."""
    found: list[str] = []
    for part in filter(None, _BETWEEN.split(text.strip())):
        key = part.lstrip("#")
        span = _SPAN.fullmatch(part)
        if key in known:
            found.append(key)
        elif span and span[1] in known and span[2] in known:
            found += known[known.index(span[1]) : known.index(span[2]) + 1]
        elif part.casefold().rstrip("s") not in ("task", "and"):
            return []
    return found
