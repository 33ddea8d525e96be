"""Review the hunks of a diff by a script instead of a model, for the stand-in for stet."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from segue.sim.script import BadScript, is_match, lacks, matches, read_script

_HUNK = re.compile(r"^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@")


class StetFailure(Exception):
    """The lines that stet prints on stderr before it ends with an exit code other than 0."""

    def __init__(self, *lines: str, code: int = 1) -> None:
        super().__init__("\n".join(lines))
        self.code = code


@dataclass
class StetScript:
    """The findings to report and the faults to have."""

    findings: list[dict[str, str]] = field(default_factory=list)
    faults: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls) -> StetScript:
        """Read the script that SEGUE_SIM_STET names."""
        name = os.environ.get("SEGUE_SIM_STET")
        if not name:
            return cls()
        try:
            data = read_script(Path(name))
        except BadScript as error:
            raise StetFailure(f"sim: {error}") from None
        return cls(data) if isinstance(data, list) else cls(data.get("findings", []), data.get("faults", {}))

    def get_fault(self, name: str, command: str) -> Any:
        """Return the value of a fault for this command, false if it does not have the fault."""
        value = self.faults.get(name, False)
        return command in value if isinstance(value, list) else value


@dataclass
class Hunk:
    """A piece of `git diff`: its place in the new file, and the lines it adds."""

    file: str
    start: int
    end: int
    raw: list[str] = field(default_factory=list)
    added: list[tuple[int, str]] = field(default_factory=list)

    def contains(self, finding: dict[str, Any]) -> bool:
        """Return whether the finding is inside."""
        return bool(finding["file"] == self.file and self.start <= finding["line"] <= self.end)

    @property
    def meaning(self) -> str:
        """A text that is equal for hunks that differ only in whitespace."""
        return f"{self.file}\n" + "".join("".join(line.split()) for line in self.raw)


def find_problems(hunk: Hunk, script: StetScript, root: Path) -> Iterator[dict[str, Any]]:
    """Yield what the script finds in the lines that a hunk adds."""
    for line, text in hunk.added:
        for rule in script.findings:
            if is_match(rule, {"pattern": matches(text), "unless": lacks(text)}):
                yield _finding(root, hunk.file, line, rule)


def _finding(root: Path, file: str, line: int, rule: dict[str, str]) -> dict[str, Any]:
    message = rule.get("message", f"matches {rule['pattern']}")
    identity = hashlib.sha256(f"{file}:{line}:{' '.join(message.split())}".encode()).hexdigest()
    entry: dict[str, Any] = {"id": identity, "file": file, "line": line}
    entry |= {"severity": rule.get("severity", "warning"), "category": rule.get("category", "correctness")}
    entry |= {"confidence": 0.95, "message": message}
    if rule.get("suggestion"):
        entry["suggestion"] = rule["suggestion"]
    return {**entry, "cursor_uri": f"file://{root / file}#L{line}"}


def split_diff(diff: str) -> list[Hunk]:
    """Split the output of `git diff` into hunks."""
    hunks: list[Hunk] = []
    file, line = "", 0
    for text in diff.split("\n"):
        match = _HUNK.match(text)
        if match:
            line, count = int(match[1]), int(match[2] or 1)
            hunks.append(Hunk(file, line, line + max(count, 1) - 1))
        elif text.startswith("diff --git "):
            file = ""
        elif not file and text.startswith("+++ "):
            file = text.removeprefix("+++ ").removeprefix("b/").rstrip("\t")
        elif file and hunks and text[:1] in ("+", "-", " "):
            hunks[-1].raw.append(text)
            if text[0] == "+":
                hunks[-1].added.append((line, text[1:]))
            line += text[0] != "-"
    return hunks
