"""The event of the part: a model was called."""

from __future__ import annotations

from typing import Any, ClassVar

from segue.domain.amounts import format_duration
from segue.domain.events import Event


class TraceSpan(Event, frozen=True):
    """A model that Segue serves was called."""

    type: ClassVar[str] = "trace.span"
    rest: ClassVar[str] = "details"
    trace: str
    id: str
    model: str
    """The name the caller used."""
    parent: str | None = None
    depth: int = 0
    kind: str = ""
    part: str = ""
    """Its part in the parent: `candidate`, `judge`, `attempt`"""
    started: float = 0.0
    seconds: float = 0.0
    queued: float = 0.0
    """Seconds spent waiting for a free process."""
    ok: bool = True
    error: str = ""
    failure: str | None = None
    """The kind of failure, as in `FailureKind`."""
    exit_code: int | None = None
    stderr: str = ""
    """The end of stderr."""
    answered_by: str | None = None
    """The model that answered, as the agent or vendor calls it."""
    input_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False
    """True if the tokens were estimated from the length, because none were reported."""
    cost_usd: float | None = None
    note: str = ""
    details: dict[str, Any] = {}

    def describe(self) -> str:
        """Describe a model call; nested calls are indented."""
        part = f" ({self.part})" if self.part else ""
        tokens = self.input_tokens + self.output_tokens
        used = f", {tokens} tokens{' (estimated)' if self.estimated else ''}" if tokens else ""
        cost = f", ${self.cost_usd:.4f}" if self.cost_usd else ""
        ending = "" if self.ok else f": {self.failure or 'failed'}: {self.error}"
        model = f"{'› ' * self.depth}{self.model}{part}"
        return f"{model} {format_duration(self.seconds)}{used}{cost}{ending}"
