"""Report how a cloud run ended: what it used, and its outcome."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from segue.agents.cursor_cloud.api import RunRef, RunSnapshot, RunUsage
from segue.agents.cursor_cloud.reading import StreamReader
from segue.domain.events import AgentUsage
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

    def usage_event(self) -> AgentUsage | None:
        """Return an event with the usage, if the API reports it."""
        used = self.used
        if used is None:
            return None
        return AgentUsage(
            used.input_tokens,
            used.output_tokens,
            used.cost_usd,
            used.cache_read_tokens,
            used.cache_write_tokens,
        )

    def outcome(self, reader: StreamReader, redactor: Redactor) -> Outcome:
        """Return how the run ended."""
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
            facts=redactor.data(self._facts(reader)),
        )

    def _facts(self, reader: StreamReader) -> dict[str, Any]:
        snapshot = self.snapshot
        return {
            "agent_id": self.ref.agent,
            "run_id": self.ref.run,
            "url": self.ref.url,
            "status": snapshot.word if snapshot else None,
            "branches": list(self._branches()),
            "pull_requests": sorted({b.pr for b in snapshot.branches if b.pr}) if snapshot else [],
            "adopted": self.adopted,
            **reader.facts(),
        }

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
        return Usage(read, used.output_tokens, used.cost_usd)

    def _branches(self) -> tuple[str, ...]:
        """Return the branches in our repository; the agent may have pushed none, several, or elsewhere."""
        pushed = self.snapshot.branches if self.snapshot else ()
        ours = [b.name for b in pushed if b.name and same_repository(b.repository, self.repository)]
        return tuple(dict.fromkeys(ours))


def fail_without_run(failure: Failure, job: Job, duration: float, redactor: Redactor) -> Outcome:
    """Return the outcome of a job that has no run."""
    return Outcome(
        failure=_redact(failure, redactor),
        session=job.session,
        model=job.model,
        duration=duration,
        facts={"adopted": False},
    )


def _redact(failure: Failure | None, redactor: Redactor) -> Failure | None:
    return replace(failure, message=redactor.text(failure.message)) if failure else None
