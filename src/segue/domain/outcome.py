"""An outcome: how a launch of an agent ended, what it used, and the budget that caps what a run uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from segue.domain.failure import Failure


class Usage(Struct, frozen=True):
    """Tokens and money, as far as the agent reports them."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    """None: the agent does not report it."""

    def __add__(self, other: Usage) -> Usage:
        costs = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            sum(costs) if costs else None,
        )

    @property
    def tokens(self) -> int:
        """All tokens together."""
        return self.input_tokens + self.output_tokens


class Outcome(Struct, frozen=True):
    """How a launch ended. `failure is None` is the agent's claim of success, not yet proof."""

    text: str = ""
    failure: Failure | None = None
    exit_code: int | None = None
    session: str | None = None
    model: str | None = None
    usage: Usage | None = None
    duration: float = 0.0
    branches: tuple[str, ...] = ()
    """The branches a cloud agent has pushed to."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Counts and ids that only some agents report: `tools`, `agent_id`, `adopted`."""


class Budget(Struct, frozen=True):
    """Caps for a whole run; None means no cap."""

    launches: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None

    def exceeded(self, launches: int, usage: Usage) -> str | None:
        """Say which cap forbids one more launch, or None."""
        if self.launches is not None and launches >= self.launches:
            return f"the cap of {self.launches} launches (limits.launches) is used up"
        if self.tokens is not None and usage.tokens >= self.tokens:
            return f"the cap of {self.tokens} tokens (limits.tokens) is used up: {usage.tokens} so far"
        if self.cost_usd is not None and (usage.cost_usd or 0.0) >= self.cost_usd:
            cap, spent = f"${self.cost_usd:.2f}", f"${usage.cost_usd or 0.0:.2f}"
            return f"the cap of {cap} (limits.cost_usd) is used up: {spent} so far"
        return None
