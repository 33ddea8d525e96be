"""Describes events for people, in the same words in the terminal, in logs and on the page."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from segue.domain.event import EventType, Recorded
from segue.reports.formatting import format_duration


def describe_event(event: Recorded) -> str | None:
    """Describe an event in one line; None if it is of no interest to people."""
    describe = _DESCRIPTIONS.get(event.type)
    return describe(event.data) if describe else None


def _describe_diagnostic(data: Any) -> str:
    ending = f"exit code {data['exit_code']}" if data["allowed"] else f"not allowed: {data['reason']}"
    return f"diagnostic {data['command']}: {ending}"


def _describe_task_end(data: Any) -> str:
    if data.get("skipped"):
        return f"task {data['task']} {data.get('reason', 'skipped')}"
    if data.get("replanned"):
        return f"task {data['task']} {data.get('reason', 'replanned')}"
    if data.get("done"):
        commit = data.get("commit")
        return f"task {data['task']} done" + (f" ({commit[:10]})" if commit else "")
    return f"task {data['task']} needs a human: {data.get('reason', '')}"


def _describe_agent_end(data: Any) -> str:
    failure = data.get("failure")
    code = data.get("exit_code")
    ending = failure["kind"] if failure else ("finished" if code is None else f"exit code {code}")
    return f"agent ended: {ending}" + (" (adopted)" if data.get("adopted") else "")


def _describe_verdict(data: Any) -> str:
    if data["result"] == "PASS":
        return "PASS"
    asked = f" → {data['action']} {data['request']}".rstrip() if data.get("request") else ""
    return f"{data['result']}: {data['reason']}{asked}"


def _describe_review(data: Any) -> str:
    if data.get("failure"):
        return f"reviewer failed: {data['failure']}"
    dismissed = f", {data['dismissed']} dismissed" if data.get("dismissed") else ""
    return f"{data['findings']} findings{dismissed}"


def _describe_span(data: Any) -> str:
    """Describe a model call; nested calls are indented."""
    part = f" ({data['part']})" if data["part"] else ""
    tokens = data["input_tokens"] + data["output_tokens"]
    used = f", {tokens} tokens{' (estimated)' if data['estimated'] else ''}" if tokens else ""
    cost = f", ${data['cost_usd']:.4f}" if data["cost_usd"] else ""
    ending = "" if data["ok"] else f": {data['failure'] or 'failed'}: {data['error']}"
    return (
        f"{'› ' * data['depth']}{data['model']}{part} {format_duration(data['seconds'])}{used}{cost}{ending}"
    )


def _pick_input(given: Any) -> Any:
    """Return the most informative part of the input of a tool, or all of it."""
    known = given if isinstance(given, Mapping) else {}
    return next((known[name] for name in _INFORMATIVE if known.get(name)), given)


def locate_event(event: Recorded) -> str:
    """Return where in a run an event belongs: `3 execute 1`."""
    parts = (event.step or "").split("/")
    if parts[0] in ("task", "final", "run", "turn"):
        return " ".join(parts[1:])
    return str(event.data.get("task", ""))


_INFORMATIVE = ("path", "file_path", "command", "pattern", "query", "url", "description")
"""The most informative inputs of tools, best first."""

_DESCRIPTIONS: dict[str, Any] = {
    EventType.RUN_STARTED: lambda d: f"run started: {d['source']} with {d['agent']}",
    EventType.RUN_RESUMED: lambda d: f"run resumed: {d['source']} with {d['agent']}",
    EventType.RUN_PARKED: lambda d: (
        f"usage limit: task {d['task']} waits until {time.strftime('%H:%M:%S', time.localtime(d['until']))}"
    ),
    EventType.RUN_ENDED: lambda d: f"run ended: {d['state']}",
    EventType.STATE_IMPORTED: lambda d: f"state imported: {d['text']}",
    EventType.NOTICE: lambda d: f"line {d['line']}: {d['text']}" if "line" in d else d["text"],
    EventType.TASK_STARTED: lambda d: f"task {d['task']} started: {d['title']}",
    EventType.TASK_ENDED: _describe_task_end,
    EventType.STEP_ADOPTED: lambda _: "continues where it was interrupted",
    EventType.PLAN_REVISED: lambda d: f"plan of {len(d['new'])} steps: {d['reason']}",
    EventType.FALLBACK: lambda d: f"{d['agent']} is unavailable ({d['reason']}): switched to {d['next']}",
    EventType.CHECK: lambda d: f"check {d['command']}: exit code {d['exit_code']}",
    EventType.SEARCH: lambda d: f"searched {d['query']!r}: {d['failure'] or len(d['results'])} results",
    EventType.DIAGNOSTIC: _describe_diagnostic,
    EventType.COMMIT: lambda d: f"committed {d['commit'][:10]}",
    EventType.AGENT_STARTED: lambda d: f"agent started: {Path(str(d.get('argv0', ''))).name}",
    EventType.AGENT_TEXT: lambda d: f"agent: {d.get('text', '')}",
    EventType.AGENT_TOOL: lambda d: f"agent uses {d.get('name')} {_pick_input(d.get('input', ''))}".rstrip(),
    EventType.AGENT_OUTPUT: lambda d: f"agent prints: {d.get('text', '')}" if d.get("text") else None,
    EventType.AGENT_ENDED: _describe_agent_end,
    EventType.VERDICT: _describe_verdict,
    EventType.REVIEW: _describe_review,
    EventType.TRACE_SPAN: _describe_span,
    EventType.BRIDGE_TURN: lambda d: f"turn {d['turn']} of the conversation",
    EventType.BRIDGE_COMMAND: lambda d: f"command: {d['line']}",
    EventType.BRIDGE_SKIPPED: lambda d: f"line {d['line']} is not a command: {d['reason']}",
    EventType.BRIDGE_RESULT: lambda d: f"{d['status']} {d.get('reason') or d.get('branch') or ''}".rstrip(),
    EventType.BRIDGE_REMINDER: lambda d: f"reminder {'sent' if d['told'] else 'set'}: {d['message']}",
    EventType.BRIDGE_WEBHOOK: lambda d: f"webhook {d['direction']}: {d['agent_id']} {d['outcome']}",
    EventType.FINAL: lambda d: f"{d['command']}: exit code {d['exit_code']}",
}
