"""A stand-in for stet: a program with sessions on disk, whose findings come from a script instead of a model.

`python -m tests.fakes.stet --script FILE start HEAD~1 --json` is one call of it. Without a command it writes
an executable `stet` that plays the script into a folder (`--bin`; a new one), and prints that folder: put it
on the PATH. stet has no server, so `--port` is ignored.

The script is JSON, read anew by each call:

    {"findings": [{"pattern": "eval\\(", "unless": "checked", "severity": "error", "category": "security",
                   "message": "eval on input", "suggestion": "Use ast.literal_eval."}],
     "faults": {"llm_down": true, "parse_failure": ["run"]}}

A finding is reported for each added line that matches, and does not match `unless`. Faults, for all commands
or those in a list: llm_down (exit code 2), parse_failure (exit code 1 in mid-review), hang, unknown_output.
Findings are always printed as JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_NO_SESSION = "no active session; run stet start first"
_HUNK = re.compile(r"^@@ -\S+ \+(\d+)")
Added = list[tuple[int, str]]
"""Numbers and texts of lines."""


class Failed(Exception):
    """The lines that stet prints on stderr before it ends with an exit code other than 0."""

    def __init__(self, *lines: str, code: int = 1) -> None:
        super().__init__("\n".join(lines))
        self.code = code


class Stet:
    """One call, in the repository of the current folder."""

    def __init__(self, command: str, words: list[str], script: dict[str, Any]) -> None:
        self.command, self._script = command, script
        self._flags = {word for word in words if word.startswith("-")}
        self._words = [word for word in words if not word.startswith("-")]
        top = subprocess.run(["git", "rev-parse", "--show-toplevel"], capture_output=True, text=True)
        if top.returncode:
            raise Failed("This directory is not inside a Git repository.", "Details: exit status 128")
        self._root = Path(top.stdout.strip())
        self._state = self._root / ".review"

    def run(self) -> None:
        """Do what was asked."""
        again = self._review_again
        calls = {"start": self._start, "run": again, "rerun": again, "finish": self._finish}
        calls |= {"cleanup": self._cleanup, "status": self._status}
        if self.command not in calls:
            raise Failed(f'unknown command "{self.command}" for "stet"')
        calls[self.command]()

    def _start(self) -> None:
        ref = (self._words or ["HEAD"])[0]
        if self._git("status", "--porcelain"):
            raise Failed(
                f"Hint: Commit or stash your changes, then run 'stet start {ref}' again.",
                "working tree has uncommitted changes; commit or stash before starting",
            )
        hint = f"Hint: Run 'stet finish' to end the current review, then run 'stet start {ref}' again."
        with self._lock(hint, "finish or cleanup current review first"):
            base = self._git("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
            if not base:
                raise Failed(f'Could not resolve baseline ref "{ref}".', "Details: Invalid ref or commit.")
            self._open(ref, base)

    def _open(self, ref: str, base: str) -> None:
        head = self._git("rev-parse", "HEAD")
        session = {"baseline_ref": base, "last_reviewed_at": head, "findings": [], "dismissed_ids": []}
        if base == head:
            self._save(session)
            self._print_findings()
            return
        self._ask_model()
        worktree = self._worktree(base)
        if worktree.exists():
            raise Failed(
                f"Hint: Run 'stet finish', then run 'stet start {ref}' again.", "worktree already exists"
            )
        self._git("worktree", "add", "--quiet", "--detach", str(worktree), base)
        try:
            self._save({**session, "last_reviewed_at": ""})
            found = self._review(self._added(base, head))
        except Failed:
            self._git("worktree", "remove", "--force", str(worktree))
            raise
        self._save({**session, "findings": found})
        self._print_findings()

    def _review_again(self) -> None:
        """Review the files that are new since the last time, or all; findings that are gone are dismissed."""
        session, head = self._session(_NO_SESSION), self._git("rev-parse", "HEAD")
        base = session["baseline_ref"]
        changed = self._added(base, head)
        if self.command == "run":
            seen = self._added(base, session["last_reviewed_at"] or base)
            gone = {one["file"] for one in session["findings"] if one["id"] in session["dismissed_ids"]}
            changed = {f: lines for f, lines in changed.items() if lines != seen.get(f) and f not in gone}
        if changed:
            self._ask_model()
        found = self._review(changed)
        if "--replace" in self._flags:
            session |= {"findings": [], "dismissed_ids": []}
        old = {one["id"] for one in session["findings"] if one["file"] in changed}
        session["dismissed_ids"] += sorted(old - {one["id"] for one in found} - {*session["dismissed_ids"]})
        session["findings"] += found  # also what is listed already: then it is there twice
        self._save(session | {"last_reviewed_at": head})
        self._print_findings()

    def _finish(self) -> None:
        session = self._session(_NO_SESSION)
        with self._lock("session already active"):
            worktree = self._worktree(session["baseline_ref"])
            if worktree.exists():
                self._git("worktree", "remove", "--force", str(worktree))
            note = json.dumps(
                {"baseline_sha": session["baseline_ref"], "findings_count": len(session["findings"])}
            )
            done = self._call("notes", "--ref=stet", "add", "-f", "-m", note, "HEAD")
            if done.returncode:
                raise Failed("Could not write Git note for this review.", f"Details: {done.stderr.strip()}")
            (self._state / "session.json").unlink()

    def _cleanup(self) -> None:
        session = self._load()
        current = self._worktree(session["baseline_ref"]) if session else None
        listed = self._git("worktree", "list", "--porcelain").splitlines()
        paths = [Path(line.removeprefix("worktree ")) for line in listed if line.startswith("worktree ")]
        for path in (one for one in paths if one.name.startswith("stet-") and one != current):
            self._git("worktree", "remove", "--force", str(path))
            sys.stderr.write(f"Removed worktree: {path}\n")

    def _status(self) -> None:
        session = self._session("No active session. Run 'stet start' to begin a review.")
        _say(f"baseline: {session['baseline_ref']}\nlast_reviewed_at: {session['last_reviewed_at']}")
        _say(f"findings: {len(session['findings'])}\ndismissed: {len(session['dismissed_ids'])}")

    # What is said and found

    def _has(self, fault: str) -> bool:
        value = self._script.get("faults", {}).get(fault, False)
        return self.command in value if isinstance(value, list) else bool(value)

    def _ask_model(self) -> None:
        if self._has("llm_down"):
            ask = "Ollama unreachable at http://localhost:11434. Is the server running?"
            raise Failed(ask, "Details: Ollama server unreachable.", code=2)

    def _review(self, changed: Mapping[str, Added]) -> list[dict[str, Any]]:
        if changed and self._has("parse_failure"):
            why = "review: parse failed (after retry): invalid character 'I' looking for beginning of value"
            raise Failed(f"Review failed for {min(changed)}.", f"Details: {why}")
        while changed and self._has("hang"):
            time.sleep(60)
        return [
            _find(file, line, rule)
            for file, lines in changed.items()
            for line, text in lines
            for rule in self._script.get("findings", ())
            if re.search(rule["pattern"], text) and not re.search(rule.get("unless", "$^"), text)
        ]

    def _added(self, base: str, head: str) -> dict[str, Added]:
        """Return the lines that each changed file has new."""
        found: dict[str, Added] = {}
        file, line = "", 0
        for text in self._git("diff", "--no-ext-diff", "--no-renames", "--unified=0", base, head).split("\n"):
            if text.startswith("+++ "):
                file = text.removeprefix("+++ ").removeprefix("b/").rstrip("\t")
                found[file] = []
            elif hunk := _HUNK.match(text):
                line = int(hunk[1])
            elif text.startswith("+"):
                found[file].append((line, text[1:]))
                line += 1
        return found

    def _print_findings(self) -> None:
        session = self._load()
        found = [one for one in session["findings"] if one["id"] not in session["dismissed_ids"]]
        document = json.dumps({"findings": found}, separators=(",", ":"))
        _say("All good, I think? <no summary>" if self._has("unknown_output") else document)

    # Files and git

    def _session(self, complaint: str) -> dict[str, Any]:
        session = self._load()
        if not session:
            raise Failed(complaint)
        return session

    def _load(self) -> dict[str, Any]:
        path = self._state / "session.json"
        try:
            loaded: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        except ValueError as error:
            raise Failed("Session file is invalid or corrupted.", f"Details: {error}") from None
        return loaded

    def _save(self, session: dict[str, Any]) -> None:
        self._state.mkdir(exist_ok=True)
        (self._state / "session.json").write_text(json.dumps(session, indent=2))

    @contextlib.contextmanager
    def _lock(self, *complaint: str) -> Iterator[None]:
        self._state.mkdir(exist_ok=True)
        with (self._state / "lock").open("ab") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Failed(*complaint) from None
            yield

    def _worktree(self, base: str) -> Path:
        return self._state / "worktrees" / f"stet-{base[:12]}"

    def _call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", *arguments], cwd=self._root, capture_output=True, text=True)

    def _git(self, *arguments: str) -> str:
        done = self._call("-c", "core.quotePath=false", *arguments)
        return done.stdout.rstrip("\n") if done.returncode == 0 else ""


def _find(file: str, line: int, rule: dict[str, str]) -> dict[str, Any]:
    message = rule.get("message", f"matches {rule['pattern']}")
    found: dict[str, Any] = {
        "id": hashlib.sha256(f"{file}:{line}:{' '.join(message.split())}".encode()).hexdigest(),
        "file": file,
        "line": line,
        "severity": rule.get("severity", "warning"),
        "category": rule.get("category", "correctness"),
        "confidence": 0.95,
        "message": message,
    }
    return found | ({"suggestion": rule["suggestion"]} if "suggestion" in rule else {})


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def write_program(folder: Path, script: Path) -> Path:
    """Write an executable that plays a script, which need not exist yet."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "stet"
    path.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -I -S "{Path(__file__).resolve()}" --script "{script}" "$@"\n'
    )
    path.chmod(0o755)
    return path


def main() -> int:
    """Be stet, or write a program that is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", help="ignored: stet has no server")
    parser.add_argument("--script", type=Path, default=Path("stet.json"), help="its findings and faults")
    parser.add_argument("--bin", type=Path, help="where to write an executable stet")
    parser.add_argument(
        "words", nargs=argparse.REMAINDER, help="a command of stet, such as: start HEAD~1 --json"
    )
    given = parser.parse_args()
    if not given.words:
        folder = (given.bin or Path(tempfile.mkdtemp(prefix="stet-"))).absolute()
        write_program(folder, given.script.absolute())
        _say(str(folder))
        return 0
    try:
        script = json.loads(given.script.read_text()) if given.script.is_file() else {}
        Stet(given.words[0], given.words[1:], script).run()
    except Failed as failed:
        sys.stderr.write(f"{failed}\n")
        return failed.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
