"""What one launch used, for agents that report the total of the session it continues."""

from __future__ import annotations

import json
import re
from pathlib import Path

from segue.domain.job import Job
from segue.domain.outcome import Usage
from segue.system.files import write_atomic
from segue.system.process.processes import Processes

_SESSION = re.compile(r"[A-Za-z0-9_-]{1,100}")


class SessionUsage:
    """The total of a session, before this launch and now."""

    def __init__(self, before: Usage | None = None, folder: Path | None = None) -> None:
        """`before` is the session's total when the launch started."""
        self._before = before or Usage()
        self._folder = folder
        self.total: Usage | None = None
        """The session's total, once the agent has reported it."""

    @classmethod
    def open(cls, processes: Processes, agent: str, job: Job) -> SessionUsage:
        """Read the session's total; an adopted launch gets the one it started with."""
        folder, note = processes.shared(agent), processes.scratch(job.token) / "usage-before.json"
        if not note.exists():
            stored = _total_file(folder, job.session)
            write_atomic(note, stored.read_bytes() if stored and stored.is_file() else b"[0, 0]")
        return cls(Usage(*json.loads(note.read_text())), folder)

    def report(self, reported: Usage, launch: Usage | None = None) -> None:
        """Take what the agent reports: the total of the session, or what this launch used, by its version.

        `launch` is what this launch used in any version, as far as that is known: the nearer reading counts.
        """
        before = self._before
        is_total = reported.tokens >= before.tokens and reported.input_tokens >= before.input_tokens
        if is_total and launch is not None:
            as_total = abs(reported.tokens - before.tokens - launch.tokens)
            is_total = as_total < abs(reported.tokens - launch.tokens)
        self.total = reported if is_total or not before.tokens else before + reported

    def spent(self) -> Usage | None:
        """Return what was added to the total by this launch; None if no total was reported."""
        if self.total is None:
            return None
        cost, cached = self.total.cost_usd, self.total.cached_tokens
        return Usage(
            max(0, self.total.input_tokens - self._before.input_tokens),
            max(0, self.total.output_tokens - self._before.output_tokens),
            None if cost is None else round(max(0.0, cost - (self._before.cost_usd or 0.0)), 9),
            None if cached is None else max(0, cached - (self._before.cached_tokens or 0)),
        )

    def store(self, session: str | None) -> None:
        """Store the session's total for the launches that continue it."""
        path = _total_file(self._folder, session) if self._folder else None
        if self.total is not None and path is not None:
            total = self.total
            numbers = [total.input_tokens, total.output_tokens, total.cost_usd, total.cached_tokens]
            write_atomic(path, json.dumps(numbers).encode())


def _total_file(folder: Path, session: str | None) -> Path | None:
    return folder / f"usage-{session}.json" if session and _SESSION.fullmatch(session) else None
