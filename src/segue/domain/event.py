"""An event: one thing observed. Store, terminal and log all subscribe to the same values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from segue.domain.outcome import Outcome

Json = Mapping[str, Any]


class EventType(StrEnum):
    """Every kind of event. Agents emit `agent.…`, the provider `trace.…`; the flow emits the rest."""

    RUN_STARTED = "run.started"
    RUN_RESUMED = "run.resumed"
    RUN_PARKED = "run.parked"
    RUN_ENDED = "run.ended"
    STATE_IMPORTED = "state.imported"
    NOTICE = "notice"
    TASK_STARTED = "task.started"
    TASK_MARKED = "task.marked"
    TASK_ENDED = "task.ended"
    STEP_STARTED = "step.started"
    STEP_ADOPTED = "step.adopted"
    STEP_ENDED = "step.ended"
    PROMPT = "prompt"
    VERDICT = "verdict"
    ERROR = "error"
    CHECK = "check"
    SEARCH = "search"
    DIAGNOSTIC = "diagnostic"
    PLAN_REVISED = "plan.revised"
    FALLBACK = "fallback"
    COMMIT = "commit"
    REVIEW = "review"
    FINAL = "final"
    BRIDGE_TURN = "bridge.turn"
    BRIDGE_COMMAND = "bridge.command"
    BRIDGE_SKIPPED = "bridge.skipped"
    BRIDGE_RESULT = "bridge.result"
    BRIDGE_REMINDER = "bridge.reminder"
    BRIDGE_WEBHOOK = "bridge.webhook"
    AGENT_STARTED = "agent.started"
    AGENT_TEXT = "agent.text"
    AGENT_TOOL = "agent.tool"
    AGENT_OUTPUT = "agent.output"
    AGENT_USAGE = "agent.usage"
    AGENT_RAW = "agent.raw"
    AGENT_ENDED = "agent.ended"
    TRACE_SPAN = "trace.span"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing observed. The last event of an agent's run carries its outcome."""

    type: EventType
    data: Json
    outcome: Outcome | None = None


class Recorded(NamedTuple):
    """An event with its place in the log: what observers see and the store holds; made by the thousand."""

    run: str
    seq: int
    ts: int
    """Milliseconds since the epoch."""
    step: str | None
    type: str
    data: Json
