"""A unified diff as git prints it, file by file."""

from __future__ import annotations

from msgspec import Struct

_HEADER = "diff --git "


class FileDiff(Struct, frozen=True):
    """What changed in one file; the texts of all files together are the diff."""

    path: str
    text: str


def by_file(diff: str) -> list[FileDiff]:
    """Return the parts of a diff. Lines before the first header have no path."""
    parts: list[list[str]] = [[]]
    # Only "\n" ends a line of a diff: a file may contain every other character that Python takes for one.
    for line in diff.split("\n"):
        if line.startswith(_HEADER):
            parts.append([])
        parts[-1].append(line)
    ends = ["\n"] * (len(parts) - 1) + [""]
    texts = ["\n".join(lines) + end for lines, end in zip(parts, ends, strict=True) if lines]
    return [FileDiff(_path(text), text) for text in texts if text]


def _path(text: str) -> str:
    """Return the path after the change, or before it when the file is gone."""
    head = text.partition("\n@@")[0].split("\n")
    for mark in ("+++ ", "--- "):
        for line in head:
            if line.startswith(mark) and line != f"{mark}/dev/null":
                return _bare(line.removeprefix(mark))
    # Without hunks, as for an empty file, only the header names it: `a/x b/x`, quoted where git must.
    name = head[0].removeprefix(_HEADER).replace('"b/', "b/")
    return _bare(name.rpartition(" b/")[2]) if head[0].startswith(_HEADER) else ""


def _bare(path: str) -> str:
    """Return the path without git's quotes and its `a/` or `b/`."""
    return path.rstrip("\t").strip('"').removeprefix("a/").removeprefix("b/")
