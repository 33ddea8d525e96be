"""RETRY: the agent is sent back with what is missing; nothing else is needed."""

from __future__ import annotations

from segue.flow.resolution import Resolution, Round


async def retry(_round: Round) -> Resolution:
    """Bring nothing beside the verdict itself."""
    return Resolution()
