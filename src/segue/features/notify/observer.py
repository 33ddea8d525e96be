"""Watches a run and notifies people when it needs them, waits for a usage limit, or has ended."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from segue.domain.amounts import describe_until
from segue.domain.errors import SegueError
from segue.domain.events import AgentStuck, Recorded, RunEnded, RunParked, TaskEnded, TaskStarted
from segue.domain.exits import is_question
from segue.domain.notification import Notification, NotificationKind
from segue.domain.run import RunKind, RunSpec, RunState
from segue.features.notify.send import Sender, make_sender
from segue.reports.event_text import describe_event

if TYPE_CHECKING:
    from segue.runtime.app import App
    from segue.store.store import Store

_EXIT_TIMEOUT = 10.0
"""Seconds the end of a run waits for what is being sent."""
_END_KINDS: dict[str, NotificationKind] = {
    RunState.NEEDS_HUMAN: "needs_human",
    RunState.PARKED: "parked",
}
_SENT = "SELECT 1 AS one FROM orchestrator_signals WHERE run_id = ? AND id = ?"


class _Due(NamedTuple):
    """A notification of a run; an earlier session may have sent it under the same key."""

    run: str
    key: str
    notification: Notification


class RunNotifier:
    """An Observer that collects notifications, and a thread that sends them; use it as a context.

    What was sent is recorded in the store, so that a resume does not repeat it. After a kill in between it is
    sent again: rather twice than never.
    """

    def __init__(self, sender: Sender, open_store: Callable[[], Store], warn: Callable[[str], None]) -> None:
        self._sender = sender
        self._open_store = open_store
        self._warn = warn
        self._titles: dict[str, str] = {}
        self._asked = False
        """Whether people were notified that a task needs a human."""
        self._queue: queue.SimpleQueue[_Due | None] = queue.SimpleQueue()
        self._problems: list[str] = []
        self._thread = threading.Thread(target=self._work, name="segue-notifications", daemon=True)

    def __enter__(self) -> RunNotifier:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._queue.put(None)
        self._thread.join(_EXIT_TIMEOUT)
        if self._thread.is_alive():
            self._warn(f"Some notifications were not sent within {_EXIT_TIMEOUT:g} s; they are dropped.")
        if self._problems:
            self._warn(f"A notification could not be sent. {' '.join(dict.fromkeys(self._problems))}")

    def __call__(self, event: Recorded) -> None:
        """Queue a notification if people should know of the event."""
        with contextlib.suppress(Exception):  # a notification must never break a run
            if isinstance(event.event, TaskStarted):
                if event.event.title != f"Task {event.event.task}":
                    self._titles[event.event.task] = event.event.title
            elif (due := self._report(event)) and due.notification.kind in self._sender.on:
                self._queue.put(due)

    def _report(self, recorded: Recorded) -> _Due | None:
        """Return what people should know about an event, if anything."""
        run, event = recorded.run, recorded.event
        match event:
            case TaskEnded(task) if not (event.done or event.skipped or event.replanned):
                self._asked = "needs_human" in self._sender.on
                details = f"Details: segue logs {run} --task {task}"
                if is_question(event.reason):
                    details = f'Answer: segue task say {task} "…" --run {run}'
                text = f"{event.reason}\n{details}\nContinue: segue resume {run}"
                message = Notification("needs_human", f"{self._name(task)} needs a human", text)
                return _Due(run, f"needs_human/{task}/{recorded.seq}", message)
            case AgentStuck(task, reason) if task and reason:
                text = f"{describe_event(recorded)}\nLook: segue logs {run} --task {task}"
                message = Notification("stuck", f"{self._name(task)} seems stuck", text)
                return _Due(run, f"stuck/{recorded.seq}", message)
            case RunParked(task=task, until=until):
                text = f"{self._name(task)} of run {run} continues automatically."
                message = Notification("parked", f"Usage limit: parked {describe_until(until)}", text)
                # A run that is resumed while it waits emits the event again: the key is the same.
                return _Due(run, f"parked/{task}/{until:.0f}", message)
            case RunEnded(state) if state != RunState.QUEUED:  # else another worker continues it
                if state == RunState.NEEDS_HUMAN and self._asked:
                    return None  # the notification of the task says more
                kind = _END_KINDS.get(state, "run_finished")
                text = event.note or f"Details: segue status {run}"
                return _Due(run, f"run/{recorded.seq}", Notification(kind, f"Run {run}: {state}", text))
        return None

    def _name(self, task: str) -> str:
        return f"Task {task} ({self._titles[task]})" if task in self._titles else f"Task {task}"

    def _work(self) -> None:
        while (due := self._queue.get()) is not None:
            with contextlib.suppress(Exception):
                self._send(due)

    def _send(self, due: _Due) -> None:
        """Send it, unless an earlier session did."""
        with self._open_store() as store:
            with contextlib.suppress(SegueError):  # rather twice than never
                if store.query(_SENT, [due.run, due.key]):
                    return
            problems = asyncio.run(self._sender.send(due.notification))
            self._problems += problems
            if len(problems) < len(self._sender.services):
                title, _ = self._sender.make_harmless(due.notification)
                store.send(due.run, "notification", {"title": title}, due.key)


def open_notifier(app: App, spec: RunSpec | None, warn: Callable[[str], None]) -> RunNotifier | None:
    """Return the observer that notifies people about a run; None without addresses.

    A trial of an experiment waits for nobody: its failures are results.
    """
    if spec is not None and spec.kind is RunKind.TRIAL:
        return None
    sender = make_sender(app)
    return RunNotifier(sender, app.store, warn) if sender.services else None
