"""What one attempt said, thought and did, in order: read once, written in several formats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from segue.domain.events import AgentText, AgentThought, AgentTool, PromptSent, Recorded, StepStarted

if TYPE_CHECKING:
    from segue.store.store import Store


_SEEN = (StepStarted, PromptSent, AgentText, AgentThought, AgentTool)
_FACTS = """
    SELECT a.step, a.gen, a.task, a.phase, a.build_phase, a.attempt, a.agent,
           coalesce(a.model_reported, a.model) AS model, a.result, a.failure, a.input_tokens, a.output_tokens,
           a.cost_usd, a.proof_level, p.base, p.head, p.diff, p.cut
    FROM segue_attempts a
    LEFT JOIN segue_patches p ON p.run_id = a.run_id AND p.step = a.step AND p.gen = a.gen
    WHERE a.run_id = ? ORDER BY a.seq
"""


class TracedCall(Struct):
    """One call of a tool; `result` is None while its end was not reported."""

    id: str
    name: str
    given: Any
    result: Any = None
    is_ended: bool = False
    status: str = ""


class Turn(Struct):
    """Something the agent said, with what it thought before and did after."""

    ts: int
    """Milliseconds since the epoch."""
    text: str = ""
    thought: str = ""
    calls: list[TracedCall] = field(default_factory=list)


class Trajectory(Struct):
    """One attempt: its prompt and its turns, with the facts of its row in `segue_attempts`."""

    run: str
    step: str
    gen: int
    facts: dict[str, Any]
    prompt: str = ""
    began: int = 0
    turns: list[Turn] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What tells it from others."""
        return f"{self.run}/{self.step}" + (f"/{self.gen}" if self.gen > 1 else "")

    def see(self, seen: Recorded, prompt: str) -> None:
        """Take in one event."""
        match seen.event:
            case PromptSent():
                self.prompt, self.began = prompt, seen.ts
                self.turns.clear()  # it was adopted after a crash, and is read again from its beginning
            case AgentThought(text):
                self._turn(seen.ts, fresh=bool(self._last and (self._last.text or self._last.calls)))
                self.turns[-1].thought += text
            case AgentText(text):
                self._turn(seen.ts, fresh=bool(self._last and (self._last.text or self._last.calls)))
                self.turns[-1].text = text
            case AgentTool() as tool:
                self._use(seen, tool)
            case _:
                pass

    @property
    def _last(self) -> Turn | None:
        return self.turns[-1] if self.turns else None

    def _turn(self, ts: int, fresh: bool) -> None:
        if fresh or not self.turns:
            self.turns.append(Turn(ts))

    def _use(self, seen: Recorded, tool: AgentTool) -> None:
        """A late result belongs to the turn that made the call."""
        name = tool.id or f"call-{seen.seq}"
        open_ = (call for turn in reversed(self.turns) for call in turn.calls if not call.is_ended)
        call = next((call for call in open_ if tool.id and call.id == tool.id), None)
        if call is None:
            self._turn(seen.ts, fresh=any(call.id == name for turn in self.turns[-1:] for call in turn.calls))
            call = TracedCall(name, tool.name, tool.input)
            self.turns[-1].calls.append(call)
        if tool.state != "started":
            call.result, call.is_ended, call.status = tool.result, True, tool.status


def read_trajectories(store: Store, run: str) -> Iterator[Trajectory]:
    """Yield the attempts of a run, in order."""
    rows = store.query(_FACTS, [run])
    found = {(row["step"], row["gen"]): Trajectory(run, row["step"], row["gen"], row) for row in rows}
    gens: dict[str, int] = {}
    for seen in store.events(run, kinds=_SEEN):
        step = seen.step or ""
        if isinstance(seen.event, StepStarted):
            gens[step] = seen.event.gen
        trajectory = found.get((step, gens.get(step, 1)))
        if trajectory is not None:
            event = seen.event
            trajectory.see(seen, _text(store, event.digest) if isinstance(event, PromptSent) else "")
    yield from found.values()


def _text(store: Store, digest: str) -> str:
    found = store.query("SELECT text FROM orchestrator_prompts WHERE digest = ?", [digest])
    return str(found[0]["text"]) if found else ""
