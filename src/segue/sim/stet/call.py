"""One call of the stand-in for stet: its arguments, the repository, and stet's files there."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segue.sim.stet.script import StetFailure, StetScript


@dataclass
class StetCall:
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

    def add_history(self, session: dict[str, Any], action: dict[str, Any]) -> None:
        """Append to the log that outlives the session."""
        record = {"diff_ref": session["last_reviewed_at"], "review_output": session["findings"], **action}
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
