"""Conversations in the store: begins, finds, lists and describes them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segue.agents.cloud.repository import canonical_address
from segue.domain.errors import UsageError
from segue.domain.results import read_as, to_json
from segue.domain.run import Run, RunKind, RunSpec, RunState, Step, StepState
from segue.features.bridge.steps import CommandOutput, MessageOutput, ReplyOutput, SayOutput
from segue.runtime.app import App
from segue.view.load import load_view, state_of

if TYPE_CHECKING:
    from segue.store.store import Store


KIND = "bridge"
"""The source kind of conversations."""


def resolve_repo(repo: str) -> str:
    """Return where the agent of a conversation works: a folder of this machine, or a hosted repository."""
    folder = Path(repo).expanduser()
    if folder.is_dir():
        return str(folder.resolve())
    try:
        return canonical_address(repo)
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
    # One that is parked has answered, and only waits for its reminder.
    fresh = force_new or not last or last[0].state in (RunState.DONE, RunState.PARKED)
    spec = RunSpec(
        KIND,
        "conversation",
        repo,
        agent,
        KIND,
        model=app.loaded.settings.model,
        config=str(app.config) if app.config else None,
        settings=app.loaded.overrides,
        kind=RunKind.CONVERSATION,
    )
    run = store.create(key, spec) if fresh else last[0]
    # Always sent under the same name: a process that is killed here and started again sends it once.
    store.send(run.id, "message", {"kind": "message", "text": message}, "first")
    return run, fresh


def list_conversations(store: Store, limit: int | None = None) -> list[Run]:
    """Return the conversations, newest first."""
    return store.runs(limit=limit, kinds=[RunKind.CONVERSATION])


def find_conversation(store: Store, run_id: str) -> Run:
    """Return one conversation by its id, a unique prefix of it, or `last`."""
    found = next(iter(list_conversations(store, 1)), None) if run_id == "last" else store.run(run_id)
    if found is None or found.spec.kind is not RunKind.CONVERSATION:
        raise UsageError(f"There is no conversation {run_id!r}.", hint="List them with: segue bridge list")
    return found


def summarise(store: Store, run: Run, steps: Sequence[Step] | None = None) -> dict[str, Any]:
    """Return a summary of one conversation."""
    known = store.steps(run.id) if steps is None else steps
    view = load_view(store, run)
    taken = [s for s in known if s.key.startswith("inbox/") and s.output]
    messages = [read_as(MessageOutput, step.output).text for step in taken]
    return {
        "id": run.id,
        "state": state_of(run),
        "agent": run.spec.agent,
        "repo": run.spec.repo,
        "message": messages[0] if messages else "",
        "turns": sum(s.key.endswith("/say") for s in known),
        "launches": view.launches,
        "cost_usd": view.usage.cost_usd,
        "created": run.created,
        "wake": run.wake,
        "note": run.note,
    }


def describe(store: Store, run: Run) -> dict[str, Any]:
    """Return the summary of one conversation with everything that was said and done."""
    known = store.steps(run.id)
    outputs = {step.key: step for step in known}
    turns: list[dict[str, Any]] = []
    while (say := outputs.get(f"turn/{len(turns) + 1}/say")) is not None:
        turns.append(_describe_turn(len(turns) + 1, say, outputs))
    return {**summarise(store, run, known), "conversation": turns}


def _describe_turn(number: int, say: Step, outputs: dict[str, Step]) -> dict[str, Any]:
    shown = read_as(SayOutput, say.output)
    step = outputs.get(f"turn/{number}/read")
    reply = read_as(ReplyOutput, step.output) if step else ReplyOutput()
    numbered = enumerate(reply.lines, 1)
    return {
        "turn": number,
        "messages": shown.messages,
        "results": shown.results,
        "reply": reply.text if step else None,
        "commands": [_describe_command(number, index, line, outputs) for index, line in numbered],
        "skipped": [to_json(line) for line in reply.skipped],
    }


def _describe_command(number: int, index: int, line: str, outputs: dict[str, Step]) -> dict[str, Any]:
    step = outputs.get(f"turn/{number}/command/{index}")
    ended = step is not None and step.state is not StepState.STARTED
    return {"line": line, "result": CommandOutput.read(step.output).flat if step and ended else None}
