"""The public interface, `from segue import …`; documented in `segue help python`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue import conformance
from segue.agents.local.launch import ProcessEnd
from segue.api import RunResult, open_store, run, run_async, run_program
from segue.domain import events
from segue.domain.delivery import Delivered, Feedback, FeedbackItem, FeedbackKind, Target
from segue.domain.errors import JudgeFailed, SearchFailed, SegueError, SourceError, Unavailable, UsageError
from segue.domain.events import Event, Recorded
from segue.domain.graph import Dependency
from segue.domain.job import Job, Limits, Mode, Prompt
from segue.domain.notification import AnswerButton, Notification, NotifyError
from segue.domain.options import Options, Secret
from segue.domain.outcome import Failure, FailureKind, Outcome, Usage
from segue.domain.part import Part, PartCommand, PartFiles, PartTable
from segue.domain.proof import CheckResult, Level, Proof
from segue.domain.run import Run, RunKind, RunState
from segue.domain.source import SourceHistory, SourceHook
from segue.domain.task import Completion, Notice, Task, TaskKind, TaskList, TaskStatus
from segue.domain.verdict import (
    Action,
    Criterion,
    CriterionVerdict,
    DismissReason,
    Evidence,
    Finding,
    Hit,
    Result,
    Review,
    Severity,
    Verdict,
)
from segue.ports import (
    Agent,
    Capabilities,
    Delivery,
    Handover,
    Installation,
    Judge,
    Notifier,
    Observer,
    Outline,
    Problem,
    Reviewer,
    ReviewSubject,
    Searcher,
    Source,
    SourceChange,
    SourceRequest,
)
from segue.store.store import Store
from segue.system.services import Services
from segue.view.load import load_view
from segue.view.run import RunView
from segue.view.task import TaskView

if TYPE_CHECKING:
    from segue.conformance import (
        check_agent,
        check_delivery,
        check_judge,
        check_notifier,
        check_reviewer,
        check_searcher,
        check_source,
        check_store,
    )


def __getattr__(name: str) -> Any:
    """Import a suite of the part conformance when it is first used."""
    if not name.startswith("check_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(conformance, name)


# fmt: off
__all__ = [
    "Action",
    "Agent",
    "AnswerButton",
    "Capabilities",
    "CheckResult",
    "Completion",
    "Criterion",
    "CriterionVerdict",
    "Delivered",
    "Delivery",
    "Dependency",
    "DismissReason",
    "Event",
    "Evidence",
    "Failure",
    "FailureKind",
    "Feedback",
    "FeedbackItem",
    "FeedbackKind",
    "Finding",
    "Handover",
    "Hit",
    "Installation",
    "Job",
    "Judge",
    "JudgeFailed",
    "Level",
    "Limits",
    "Mode",
    "Notice",
    "Notification",
    "Notifier",
    "NotifyError",
    "Observer",
    "Options",
    "Outcome",
    "Outline",
    "Part",
    "PartCommand",
    "PartFiles",
    "PartTable",
    "Problem",
    "ProcessEnd",
    "Prompt",
    "Proof",
    "Recorded",
    "Result",
    "Review",
    "ReviewSubject",
    "Reviewer",
    "Run",
    "RunKind",
    "RunResult",
    "RunState",
    "RunView",
    "SearchFailed",
    "Searcher",
    "Secret",
    "SegueError",
    "Services",
    "Severity",
    "Source",
    "SourceChange",
    "SourceError",
    "SourceHistory",
    "SourceHook",
    "SourceRequest",
    "Store",
    "Target",
    "Task",
    "TaskKind",
    "TaskList",
    "TaskStatus",
    "TaskView",
    "Unavailable",
    "Usage",
    "UsageError",
    "Verdict",
    "check_agent",
    "check_delivery",
    "check_judge",
    "check_notifier",
    "check_reviewer",
    "check_searcher",
    "check_source",
    "check_store",
    "events",
    "load_view",
    "open_store",
    "run",
    "run_async",
    "run_program",
]
# fmt: on
