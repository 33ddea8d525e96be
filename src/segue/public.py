"""The public interface, `from segue import …`; documented in `docs/reference/python.md`."""

from __future__ import annotations

from segue.agents.local.launch import ProcessEnd
from segue.api import RunResult, open_store, run, run_async, run_program
from segue.domain import events
from segue.domain.delivery import Delivered, Feedback, FeedbackItem, FeedbackKind, Target
from segue.domain.errors import JudgeFailed, SegueError, SourceError, Unavailable, UsageError
from segue.domain.events import Event, Recorded
from segue.domain.graph import Dependency
from segue.domain.job import Job, Limits, Mode, Prompt
from segue.domain.notification import Notification, NotifyError
from segue.domain.options import Options, Secret
from segue.domain.outcome import Failure, FailureKind, Outcome, Usage
from segue.domain.proof import CheckResult, Level, Proof
from segue.domain.run import Run, RunKind, RunState
from segue.domain.source import SourceHistory
from segue.domain.task import Completion, Notice, Task, TaskKind, TaskList, TaskStatus
from segue.domain.verdict import (
    Action,
    Criterion,
    CriterionVerdict,
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
    Source,
    SourceChange,
    SourceRequest,
)
from segue.store.store import Store
from segue.system.services import Services
from segue.view.load import load_view
from segue.view.run import RunView
from segue.view.task import TaskView

# fmt: off
__all__ = [
    "Action",
    "Agent",
    "Capabilities",
    "CheckResult",
    "Completion",
    "Criterion",
    "CriterionVerdict",
    "Delivered",
    "Delivery",
    "Dependency",
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
    "Secret",
    "SegueError",
    "Services",
    "Severity",
    "Source",
    "SourceChange",
    "SourceError",
    "SourceHistory",
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
    "events",
    "load_view",
    "open_store",
    "run",
    "run_async",
    "run_program",
]
# fmt: on
