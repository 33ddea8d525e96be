"""What a judge sees: the diff and the checks first, the agent's own words last."""

from __future__ import annotations

from msgspec import Struct

from segue.domain.proof import CheckResult


class Hit(Struct, frozen=True):
    """One thing that a search found."""

    title: str = ""
    url: str = ""
    text: str = ""


class Evidence(Struct, frozen=True):
    """Everything a verdict may rest on."""

    diff: str
    files: tuple[str, ...] = ()
    checks: tuple[CheckResult, ...] = ()
    summary: str = ""
    """What the agent says it did: a claim."""
    diagnostics: tuple[str, ...] | None = None
    """The beginnings of the commands a judge may ask for; None: it does not choose what follows."""
    context: str = ""
    """What the task is a part of; untrusted, and no evidence."""
