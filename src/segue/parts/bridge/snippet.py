"""Writes the protocol into an agent's AGENTS.md, between markers, so that it can be updated."""

from __future__ import annotations

from pathlib import Path

from segue.domain.errors import UsageError
from segue.parts.bridge.prompts import PROTOCOL
from segue.system.files import write_atomic

BEGIN = "<!-- segue bridge: begin -->"
END = "<!-- segue bridge: end -->"
FILE = "AGENTS.md"


def make_snippet() -> str:
    """Return the protocol between its markers."""
    return f"{BEGIN}\n## Commands of the bridge\n\n{PROTOCOL}\n{END}\n"


def write_snippet(folder: Path) -> bool:
    """Write or update the protocol in the folder's AGENTS.md; return False if it is current already."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder.", kept="Nothing was written.")
    path = folder / FILE
    old = path.read_bytes().decode("utf-8", "surrogateescape") if path.exists() else ""
    new = _update(old, path)
    if new == old:
        return False
    write_atomic(path, new.encode("utf-8", "surrogateescape"))
    return True


def _update(old: str, path: Path) -> str:
    begin, end = old.find(BEGIN), old.find(END)
    if begin == -1 and end == -1:
        if old:
            old += "\n" if old.endswith("\n") else "\n\n"
        return old + make_snippet()
    if begin == -1 or end < begin or old.count(BEGIN) > 1 or old.count(END) > 1:
        raise UsageError(
            f"{path} contains markers of the bridge that do not match.",
            kept="Nothing was changed.",
            hint=f"Remove the lines {BEGIN} and {END}, then try again",
        )
    after = end + len(END)
    after += old.startswith("\n", after)
    return old[:begin] + make_snippet() + old[after:]
