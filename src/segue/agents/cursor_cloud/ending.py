"""Says how a cloud run ended: its outcome, and the last event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from segue.agents.cursor_cloud.api import Place, Used, View
from segue.agents.cursor_cloud.reading import Reading
from segue.domain.event import Event, EventType
from segue.domain.failure import Failure, FailureKind
from segue.domain.job import Job, Mode
from segue.domain.outcome import Outcome, Usage
from segue.domain.repository import same_repository
from segue.system.redact import Redactor

_NO_TEXT = {Mode.PLAN: "plan", Mode.ASK: "answer"}


@dataclass(frozen=True, slots=True)
class Ending:
    """Everything that is known when a run is over."""

    job: Job
    repository: str
    place: Place
    adopted: bool
    view: View | None
    failure: Failure | None
    used: Used | None
    duration: float

    def usage_event(self) -> list[Event]:
        """What was used, if the API says so."""
        if self.used is None:
            return []
        facts = asdict(self.used)
        cents = facts.pop("cents")
        return [Event(EventType.AGENT_USAGE, {**facts, "cost_usd": None if cents is None else cents / 100})]

    def event(self, reading: Reading, redactor: Redactor) -> Event:
        """The last event."""
        outcome = self._outcome(reading, redactor)
        view = self.view
        facts = {
            "agent_id": self.place.agent,
            "run_id": self.place.run,
            "url": self.place.url,
            "status": view.word if view else None,
            "branches": list(outcome.branches),
            "pull_requests": sorted({branch.pr for branch in view.branches if branch.pr}) if view else [],
            "adopted": self.adopted,
            **reading.facts(),
        }
        return ended_event(outcome, redactor.data(facts))

    def _outcome(self, reading: Reading, redactor: Redactor) -> Outcome:
        said = self.view.text if self.view else ""
        plan = reading.plan if self.job.mode is Mode.PLAN else ""
        text = plan or redactor.text(said) or reading.text
        took = self.view.duration if self.view else None
        return Outcome(
            text=text,
            failure=_clean(self.failure or self._without_text(text), redactor),
            session=str(self.place),
            model=self.job.model,
            usage=self._usage(),
            duration=self.duration if took is None else took,
            branches=self._branches(),
        )

    def _without_text(self, text: str) -> Failure | None:
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
        """The branches in our repository; an agent may have pushed none, or several, or elsewhere."""
        pushed = self.view.branches if self.view else ()
        ours = [b.name for b in pushed if b.name and same_repository(b.repository, self.repository)]
        return tuple(dict.fromkeys(ours))


def failed_event(failure: Failure, job: Job, duration: float, redactor: Redactor) -> Event:
    """The last event of a job for which no run is known."""
    failure = replace(failure, message=redactor.text(failure.message))
    outcome = Outcome(failure=failure, session=job.session, model=job.model, duration=duration)
    return ended_event(outcome, {"adopted": False})


def ended_event(outcome: Outcome, facts: Mapping[str, Any]) -> Event:
    """The last event."""
    data = {
        "ok": outcome.failure is None,
        "exit_code": None,
        "duration": round(outcome.duration, 3),
        "failure": asdict(outcome.failure) if outcome.failure else None,
        "usage": asdict(outcome.usage) if outcome.usage else None,
        **facts,
    }
    return Event(EventType.AGENT_ENDED, data, outcome)


def _clean(failure: Failure | None, redactor: Redactor) -> Failure | None:
    return replace(failure, message=redactor.text(failure.message)) if failure else None
