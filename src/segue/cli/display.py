"""What a person sees while a run works: a live table on a terminal, one line per event otherwise."""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from segue.cli.output import Output, animated, one_line
from segue.cli.show import duration
from segue.domain.event import EventType, Recorded
from segue.ports import Observer

if TYPE_CHECKING:
    from rich.console import RenderableType

_ROWS = 20
"""How many tasks the live table shows at once; the rest is counted in its footer."""


def sentence(event: Recorded) -> str | None:
    """An event as one line for people; None when it is of no interest to them."""
    make = _SENTENCES.get(event.type)
    return make(event.data) if make else None


def _diagnosed(data: Any) -> str:
    ending = f"exit code {data['exit_code']}" if data["allowed"] else f"not allowed: {data['reason']}"
    return f"diagnostic {data['command']}: {ending}"


def _finished(data: Any) -> str:
    if data.get("skipped"):
        return f"task {data['task']} {data.get('reason', 'skipped')}"
    if data.get("replanned"):
        return f"task {data['task']} {data.get('reason', 'planned anew')}"
    if data.get("done"):
        commit = data.get("commit")
        return f"task {data['task']} done" + (f" ({commit[:10]})" if commit else "")
    return f"task {data['task']} needs a human: {data.get('reason', '')}"


def _ended(data: Any) -> str:
    failure = data.get("failure")
    code = data.get("exit_code")
    ending = failure["kind"] if failure else ("finished" if code is None else f"exit code {code}")
    return f"agent ended: {ending}" + (" (adopted)" if data.get("adopted") else "")


def _verdict(data: Any) -> str:
    if data["result"] == "PASS":
        return "PASS"
    asked = f" → {data['action']} {data['request']}".rstrip() if data.get("request") else ""
    return f"{data['result']}: {data['reason']}{asked}"


def _reviewed(data: Any) -> str:
    if data.get("failure"):
        return f"reviewer failed: {data['failure']}"
    dismissed = f", {data['dismissed']} dismissed" if data.get("dismissed") else ""
    return f"{data['findings']} findings{dismissed}"


def _traced(data: Any) -> str:
    """A call of a model: what it asked on the way is indented."""
    part = f" ({data['part']})" if data["part"] else ""
    tokens = data["input_tokens"] + data["output_tokens"]
    used = f", {tokens} tokens{' (estimated)' if data['estimated'] else ''}" if tokens else ""
    cost = f", ${data['cost_usd']:.4f}" if data["cost_usd"] else ""
    ending = "" if data["ok"] else f": {data['failure'] or 'failed'}: {data['error']}"
    return f"{'› ' * data['depth']}{data['model']}{part} {duration(data['seconds'])}{used}{cost}{ending}"


def place(event: Recorded) -> str:
    """Where in a run an event belongs: `3 execute 1`."""
    parts = (event.step or "").split("/")
    if parts[0] in ("task", "final", "run", "turn"):
        return " ".join(parts[1:])
    return str(event.data.get("task", ""))


_SENTENCES: dict[str, Any] = {
    EventType.RUN_STARTED: lambda d: f"run started: {d['source']} with {d['agent']}",
    EventType.RUN_RESUMED: lambda d: f"run goes on: {d['source']} with {d['agent']}",
    EventType.RUN_PARKED: lambda d: (
        f"usage limit: task {d['task']} waits until {time.strftime('%H:%M:%S', time.localtime(d['until']))}"
    ),
    EventType.RUN_ENDED: lambda d: f"run ended: {d['state']}",
    EventType.STATE_IMPORTED: lambda d: f"state adopted: {d['text']}",
    EventType.NOTICE: lambda d: f"line {d['line']}: {d['text']}" if "line" in d else d["text"],
    EventType.TASK_STARTED: lambda d: f"task {d['task']} started: {d['title']}",
    EventType.TASK_ENDED: _finished,
    EventType.STEP_ADOPTED: lambda _: "goes on where it was interrupted",
    EventType.PLAN_REVISED: lambda d: f"plan of {len(d['new'])} steps: {d['reason']}",
    EventType.FALLBACK: lambda d: f"{d['agent']} cannot work ({d['reason']}): {d['next']} takes over",
    EventType.CHECK: lambda d: f"check {d['command']}: exit code {d['exit_code']}",
    EventType.SEARCH: lambda d: f"searched {d['query']!r}: {d['failure'] or len(d['results'])} results",
    EventType.DIAGNOSTIC: _diagnosed,
    EventType.COMMIT: lambda d: f"committed {d['commit'][:10]}",
    EventType.AGENT_STARTED: lambda d: f"agent started: {Path(str(d.get('argv0', ''))).name}",
    EventType.AGENT_TEXT: lambda d: f"agent: {d.get('text', '')}",
    EventType.AGENT_TOOL: lambda d: f"agent uses {d.get('name')} {d.get('input', '')}",
    EventType.AGENT_OUTPUT: lambda d: f"agent prints: {d.get('text', '')}" if d.get("text") else None,
    EventType.AGENT_ENDED: _ended,
    EventType.VERDICT: _verdict,
    EventType.REVIEW: _reviewed,
    EventType.TRACE_SPAN: _traced,
    EventType.BRIDGE_TURN: lambda d: f"turn {d['turn']} of the conversation",
    EventType.BRIDGE_COMMAND: lambda d: f"command: {d['line']}",
    EventType.BRIDGE_SKIPPED: lambda d: f"line {d['line']} is no command: {d['reason']}",
    EventType.BRIDGE_RESULT: lambda d: f"{d['status']} {d.get('reason') or d.get('branch') or ''}".rstrip(),
    EventType.BRIDGE_REMINDER: lambda d: f"reminder {'sent' if d['told'] else 'set'}: {d['message']}",
    EventType.BRIDGE_WEBHOOK: lambda d: f"webhook {d['direction']}: {d['agent_id']} {d['outcome']}",
    EventType.FINAL: lambda d: f"{d['command']}: exit code {d['exit_code']}",
}


@dataclass(slots=True)
class Lines:
    """One timestamped line per event, on stderr."""

    verbose: bool = False

    def __call__(self, event: Recorded) -> None:
        """Print the event if it interests a person."""
        chatter = event.type in (EventType.AGENT_OUTPUT, EventType.AGENT_TOOL, EventType.AGENT_TEXT)
        text = None if chatter and not self.verbose else sentence(event)
        if text:
            stamp = time.strftime("%H:%M:%S", time.localtime(event.ts / 1000))
            click.echo(f"{stamp} {place(event):12} {one_line(text, 200)}", err=True)

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


@dataclass(slots=True)
class JsonLines:
    """One JSON record per event, on stdout."""

    output: Output

    def __call__(self, event: Recorded) -> None:
        """Print the event."""
        record = {"type": "event", "run": event.run, "seq": event.seq, "ts": event.ts, "step": event.step}
        self.output.record({**record, "event": event.type, "data": dict(event.data)})

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


@dataclass(slots=True)
class _Row:
    key: str
    title: str
    state: str = "pending"
    phase: str = ""
    attempt: str = ""
    started: float | None = None
    ended: float | None = None
    last: str = ""


@dataclass(slots=True)
class LiveTable:
    """A row per task, redrawn while the run works, on stderr."""

    titles: dict[str, str]
    run: str
    rows: dict[str, _Row] = field(default_factory=dict)
    current: _Row | None = None
    _live: Any = None

    def __call__(self, event: Recorded) -> None:
        """Take the event into the table."""
        data = event.data
        if event.type == EventType.PLAN_REVISED:
            self.rows |= {k: _Row(k, title) for k, title in data["titles"].items() if k not in self.rows}
        if event.type == EventType.TASK_STARTED:
            self.current = self.rows.setdefault(data["task"], _Row(data["task"], data["title"]))
            self.current.state, self.current.started = "running", event.ts / 1000
        if self.current is None:
            return
        if event.type == EventType.AGENT_STARTED:
            self.current.phase, self.current.attempt = place(event).split()[-2:]
        if event.type == EventType.TASK_ENDED:
            self.current.state = "done" if data["done"] else "needs_human"
            self.current.ended = event.ts / 1000
        if event.type == EventType.RUN_PARKED:
            self.current.state = "parked"
        elif event.type == EventType.AGENT_STARTED:
            self.current.state = "running"
        self.current.last = sentence(event) or self.current.last

    def __enter__(self) -> LiveTable:
        from rich.console import Console
        from rich.live import Live

        self.rows = {key: _Row(key, title) for key, title in self.titles.items()}
        console = Console(stderr=True)
        self._live = Live(get_renderable=self.render, console=console, refresh_per_second=8, transient=True)
        self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.stop()

    def render(self) -> RenderableType:
        """The table as it is now."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        from segue.cli.output import STYLES

        table = Table(
            "task", "title", "state", "phase", "attempt", "time", "last activity", box=box.SIMPLE_HEAD
        )
        for row in self._window():
            until = row.ended or time.time()
            elapsed = duration(until - row.started) if row.started else ""
            table.add_row(
                row.key,
                Text(one_line(row.title, 40)),
                Text(row.state, style=STYLES.get(row.state, "")),
                row.phase,
                row.attempt,
                elapsed,
                Text(one_line(row.last, 60), style="dim"),
            )
        counts = Counter(row.state for row in self.rows.values())
        said = " · ".join(f"{count} {state}" for state, count in sorted(counts.items()))
        table.caption = f"run {self.run} · {said} · Ctrl-C stops and saves"
        return table

    def _window(self) -> list[_Row]:
        """The rows around the current task."""
        rows = list(self.rows.values())
        if len(rows) <= _ROWS or self.current is None:
            return rows[:_ROWS]
        place = next((i for i, row in enumerate(rows) if row is self.current), 0)
        first = max(0, min(place - _ROWS // 2, len(rows) - _ROWS))
        return rows[first : first + _ROWS]


def observer(output: Output, titles: dict[str, str], run: str, verbose: bool) -> Any:
    """The display that fits where the output goes; a context manager that is an Observer."""
    if output.json:
        return JsonLines(output)
    if output.quiet:
        return Silent()
    if animated(sys.stderr) and not verbose:
        return LiveTable(titles, run)
    return Lines(verbose)


class Silent:
    """Shows nothing."""

    def __call__(self, event: Recorded) -> None:
        """See nothing."""

    def __enter__(self) -> Observer:
        return self

    def __exit__(self, *exc: object) -> None:
        pass
