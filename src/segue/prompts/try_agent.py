"""The prompt of `segue agent try`: the user's own words, as they are."""

from __future__ import annotations

from segue.domain.prompt import Prompt


def try_prompt(asked: str) -> Prompt:
    """Nothing is added: whoever tries an agent out wants to see what it does with exactly this."""
    return Prompt(asked)
