"""Watches a run and notifies people when it needs them, waits for a usage limit, or has ended."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from segue.domain.errors import SegueError
from segue.domain.event import EventType, Recorded
from segue.domain.run import RunState
from segue.notify.notification import Notification
from segue.notify.options import NotifySettings
from segue.notify.send import enabled_notifiers, notify
from segue.ports import Store
from segue.system.redact import Redactor

_EXIT_TIMEOUT = 30.0
"""Seconds the end of a run waits for notifications that are being sent."""

_TOPIC = "notification"
_SENT = "SELECT 1 AS one FROM orchestrator_signals WHERE run_id = ? AND id = ?"


@dataclass(frozen=True, slots=True)
class _Due:
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
        options: NotifySettings,
        titles: Mapping[str, str],
        open_store: Callable[[], Store],
        redactor: Redactor,
        warn: Callable[[str], None],
    ) -> None:
        self._options = options
        self._titles = titles
        self._open_store = open_store
        self._redactor = redactor
        self._warn = warn
        self._notifiers = len(enabled_notifiers(options))
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
        if self._notifiers and event.type in _NOTIFICATIONS:
            with contextlib.suppress(Exception):  # a notification must never break a run
                self._take(event)

    def _take(self, event: Recorded) -> None:
        due = _NOTIFICATIONS[event.type](event, self._titles)
        if due is None or (event.type == EventType.RUN_ENDED and self._is_redundant(event)):
            return
        self._asked = self._asked or due.notification.kind == "needs_human"
        if due.notification.kind in self._options.on:
            self._enqueue(due)

    def _is_redundant(self, event: Recorded) -> bool:
        """A run that ends because a task needs a human adds nothing to that task's notification."""
        asked = self._asked and "needs_human" in self._options.on
        return asked and event.data.get("state") == RunState.NEEDS_HUMAN

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
        problems = asyncio.run(notify(self._options, message, redactor=self._redactor))
        self._problems += problems
        return len(problems) < self._notifiers


def _describe_task(data: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    title = titles.get(str(data["task"]), "")
    return f"Task {data['task']}" + (f" ({title})" if title else "")


def _report_task(event: Recorded, titles: Mapping[str, str]) -> _Due | None:
    if event.data.get("done"):
        return None
    task = event.data["task"]
    next_steps = f"Details: segue logs {event.run} --task {task}\nContinue: segue resume {event.run}"
    message = Notification(
        "needs_human",
        f"{_describe_task(event.data, titles)} needs a human",
        f"{event.data.get('reason', '')}\n{next_steps}",
    )
    return _Due(event.run, f"needs_human/{task}/{event.seq}", message)


def _report_parked(event: Recorded, titles: Mapping[str, str]) -> _Due:
    until = float(event.data["until"])
    when = time.strftime("%Y-%m-%d %H:%M %Z", time.localtime(until))
    text = f"{_describe_task(event.data, titles)} of run {event.run} continues automatically."
    message = Notification("parked", f"Usage limit: parked until {when}", text)
    # A run that is resumed while it waits emits the event again: the key is the same.
    return _Due(event.run, f"parked/{event.data['task']}/{until:.0f}", message)


def _report_run(event: Recorded, _titles: Mapping[str, str]) -> _Due:
    state, note = str(event.data["state"]), str(event.data.get("note", ""))
    if state == RunState.NEEDS_HUMAN:
        message = Notification("needs_human", f"Run {event.run} needs a human", note)
    else:
        text = note or f"Details: segue status {event.run}"
        message = Notification("run_finished", f"Run {event.run}: {state}", text)
    return _Due(event.run, f"run/{event.seq}", message)


_NOTIFICATIONS: dict[str, Callable[[Recorded, Mapping[str, str]], _Due | None]] = {
    EventType.TASK_ENDED: _report_task,
    EventType.RUN_PARKED: _report_parked,
    EventType.RUN_ENDED: _report_run,
}
