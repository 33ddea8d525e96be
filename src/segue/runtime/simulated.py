"""Know when the simulated agent would use up a source: notes are no work, and yet tasks are marked done."""

from __future__ import annotations

import os

from segue.domain.errors import UsageError
from segue.runtime.app import App
from segue.runtime.rehearsal import SIMULATED

WHY = (
    "The scripted agent is simulated: it writes a note for each task, its commits are not real work, and the "
    "tasks are marked done."
)


def only_writes_notes(app: App) -> bool:
    """Return whether the simulated agent plays a role, and nobody has said how.

    Who has given it a script wants what the script says, and so does an experiment.
    """
    settings, roles = app.loaded.settings, app.loaded.settings.roles
    named = [settings.agent, *(getattr(roles, name) for name in roles.__struct_fields__)]
    chains = (name.split(",") for name in named if name)
    used = any(choice.split(":")[0].strip() == SIMULATED for chain in chains for choice in chain)
    return used and not settings.agents.get(SIMULATED, {}).get("script") and not os.environ.get("SEGUE_TRIAL")


def refuse_simulated(app: App, yes: bool, hint: str) -> None:
    """Refuse the simulated agent for a real source where nobody can be asked; `hint` says how to say yes."""
    if not yes and only_writes_notes(app):
        raise UsageError(WHY, kept="Nothing was started.", hint=hint)
