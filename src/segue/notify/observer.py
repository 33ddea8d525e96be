"""Watches a run and tells people when it needs them, waits for a usage limit, or has ended."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from segue.domain.event import EventType, Recorded
from segue.domain.run import RunState
from segue.notify.notice import Notice
from segue.notify.options import NotifySettings
from segue.notify.send import configured, notify
from segue.system.redact import Redactor

_LAST_WORDS = 30.0
"""Seconds the end of a run waits for notices that are on their way."""


class RunNotices:
    """An Observer that collects, and a thread that sends; use it as a context."""

    def __init__(
        self,
        options: NotifySettings,
        titles: Mapping[str, str],
        noted: Path,
        redactor: Redactor,
        warn: Callable[[str], None],
    ) -> None:
        """`noted` is the file that remembers across restarts what was told."""
        self._options = options
        self._titles = titles
        self._noted = noted
        self._redactor = redactor
        self._warn = warn
        self._wanted = bool(configured(options))
        self._asked = False
        self._waiting: queue.SimpleQueue[Notice | None] = queue.SimpleQueue()
        self._problems: list[str] = []
        self._thread: threading.Thread | None = None

    def __enter__(self) -> RunNotices:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._thread is None:
            return
        self._waiting.put(None)
        self._thread.join(_LAST_WORDS)
        if self._thread.is_alive():
            self._warn("Some notices are still on their way and are given up.")
        for problem in dict.fromkeys(list(self._problems)):
            self._warn(f"A notice could not be sent. {problem}")

    def __call__(self, event: Recorded) -> None:
        """Take the event, if people should know of it."""
        if self._wanted and event.type in _MAKERS:
            with contextlib.suppress(Exception):  # a notice is never worth a run
                self._take(event)

    def _take(self, event: Recorded) -> None:
        key, notice = _MAKERS[event.type](event, self._titles)
        if notice is None or (event.type == EventType.RUN_ENDED and self._said_already(event)):
            return
        self._asked = self._asked or notice.kind == "needs_human"
        if notice.kind in self._options.on and self._first_time(key):
            self._send(notice)

    def _said_already(self, event: Recorded) -> bool:
        """A run that ends because a task needs a human has nothing to add to that task's notice."""
        told = self._asked and "needs_human" in self._options.on
        return told and event.data.get("state") == RunState.NEEDS_HUMAN

    def _first_time(self, key: str) -> bool:
        """Note it before it is sent: after a crash a notice may be missing, but never comes twice."""
        try:
            with self._noted.open("a+", encoding="utf-8") as file:
                file.seek(0)
                if f"{key}\n" in file.readlines():
                    return False
                file.write(f"{key}\n")
        except OSError:
            pass  # without a note it is better told twice than never
        return True

    def _send(self, notice: Notice) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="segue-notices", daemon=True)
            self._thread.start()
        self._waiting.put(notice)

    def _work(self) -> None:
        while (notice := self._waiting.get()) is not None:
            with contextlib.suppress(Exception):
                sending = notify(self._options, notice, redactor=self._redactor)
                self._problems += asyncio.run(sending)


Made = tuple[str, Notice | None]
"""What tells this notice from others of the run, and the notice."""


def _task(data: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    title = titles.get(str(data["task"]), "")
    return f"Task {data['task']}" + (f" ({title})" if title else "")


def _task_ended(event: Recorded, titles: Mapping[str, str]) -> Made:
    if event.data.get("done"):
        return "", None
    hint = f"Look: segue logs {event.run} --task {event.data['task']}\nGo on: segue resume {event.run}"
    text = f"{event.data.get('reason', '')}\n{hint}"
    title = f"{_task(event.data, titles)} needs a human"
    return f"needs_human/{event.data['task']}/{event.seq}", Notice("needs_human", title, text)


def _parked(event: Recorded, titles: Mapping[str, str]) -> Made:
    until = float(event.data["until"])
    when = time.strftime("%Y-%m-%d %H:%M %Z", time.localtime(until))
    title = f"Usage limit: parked until {when}"
    text = f"{_task(event.data, titles)} of run {event.run} goes on by itself."
    # A run that is resumed while it waits says so again: that is the same thing.
    return f"parked/{event.data['task']}/{until:.0f}", Notice("parked", title, text)


def _run_ended(event: Recorded, _titles: Mapping[str, str]) -> Made:
    state, note = str(event.data["state"]), str(event.data.get("note", ""))
    key = f"run/{event.seq}"
    if state == RunState.NEEDS_HUMAN:
        return key, Notice("needs_human", f"Run {event.run} needs a human", note)
    return key, Notice("run_finished", f"Run {event.run}: {state}", note or f"See: segue status {event.run}")


_MAKERS: dict[str, Callable[[Recorded, Mapping[str, str]], Made]] = {
    EventType.TASK_ENDED: _task_ended,
    EventType.RUN_PARKED: _parked,
    EventType.RUN_ENDED: _run_ended,
}
