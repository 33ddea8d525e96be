"""Long texts, a piece at a time: what is left out is said, and can be reached."""

from __future__ import annotations

from typing import Any

SIZE = 40_000
"""Characters of one piece."""


def piece(text: str, begin: int = 0, size: int = SIZE) -> dict[str, Any]:
    """The part of a text that begins there, and where it ends: after a line, if one ends near."""
    begin = min(begin, len(text))
    end = min(len(text), begin + size)
    if end < len(text):
        line = text.rfind("\n", begin + size // 2, end)
        end = line + 1 if line > 0 else end
    return {"text": text[begin:end], "begin": begin, "end": end, "total": len(text)}
