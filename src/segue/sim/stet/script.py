"""What the stand-in for stet reviews with: a script instead of a model, and the hunks of a diff."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_HUNK = re.compile(r"^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@")


class Failure(Exception):
    """What stet prints on stderr before it ends with an exit code other than 0."""

    def __init__(self, *lines: str, code: int = 1) -> None:
        super().__init__("\n".join(lines))
        self.code = code


@dataclass
class Script:
    """What to find, and what goes wrong."""

    findings: list[dict[str, str]] = field(default_factory=list)
    faults: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls) -> Script:
        """Read the file that SEGUE_SIM_STET names."""
        name = os.environ.get("SEGUE_SIM_STET")
        if not name:
            return cls()
        raw = Path(name).read_text(encoding="utf-8")
        data = json.loads(raw) if name.endswith(".json") else tomllib.loads(raw)
        return cls(data) if isinstance(data, list) else cls(data.get("findings", []), data.get("faults", {}))

    def fault(self, name: str, command: str) -> Any:
        """Whether the command is hit by a fault."""
        value = self.faults.get(name, False)
        return command in value if isinstance(value, list) else value


@dataclass
class Hunk:
    """A piece of `git diff`: where it stands in the new file, and the lines it adds."""

    file: str
    start: int
    end: int
    raw: list[str] = field(default_factory=list)
    added: list[tuple[int, str]] = field(default_factory=list)

    def holds(self, finding: dict[str, Any]) -> bool:
        """Whether the finding stands inside."""
        return bool(finding["file"] == self.file and self.start <= finding["line"] <= self.end)

    @property
    def meaning(self) -> str:
        """Equal for hunks that differ in blanks alone."""
        return f"{self.file}\n" + "".join("".join(line.split()) for line in self.raw)


def findings_in(hunk: Hunk, script: Script, root: Path) -> Iterator[dict[str, Any]]:
    """What the script finds in the lines that a hunk adds."""
    for line, text in hunk.added:
        for rule in script.findings:
            unless = rule.get("unless")
            if re.search(rule["pattern"], text) and not (unless and re.search(unless, text)):
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


def hunks_of(diff: str) -> list[Hunk]:
    """The hunks of a `git diff`."""
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
