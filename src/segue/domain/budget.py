"""A budget: what a run may use in all, checked before every launch."""

from __future__ import annotations

from msgspec import Struct

from segue.domain.outcome import Usage


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
