"""What the demo says about an event: a table of kinds of events, and words made of the event's own fields."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import click

from segue.cli.terminal.display import event_record
from segue.cli.terminal.output import Printer, clean, terminal_width
from segue.domain import events as e
from segue.domain.proof import CheckState
from segue.reports.event_text import describe_event

Caption = tuple[str, str]
"""Words and their colour; without words nothing is said."""
_NOTHING = ("", "")
_SIGNS = {"  +": "green", "  -": "red"}


class Narrator:
    """Prints captions on 80 columns, with the time since the first event."""

    def __init__(self, output: Printer) -> None:
        self._output, self._width = output, min(80, terminal_width() or 80)
        self._said: set[str] = set()
        self.told: defaultdict[type[e.Event], set[str]] = defaultdict(set)
        """Kinds of events about which something was said, and of which tasks; an empty one is the run."""
        self._diffs: dict[str, str] = {}
        self._first = self._last = 0

    def tell(self, recorded: e.Recorded) -> None:
        """Say what is to be said about an event, once: an agent that is adopted says everything again."""
        event = recorded.event
        self._first, self._last = self._first or recorded.ts, recorded.ts
        if self._output.json:
            self._output.record(event_record(recorded))
        words, colour = make_caption(recorded)
        if words and words not in self._said:
            self._said.add(words)
            self.told[type(event)].add(_task(recorded))
            self.say(words, colour)
            changes = self._diffs.get(event.task, "") if isinstance(event, e.CheckRun) else ""
            for line in pick_changes(changes):
                self.say(line, _SIGNS.get(line[:3], ""), " " * 9)
        if isinstance(event, e.PatchMade):
            self._diffs[event.task] = event.diff

    def say(self, words: str, colour: str = "", lead: str | None = None) -> None:
        """Print words after the time, or after another lead."""
        lead = f"{(self._last - self._first) / 1000:5.1f} s  " if lead is None else lead
        lines = textwrap.wrap(clean(words), self._width - len(lead))
        self._output.painted(lead + self._paint(("\n" + " " * len(lead)).join(lines), colour))

    def head(self, words: str) -> None:
        """Print a heading."""
        self._output.painted("\n" + self._paint(words, "bold"))

    def _paint(self, text: str, colour: str) -> str:
        if not (colour and self._output.colored()):
            return text
        return click.style(text, bold=True) if colour == "bold" else click.style(text, fg=colour)


def pick_changes(diff: str) -> Iterator[str]:
    """Yield what a diff changes in files that were there before: their names, and the changed lines."""
    for file in diff.split("diff --git ")[1:]:
        head, *hunks = file.split("\n@@ ")
        if "\nnew file " not in head:
            yield head.splitlines()[0].partition(" b/")[2]
            lines = (line for hunk in hunks for line in hunk.splitlines()[1:])
            yield from (f"  {line[0]} {line[1:].strip()}" for line in lines if line[:1] in "+-" and line[1:])


def make_caption(recorded: e.Recorded) -> Caption:
    """Return what the demo says about an event."""
    make = _CAPTIONS.get(type(recorded.event))
    return make(recorded.event, recorded) if make else _NOTHING


def _describe_check(event: e.CheckRun, _at: e.Recorded) -> Caption:
    found = event.result
    if found is None or found.ok:
        return _NOTHING
    caught = found.state is CheckState.REFUTED
    said = f"CAUGHT by {event.command}." if caught else f"{event.command}: {found.state or 'failed'}."
    return f"Task {event.task}: {said} {found.reason}", "red"


def _describe_step(event: e.StepStarted, _at: e.Recorded) -> Caption:
    if event.phase == "resolve":
        return f"Task {event.task}: the agent is sent back to fix it.", "yellow"
    again = event.phase == "execute" and event.attempt > 1
    return (f"Task {event.task}: attempt {event.attempt} begins.", "yellow") if again else _NOTHING


def _describe_agent(event: e.AgentEnded, at: e.Recorded) -> Caption:
    if event.failure is not None:
        return f"Task {_task(at)}: the agent failed: {event.failure.message}", "red"
    words = f"Task {_task(at)}: its agent outlived Segue: found again, not started twice."
    return (words, "cyan") if event.was_adopted else _NOTHING


def _task(recorded: e.Recorded) -> str:
    parts = (recorded.step or "").split("/")
    return getattr(recorded.event, "task", None) or (parts[1] if parts[0] == "task" else "")


def _describe(colour: str) -> Callable[[Any, e.Recorded], Caption]:
    """Return a caption with the words of the log."""
    return lambda _, at: ((words := describe_event(at) or "")[:1].upper() + words[1:], colour)


_CAPTIONS: dict[type[e.Event], Callable[[Any, e.Recorded], Caption]] = {
    e.TaskStarted: lambda v, _: (
        f"Task {v.task} begins{', in a git worktree of its own' if v.lane else ''}.",
        "",
    ),
    e.AgentText: lambda v, at: (f'Task {_task(at)}: the agent says "{v.text}"', ""),
    e.AgentEnded: _describe_agent,
    e.CheckRun: _describe_check,
    e.StepStarted: _describe_step,
    e.RunResumed: lambda v, _: ("A new Segue continues the run.", "cyan") if v.last_seen else _NOTHING,
    e.TaskEnded: lambda v, at: _describe("green" if v.done else "red")(v, at),
    e.WorkDelivered: _describe("green"),
    e.RunEnded: lambda v, at: _NOTHING if v.state == "done" else _describe("red")(v, at),
    **dict.fromkeys((e.RunParked, e.WaitBegan, e.WaitEnded, e.AgentReplaced), _describe("yellow")),
    **dict.fromkeys((e.TaskCollided, e.TaskBlocked, e.Tampered, e.NoticeGiven), _describe("yellow")),
}
"""What is said about each kind of event. Nothing else is said while the run works, but for the kill."""
