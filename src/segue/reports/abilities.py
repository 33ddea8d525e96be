"""What an agent can do, in words."""

from __future__ import annotations

from collections.abc import Iterable

_WORDS = {
    "plan_mode": "plans",
    "ask_mode": "judges",
    "follow_up": "continues a conversation",
    "cloud": "works in the cloud",
    "streams": "shows its work live",
    "reports_usage": "reports tokens",
    "reports_cost": "reports cost",
}
"""Ability → what it means for people; what is left out means nothing to them."""


def describe_abilities(can: Iterable[str]) -> str:
    """Return what an agent can do beside changing files; empty: nothing that Segue knows of."""
    has = set(can)
    return ", ".join(words for ability, words in _WORDS.items() if ability in has)
