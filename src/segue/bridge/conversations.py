"""Conversations in the store: begins, finds, lists and describes them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from segue.bridge.context import ConversationUsage
from segue.domain.errors import UsageError
from segue.domain.repository import canonical
from segue.domain.run import Run, RunSpec, RunState, Step, StepState
from segue.ports import Store
from segue.runtime.wiring import App

KIND = "bridge"
"""The source kind of conversations."""


def resolve_repo(repo: str) -> str:
    """Return where the agent of a conversation works: a folder of this machine, or a hosted repository."""
    folder = Path(repo).expanduser()
    if folder.is_dir():
        return str(folder.resolve())
    try:
        return canonical(repo)
    except ValueError:
        raise UsageError(
            f"{repo!r} is neither a folder nor the address of a hosted repository.",
            hint="--repo github.com/OWNER/NAME   or   --repo path/to/folder",
        ) from None


def begin_conversation(
    store: Store, app: App, agent: str, repo: str, message: str, *, force_new: bool = False
) -> tuple[Run, bool]:
    """Return the conversation for this message and whether it is new; an unfinished one is continued."""
    if not message.strip():
        raise UsageError("The message is empty.")
    digest = hashlib.sha256("\0".join((agent, repo, message)).encode("utf-8", "surrogatepass")).hexdigest()
    key = f"{KIND}:{digest[:24]}"
    last = store.runs(source_key=key, limit=1)
    fresh = force_new or not last or last[0].state is RunState.DONE
    spec = RunSpec(
        KIND,
        "conversation",
        repo,
        agent,
        KIND,
        model=app.loaded.settings.model,
        config=str(app.config) if app.config else None,
        settings=app.loaded.overrides,
    )
    run = store.create(key, spec) if fresh else last[0]
    # Always sent under the same name: a process that is killed here and started again sends it once.
    store.send(run.id, "message", {"kind": "message", "text": message}, "first")
    return run, fresh


def list_conversations(store: Store, limit: int | None = None) -> list[Run]:
    """Return the conversations, newest first."""
    return [run for run in store.runs() if run.spec.source_kind == KIND][:limit]


def find_conversation(store: Store, run_id: str) -> Run:
    """Return one conversation by its id, a unique prefix of it, or `last`."""
    found = next(iter(list_conversations(store, 1)), None) if run_id == "last" else store.run(run_id)
    if found is None or found.spec.source_kind != KIND:
        raise UsageError(f"There is no conversation {run_id!r}.", hint="List them with: segue bridge list")
    return found


def summarise(run: Run, steps: Iterable[Step], state: str) -> dict[str, Any]:
    """Return a summary of one conversation."""
    known = list(steps)
    used = ConversationUsage.count(known)
    messages = [str(s.output.get("text", "")) for s in known if s.key.startswith("inbox/") and s.output]
    return {
        "id": run.id,
        "state": state,
        "agent": run.spec.agent,
        "repo": run.spec.repo,
        "message": messages[0] if messages else "",
        "turns": sum(s.key.endswith("/say") for s in known),
        "launches": used.launches,
        "cost_usd": round(used.usage.cost_usd, 6),
        "created": run.created,
        "wake": run.wake,
        "note": run.note,
    }


def describe(run: Run, steps: Iterable[Step], state: str) -> dict[str, Any]:
    """Return the summary of one conversation with everything that was said and done."""
    known = list(steps)
    outputs = {step.key: step for step in known}
    turns: list[dict[str, Any]] = []
    while (say := outputs.get(f"turn/{len(turns) + 1}/say")) is not None:
        turns.append(_describe_turn(len(turns) + 1, say, outputs))
    return {**summarise(run, known, state), "conversation": turns}


def _describe_turn(number: int, say: Step, outputs: dict[str, Step]) -> dict[str, Any]:
    read = outputs.get(f"turn/{number}/read")
    lines = read.output.get("lines", []) if read else []
    return {
        "turn": number,
        "messages": say.output.get("messages", ""),
        "results": say.output.get("results", ""),
        "reply": read.output.get("text", "") if read else None,
        "commands": [_describe_command(number, index, line, outputs) for index, line in enumerate(lines, 1)],
        "skipped": read.output.get("skipped", []) if read else [],
    }


def _describe_command(number: int, index: int, line: str, outputs: dict[str, Step]) -> dict[str, Any]:
    step = outputs.get(f"turn/{number}/command/{index}")
    ended = step is not None and step.state is not StepState.STARTED
    return {"line": line, "result": step.output if step and ended else None}
