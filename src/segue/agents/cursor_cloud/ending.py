"""Report how a cloud run ended: its outcome, and the last event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from segue.agents.cursor_cloud.api import RunRef, RunSnapshot, RunUsage
from segue.agents.cursor_cloud.reading import StreamReader
from segue.domain.event import Event, EventType
from segue.domain.failure import Failure, FailureKind
from segue.domain.job import Job, Mode
from segue.domain.outcome import Outcome, Usage
from segue.domain.repository import same_repository
from segue.system.redact import Redactor

_NO_TEXT = {Mode.PLAN: "plan", Mode.ASK: "answer"}


@dataclass(frozen=True, slots=True)
class CloudRunEnd:
    """Everything that is known about a run that is over."""

    job: Job
    repository: str
    ref: RunRef
    adopted: bool
    snapshot: RunSnapshot | None
    failure: Failure | None
    used: RunUsage | None
    duration: float

    def usage_event(self) -> list[Event]:
        """Return an event with the usage, if the API reports it."""
        if self.used is None:
            return []
        facts = asdict(self.used)
        cents = facts.pop("cents")
        return [Event(EventType.AGENT_USAGE, {**facts, "cost_usd": None if cents is None else cents / 100})]

    def last_event(self, reader: StreamReader, redactor: Redactor) -> Event:
        """Return the last event."""
        outcome = self._outcome(reader, redactor)
        snapshot = self.snapshot
        facts = {
            "agent_id": self.ref.agent,
            "run_id": self.ref.run,
            "url": self.ref.url,
            "status": snapshot.word if snapshot else None,
            "branches": list(outcome.branches),
            "pull_requests": sorted({branch.pr for branch in snapshot.branches if branch.pr})
            if snapshot
            else [],
            "adopted": self.adopted,
            **reader.facts(),
        }
        return _make_end_event(outcome, redactor.data(facts))

    def _outcome(self, reader: StreamReader, redactor: Redactor) -> Outcome:
        said = self.snapshot.text if self.snapshot else ""
        plan = reader.plan if self.job.mode is Mode.PLAN else ""
        text = plan or redactor.text(said) or reader.text
        took = self.snapshot.duration if self.snapshot else None
        return Outcome(
            text=text,
            failure=_redact(self.failure or self._check_text(text), redactor),
            session=str(self.ref),
            model=self.job.model,
            usage=self._usage(),
            duration=self.duration if took is None else took,
            branches=self._branches(),
        )

    def _check_text(self, text: str) -> Failure | None:
        what = _NO_TEXT.get(self.job.mode)
        if text.strip() or what is None:
            return None
        return Failure(FailureKind.NO_RESULT, f"the cloud agent ended well but gave no {what}")

    def _usage(self) -> Usage | None:
        used = self.used
        if used is None:
            return None
        read = used.input_tokens + used.cache_read_tokens + used.cache_write_tokens
        return Usage(read, used.output_tokens, (used.cents or 0.0) / 100)

    def _branches(self) -> tuple[str, ...]:
        """Return the branches in our repository; the agent may have pushed none, several, or elsewhere."""
        pushed = self.snapshot.branches if self.snapshot else ()
        ours = [b.name for b in pushed if b.name and same_repository(b.repository, self.repository)]
        return tuple(dict.fromkeys(ours))


def make_failure_event(failure: Failure, job: Job, duration: float, redactor: Redactor) -> Event:
    """Return the last event of a job that has no run."""
    failure = replace(failure, message=redactor.text(failure.message))
    outcome = Outcome(failure=failure, session=job.session, model=job.model, duration=duration)
    return _make_end_event(outcome, {"adopted": False})


def _make_end_event(outcome: Outcome, facts: Mapping[str, Any]) -> Event:
    """Return the last event."""
    data = {
        "ok": outcome.failure is None,
        "exit_code": None,
        "duration": round(outcome.duration, 3),
        "failure": asdict(outcome.failure) if outcome.failure else None,
        "usage": asdict(outcome.usage) if outcome.usage else None,
        **facts,
    }
    return Event(EventType.AGENT_ENDED, data, outcome)


def _redact(failure: Failure | None, redactor: Redactor) -> Failure | None:
    return replace(failure, message=redactor.text(failure.message)) if failure else None
