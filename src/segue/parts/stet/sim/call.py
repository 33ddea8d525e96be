"""One call of the stand-in for stet: its arguments, its script instead of a model, and stet's files."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from segue.sim.script import BadScript, is_match, lacks, matches, read_script

_PLACEHOLDER = "Dry-run placeholder (CI)"
_GENERATED = ("*.pb.go", "*_generated.go", "*.min.js", "package-lock.json", "go.sum")
_HUNK = re.compile(r"^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@")


class StetFailure(Exception):
    """The lines that stet prints on stderr before it ends with an exit code other than 0."""

    def __init__(self, *lines: str, code: int = 1) -> None:
        super().__init__("\n".join(lines))
        self.code = code


class StetScript(NamedTuple):
    """The findings to report and the faults to have."""

    findings: list[dict[str, str]]
    faults: dict[str, Any]

    @classmethod
    def load(cls) -> StetScript:
        """Read the script that SEGUE_SIM_STET names."""
        name = os.environ.get("SEGUE_SIM_STET")
        if not name:
            return cls([], {})
        try:
            data = read_script(Path(name))
        except BadScript as error:
            raise StetFailure(f"sim: {error}") from None
        return (
            cls(data, {}) if isinstance(data, list) else cls(data.get("findings", []), data.get("faults", {}))
        )

    def get_fault(self, name: str, command: str) -> Any:
        """Return the value of a fault for this command, false if it does not have the fault."""
        value = self.faults.get(name, False)
        return command in value if isinstance(value, list) else value


class Hunk(NamedTuple):
    """A piece of `git diff`: its place in the new file, and the lines it adds."""

    file: str
    start: int
    end: int
    raw: list[str]
    added: list[tuple[int, str]]
    head: str = ""

    def contains(self, finding: dict[str, Any]) -> bool:
        """Return whether the finding is inside."""
        return bool(finding["file"] == self.file and self.start <= finding["line"] <= self.end)

    @property
    def text(self) -> str:
        """The hunk as git prints it."""
        return "\n".join([self.head, *self.raw])

    @property
    def is_generated(self) -> bool:
        """True if nobody wrote the file, so that nobody reviews it."""
        folders, name = self.file.split("/")[:-1], self.file.rsplit("/", 1)[-1]
        return (
            "coverage" in folders
            or folders[:1] == ["vendor"]
            or any(fnmatch(name, one) for one in _GENERATED)
        )

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
    sure = float(rule.get("confidence", 0.95))
    entry |= {"confidence": int(sure) if sure.is_integer() else sure, "message": message}  # as Go writes it
    if rule.get("suggestion"):
        entry["suggestion"] = rule["suggestion"]
    return {**entry, "cursor_uri": f"file://{root / file}#L{line}"}


def make_placeholder(hunk: Hunk, root: Path) -> dict[str, Any]:
    """Return what a dry run says about a hunk: the same for everybody, and different for each hunk."""
    content = hashlib.sha256(f"{hunk.file}:{hunk.text}".encode()).hexdigest()
    place = f"{hunk.file}:{hunk.start}"
    return {
        "id": hashlib.sha256(f"{place}:{_PLACEHOLDER}:{content}".encode()).hexdigest(),
        "file": hunk.file,
        "line": hunk.start,
        "severity": "info",
        "category": "maintainability",
        "confidence": 1,
        "message": _PLACEHOLDER,
        "cursor_uri": f"file://{root / hunk.file}#L{hunk.start}",
    }


def split_diff(diff: str) -> list[Hunk]:
    """Split the output of `git diff` into hunks."""
    hunks: list[Hunk] = []
    file, line = "", 0
    for text in diff.split("\n"):
        match = _HUNK.match(text)
        if match:
            line, count = int(match[1]), int(match[2] or 1)
            hunks.append(Hunk(file, line, line + max(count, 1) - 1, [], [], text))
        elif text.startswith("diff --git "):
            file = ""
        elif not file and text.startswith("+++ "):
            file = text.removeprefix("+++ ").removeprefix("b/").rstrip("\t")
        elif file and hunks and text[:1] in ("+", "-", " "):
            hunks[-1].raw.append(text)
            if text[0] == "+":
                hunks[-1].added.append((line, text[1:]))
            line += text[0] != "-"
    return [hunk for hunk in hunks if not hunk.is_generated]


class StetCall(NamedTuple):
    """One call of the program: its arguments, and the repository it works in."""

    command: str
    words: list[str]
    flags: dict[str, str]
    script: StetScript
    root: Path

    @property
    def state(self) -> Path:
        """The folder in which stet keeps its files."""
        return self.root / os.environ.get("STET_STATE_DIR", ".review")

    @property
    def json(self) -> bool:
        """True if findings are printed as JSON."""
        old = self.script.get_fault("no_json_flag", self.command)
        return bool(old and old != "human") or "--json" in self.flags or self.flags.get("--output") == "json"

    @property
    def stream(self) -> bool:
        """True if findings are printed as they come."""
        return "--stream" in self.flags

    def worktree(self, ref: str) -> Path:
        """The folder into which a commit is checked out."""
        folder = os.environ.get("STET_WORKTREE_ROOT") or str(self.root / ".review" / "worktrees")
        return Path(folder).resolve() / f"stet-{self.git('rev-parse', '--short=12', ref)}"

    def git(self, *arguments: str, check: bool = True) -> str:
        """Run git and return its output."""
        done = subprocess.run(["git", *arguments], cwd=self.root, capture_output=True, check=False)
        if check and done.returncode != 0:
            raise StetFailure(f"git {arguments[0]}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout.decode("utf-8", "replace").rstrip("\n") if done.returncode == 0 else ""

    def load(self) -> dict[str, Any]:
        """Read the session from disk; empty if there is none."""
        path = self.state / "session.json"
        if not path.exists():
            return {}
        try:
            loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise StetFailure("Session file is invalid or corrupted.", f"Details: {error}") from None
        return loaded

    def save(self, session: dict[str, Any]) -> None:
        """Write the session."""
        self.state.mkdir(parents=True, exist_ok=True)
        text = json.dumps(session, indent=2)
        if self.script.get_fault("corrupt_session", self.command):
            text = text[: len(text) // 2]
        (self.state / "session.json").write_text(text, encoding="utf-8")

    def add_history(self, session: dict[str, Any], action: dict[str, Any], ref: str = "") -> None:
        """Append what a person or a review did to the log that outlives the session."""
        ref = ref or session["last_reviewed_at"] or session["baseline_ref"]
        record = {"diff_ref": ref, "review_output": session["findings"], "user_action": action}
        with (self.state / "history.jsonl").open("a", encoding="utf-8") as log:
            log.write(json.dumps(record) + "\n")

    def succeeds(self, *arguments: str) -> bool:
        """Return whether git ends with exit code 0."""
        return subprocess.run(["git", *arguments], cwd=self.root, check=False).returncode == 0

    @contextlib.contextmanager
    def lock(self, *complaint: str) -> Iterator[None]:
        """Lock the repository's review while a command runs; the file is never deleted."""
        self.state.mkdir(parents=True, exist_ok=True)
        with (self.state / "lock").open("ab") as handle:
            if sys.platform != "win32":
                import fcntl

                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    raise StetFailure(*complaint) from None
            yield
