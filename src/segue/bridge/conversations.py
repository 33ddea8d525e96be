"""What the store knows of conversations, for people and programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from segue.bridge.desk import Spent
from segue.bridge.session import KIND
from segue.domain.errors import UsageError
from segue.domain.run import Run, Step, StepState
from segue.ports import Store


def conversations(store: Store, limit: int | None = None) -> list[Run]:
    """Conversations, newest first."""
    return [run for run in store.runs() if run.spec.source_kind == KIND][:limit]


def find(store: Store, run_id: str) -> Run:
    """One conversation by its id or a unique beginning of it, or `last`."""
    found = next(iter(conversations(store, 1)), None) if run_id == "last" else store.run(run_id)
    if found is None or found.spec.source_kind != KIND:
        raise UsageError(f"There is no conversation {run_id!r}.", hint="List them with: segue bridge list")
    return found


def summary(run: Run, steps: Iterable[Step], state: str) -> dict[str, Any]:
    """One conversation in a few words."""
    known = list(steps)
    spent = Spent.of(known)
    messages = [str(s.output.get("text", "")) for s in known if s.key.startswith("inbox/") and s.output]
    return {
        "id": run.id,
        "state": state,
        "agent": run.spec.agent,
        "repo": run.spec.repo,
        "message": messages[0] if messages else "",
        "turns": sum(s.key.endswith("/say") for s in known),
        "launches": spent.launches,
        "cost_usd": round(spent.usage.cost_usd, 6),
        "created": run.created,
        "wake": run.wake,
        "note": run.note,
    }


def detail(run: Run, steps: Iterable[Step], state: str) -> dict[str, Any]:
    """One conversation with everything that was said and done."""
    known = list(steps)
    outputs = {step.key: step for step in known}
    turns = []
    number = 1
    while (say := outputs.get(f"turn/{number}/say")) is not None:
        turns.append(_turn(number, say, outputs))
        number += 1
    return {**summary(run, known, state), "conversation": turns}


def _turn(number: int, say: Step, outputs: dict[str, Step]) -> dict[str, Any]:
    read = outputs.get(f"turn/{number}/read")
    lines = read.output.get("lines", []) if read else []
    return {
        "turn": number,
        "messages": say.output.get("messages", ""),
        "results": say.output.get("results", ""),
        "reply": read.output.get("text", "") if read else None,
        "commands": [_command(number, index, line, outputs) for index, line in enumerate(lines, 1)],
        "skipped": read.output.get("skipped", []) if read else [],
    }


def _command(number: int, index: int, line: str, outputs: dict[str, Step]) -> dict[str, Any]:
    step = outputs.get(f"turn/{number}/command/{index}")
    ended = step is not None and step.state is not StepState.STARTED
    return {"line": line, "result": step.output if step and ended else None}
