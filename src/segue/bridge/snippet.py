"""The protocol as a part of an agent's AGENTS.md: between markers, so that it can be renewed."""

from __future__ import annotations

from pathlib import Path

from segue.domain.errors import UsageError
from segue.prompts.bridge import PROTOCOL
from segue.system.files import write_atomic

BEGIN = "<!-- segue bridge: begin -->"
END = "<!-- segue bridge: end -->"
FILE = "AGENTS.md"


def snippet() -> str:
    """The part, with its markers."""
    return f"{BEGIN}\n## Commands of the bridge\n\n{PROTOCOL}\n{END}\n"


def write_snippet(folder: Path) -> bool:
    """Put the part into the folder's AGENTS.md, in place of an older one; False when it is there already."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder.", kept="Nothing was written.")
    path = folder / FILE
    old = path.read_bytes().decode("utf-8", "surrogateescape") if path.exists() else ""
    new = _renewed(old, path)
    if new == old:
        return False
    write_atomic(path, new.encode("utf-8", "surrogateescape"))
    return True


def _renewed(old: str, path: Path) -> str:
    begin, end = old.find(BEGIN), old.find(END)
    if begin == -1 and end == -1:
        gap = "" if not old else "\n" if old.endswith("\n") else "\n\n"
        return old + gap + snippet()
    if begin == -1 or end < begin or old.count(BEGIN) > 1 or old.count(END) > 1:
        raise UsageError(
            f"{path} holds markers of the bridge that do not fit together.",
            kept="Nothing was changed.",
            hint=f"Remove the lines {BEGIN} and {END}, then try again",
        )
    after = end + len(END)
    after += old.startswith("\n", after)
    return old[:begin] + snippet() + old[after:]
