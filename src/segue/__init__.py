"""Segue runs a list of tasks with coding agents until each one is done and proven.

This page is the public interface: everything in `__all__` is documented in docs/python.md and stays
compatible within a major version. Names are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from segue.agents.local.launch import ProcessEnd as ProcessEnd
    from segue.api import RunResult as RunResult
    from segue.api import open_store as open_store
    from segue.api import run as run
    from segue.api import run_async as run_async
    from segue.api import run_program as run_program
    from segue.conformance.agent import check_agent as check_agent
    from segue.conformance.judge import check_judge as check_judge
    from segue.conformance.notifier import check_notifier as check_notifier
    from segue.conformance.reviewer import check_reviewer as check_reviewer
    from segue.conformance.searcher import check_searcher as check_searcher
    from segue.conformance.source import check_source as check_source
    from segue.conformance.store import check_store as check_store
    from segue.domain import events as events
    from segue.domain.criterion import Criterion as Criterion
    from segue.domain.criterion import CriterionVerdict as CriterionVerdict
    from segue.domain.errors import JudgeFailed as JudgeFailed
    from segue.domain.errors import SearchFailed as SearchFailed
    from segue.domain.errors import SegueError as SegueError
    from segue.domain.errors import SourceError as SourceError
    from segue.domain.errors import UsageError as UsageError
    from segue.domain.events import Event as Event
    from segue.domain.events import Recorded as Recorded
    from segue.domain.evidence import Evidence as Evidence
    from segue.domain.failure import Failure as Failure
    from segue.domain.failure import FailureKind as FailureKind
    from segue.domain.finding import Finding as Finding
    from segue.domain.finding import Review as Review
    from segue.domain.finding import Severity as Severity
    from segue.domain.job import Job as Job
    from segue.domain.job import Mode as Mode
    from segue.domain.notification import Notification as Notification
    from segue.domain.notification import NotifyError as NotifyError
    from segue.domain.options import Options as Options
    from segue.domain.options import Secret as Secret
    from segue.domain.outcome import Outcome as Outcome
    from segue.domain.outcome import Usage as Usage
    from segue.domain.run import Run as Run
    from segue.domain.run import RunKind as RunKind
    from segue.domain.run import RunState as RunState
    from segue.domain.task import Completion as Completion
    from segue.domain.task import Task as Task
    from segue.domain.task import TaskList as TaskList
    from segue.domain.task import TaskStatus as TaskStatus
    from segue.domain.verdict import Action as Action
    from segue.domain.verdict import Result as Result
    from segue.domain.verdict import Verdict as Verdict
    from segue.ports import Agent as Agent
    from segue.ports import Capabilities as Capabilities
    from segue.ports import Hit as Hit
    from segue.ports import Installation as Installation
    from segue.ports import Judge as Judge
    from segue.ports import Notifier as Notifier
    from segue.ports import Problem as Problem
    from segue.ports import Reviewer as Reviewer
    from segue.ports import ReviewSubject as ReviewSubject
    from segue.ports import Searcher as Searcher
    from segue.ports import Source as Source
    from segue.ports import SourceRequest as SourceRequest
    from segue.ports import Store as Store
    from segue.system.services import Services as Services
    from segue.view.load import load_view as load_view
    from segue.view.run import RunView as RunView
    from segue.view.run import TaskView as TaskView

_PLACES = {
    "segue.api": "RunResult open_store run run_async run_program",
    "segue.agents.local.launch": "ProcessEnd",
    "segue.conformance.agent": "check_agent",
    "segue.conformance.judge": "check_judge",
    "segue.conformance.notifier": "check_notifier",
    "segue.conformance.reviewer": "check_reviewer",
    "segue.conformance.searcher": "check_searcher",
    "segue.conformance.source": "check_source",
    "segue.conformance.store": "check_store",
    "segue.domain": "events",
    "segue.domain.criterion": "Criterion CriterionVerdict",
    "segue.domain.errors": "JudgeFailed SearchFailed SegueError SourceError UsageError",
    "segue.domain.events": "Event Recorded",
    "segue.domain.evidence": "Evidence",
    "segue.domain.failure": "Failure FailureKind",
    "segue.domain.finding": "Finding Review Severity",
    "segue.domain.job": "Job Mode",
    "segue.domain.notification": "Notification NotifyError",
    "segue.domain.options": "Options Secret",
    "segue.domain.outcome": "Outcome Usage",
    "segue.domain.run": "Run RunKind RunState",
    "segue.domain.task": "Completion Task TaskList TaskStatus",
    "segue.domain.verdict": "Action Result Verdict",
    "segue.ports": "Agent Capabilities Hit Installation Judge Notifier Problem Reviewer ReviewSubject"
    " Searcher Source SourceRequest Store",
    "segue.system.services": "Services",
    "segue.view.load": "load_view",
    "segue.view.run": "RunView TaskView",
}
_NAMES = {name: module for module, listed in _PLACES.items() for name in listed.split()}

__all__ = ["__version__", *sorted(_NAMES)]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _NAMES:
        raise AttributeError(f"module 'segue' has no attribute {name!r}")
    module = import_module(_NAMES[name])
    value = import_module(f"{_NAMES[name]}.{name}") if name == "events" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
