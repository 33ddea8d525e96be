"""Watches a run and notifies people when it needs them, waits for a usage limit, or has ended."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import queue
import threading
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.amounts import describe_until
from segue.domain.errors import SegueError
from segue.domain.events import AgentStuck, Recorded, RunEnded, RunParked, TaskEnded
from segue.domain.notification import Notification, NotificationKind
from segue.domain.question import is_question
from segue.domain.run import RunKind, RunSpec, RunState
from segue.features.notify.options import NotifySettings
from segue.features.notify.send import notify
from segue.ports import Notifier
from segue.reports.event_text import describe_event
from segue.system.redact import Redactor
from segue.view.run import RunView

if TYPE_CHECKING:
    from segue.runtime.app import App
    from segue.store.store import Store

_EXIT_TIMEOUT = 30.0
"""Seconds the end of a run waits for notifications that are being sent."""

_TOPIC = "notification"
_SENT = "SELECT 1 AS one FROM orchestrator_signals WHERE run_id = ? AND id = ?"


class _Due(Struct, frozen=True):
    """A notification of a run that may have been sent by an earlier session."""

    run: str
    key: str
    """What distinguishes it from the other notifications of the run."""
    notification: Notification


class RunNotifier:
    """An Observer that collects notifications, and a thread that sends them; use it as a context.

    What was sent is recorded in the store afterwards. A session killed in between sends again after the
    resume, under the same id; a session that finds the record sends nothing.
    """

    def __init__(
        self,
        notifiers: Mapping[str, Notifier],
        on: Collection[NotificationKind],
        titles: Mapping[str, str],
        open_store: Callable[[], Store],
        redactor: Redactor,
        warn: Callable[[str], None],
    ) -> None:
        """`titles` are those of the tasks known so far; `on` are the kinds that are sent."""
        self._notifiers = notifiers
        self._on = on
        self._view = RunView.of(titles)
        self._open_store = open_store
        self._redactor = redactor
        self._warn = warn
        self._asked = False
        self._queue: queue.SimpleQueue[_Due | None] = queue.SimpleQueue()
        self._problems: list[str] = []
        self._thread: threading.Thread | None = None

    def __enter__(self) -> RunNotifier:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._thread is None:
            return
        self._queue.put(None)
        self._thread.join(_EXIT_TIMEOUT)
        if self._thread.is_alive():
            self._warn(f"Some notifications were not sent within {_EXIT_TIMEOUT:g} s; they are dropped.")
        for problem in dict.fromkeys(list(self._problems)):
            self._warn(f"A notification could not be sent. {problem}")

    def __call__(self, event: Recorded) -> None:
        """Queue a notification if people should know of the event."""
        with contextlib.suppress(Exception):  # a notification must never break a run
            self._view.apply(event)
            if self._notifiers and isinstance(event.event, TaskEnded | RunParked | RunEnded | AgentStuck):
                self._take(event)

    def _take(self, event: Recorded) -> None:
        due = _report(event, self._view)
        if due is None or self._is_redundant(event):
            return
        self._asked = self._asked or due.notification.kind == "needs_human"
        if due.notification.kind in self._on:
            self._enqueue(due)

    def _is_redundant(self, event: Recorded) -> bool:
        """A run that ends because a task needs a human adds nothing to that task's notification."""
        ended = event.event
        needs_human = isinstance(ended, RunEnded) and ended.state == RunState.NEEDS_HUMAN
        return needs_human and self._asked and "needs_human" in self._on

    def _enqueue(self, due: _Due) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="segue-notifications", daemon=True)
            self._thread.start()
        self._queue.put(due)

    def _work(self) -> None:
        while (due := self._queue.get()) is not None:
            with contextlib.suppress(Exception):
                if not self._was_sent(due) and self._send(due):
                    self._record(due)

    def _was_sent(self, due: _Due) -> bool:
        try:
            with self._open_store() as store:
                return bool(store.query(_SENT, [due.run, due.key]))
        except SegueError:
            return False  # rather twice than never

    def _record(self, due: _Due) -> None:
        with self._open_store() as store:
            store.send(due.run, _TOPIC, {"title": self._redactor.text(due.notification.title)}, due.key)

    def _send(self, due: _Due) -> bool:
        """Send, and return whether at least one notifier succeeded."""
        delivery = hashlib.sha256(f"{due.run}/{due.key}".encode()).hexdigest()[:32]
        message = replace(due.notification, id=delivery)
        problems = asyncio.run(notify(self._notifiers, message, self._redactor))
        self._problems += problems
        return len(problems) < len(self._notifiers)


def _name_task(key: str, view: RunView) -> str:
    name, task = f"Task {key}", view.tasks.get(key)
    return f"{name} ({task.title})" if task and task.title != name else name


def _report(recorded: Recorded, view: RunView) -> _Due | None:
    """Return what people should know about an event; None: nothing."""
    match recorded.event:
        case TaskEnded(task) if view.tasks[task].state == "needs_human":
            return _report_task(recorded.run, recorded.seq, recorded.event, view)
        case AgentStuck(task, reason) if task and reason:
            text = f"{describe_event(recorded)}\nLook: segue logs {recorded.run} --task {task}"
            message = Notification("stuck", f"{_name_task(task, view)} seems stuck", text)
            return _Due(recorded.run, f"stuck/{recorded.seq}", message)
        case RunParked():
            return _report_parked(recorded.run, recorded.event, view)
        case RunEnded(state) if state != RunState.QUEUED:  # else another worker continues it
            return _report_run(recorded.run, recorded.seq, recorded.event)
    return None


def _report_task(run: str, seq: int, event: TaskEnded, view: RunView) -> _Due:
    details = f"Details: segue logs {run} --task {event.task}"
    if is_question(event.reason):
        details = f'Answer: segue task say {event.task} "…" --run {run}'
    next_steps = f"{details}\nContinue: segue resume {run}"
    message = Notification(
        "needs_human", f"{_name_task(event.task, view)} needs a human", f"{event.reason}\n{next_steps}"
    )
    return _Due(run, f"needs_human/{event.task}/{seq}", message)


def _report_parked(run: str, event: RunParked, view: RunView) -> _Due:
    text = f"{_name_task(event.task, view)} of run {run} continues automatically."
    message = Notification("parked", f"Usage limit: parked {describe_until(event.until)}", text)
    # A run that is resumed while it waits emits the event again: the key is the same.
    return _Due(run, f"parked/{event.task}/{event.until:.0f}", message)


def _report_run(run: str, seq: int, event: RunEnded) -> _Due:
    if event.state == RunState.NEEDS_HUMAN:
        message = Notification("needs_human", f"Run {run} needs a human", event.note)
    elif event.state == RunState.PARKED:
        text = f"{event.note}\nContinue: segue resume {run}"
        message = Notification("parked", f"Run {run} is parked", text)
    else:
        text = event.note or f"Details: segue status {run}"
        message = Notification("run_finished", f"Run {run}: {event.state}", text)
    return _Due(run, f"run/{seq}", message)


def make_notifiers(app: App) -> dict[str, Notifier]:
    """Build the notifiers that are switched on: those of `[notify]`, and every `[notifiers.NAME]`."""
    settings = app.loaded.settings
    own = settings.part("notify", NotifySettings).switched_on()
    tables: dict[str, Any] = {**own, **settings.part("notifiers", dict)}
    if not tables:
        return {}
    from segue.runtime import registry
    from segue.runtime.wiring import make_variant
    from segue.system.process.processes import Processes

    services, hint = app.services(Processes()), "See docs/guides/notifications.md"
    return {
        name: make_variant(
            registry.load("notifiers", name), table, f"notifiers.{name}", app.loaded, services, hint
        )
        for name, table in tables.items()
    }


def open_notifier(app: App, spec: RunSpec | None, warn: Callable[[str], None]) -> RunNotifier | None:
    """Build the observer that notifies people about a run; None if no notifier is switched on.

    A trial of an experiment waits for nobody: its failures are results.
    """
    is_trial = spec is not None and spec.kind is RunKind.TRIAL
    notifiers = {} if is_trial else make_notifiers(app)
    if not notifiers:
        return None
    on = app.loaded.settings.part("notify", NotifySettings).on
    titles = spec.titles if spec is not None else {}
    return RunNotifier(notifiers, on, titles, app.store, app.redactor(), warn)
