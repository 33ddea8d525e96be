"""What one attempt to escape is: what the agent does, around what, and how its success is seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.slow.escapes.scene import Scene

Prepare = Callable[["Scene"], None]
"""Arranges a project, or a user's machine, before the agent starts."""
Gains = Callable[["Scene"], Iterable[str]]
"""Yields what the agent has gained, from the outside."""
MOUNTS = ("bwrap",)
EVERYWHERE = (*MOUNTS, "landlock")
"""The means that an attempt is made by; `lanes`, which some name, are several tasks at once."""
GIT_IS_OPEN = ("landlock",)
"""Where agents may write to `.git`: Landlock cannot close it."""


def nothing(_: Scene) -> Iterator[str]:
    """Look for nothing beside what every scene looks for."""
    return iter(())


@dataclass(frozen=True)
class Escape:
    """One attempt."""

    name: str
    script: str
    """Python that the agent of the first task runs, with the names of `agent.py`."""
    later: str = ""
    """The same for later tasks, whose agents find what the first one left."""
    means: tuple[str, ...] = EVERYWHERE
    prepare: Prepare | None = None
    gains: Gains = nothing
    """What it wants in particular. Programs run outside, files of the user changed, secrets copied, commands
    that do not end and control characters in what they print are always looked for."""
    named: str = ""
    """A regular expression that the card of the task matches; empty: nothing that an agent must not do."""
    settings: str = ""
    """More settings of the user."""
    source: str = "plan.md"
    args: tuple[str, ...] = ()
    """More arguments of the run."""
    argv: tuple[str, ...] = ()
    """How Segue is started, where that matters; `{repo}` stands for the project."""
    then: tuple[tuple[str, ...], ...] = ()
    """Commands that the user gives afterwards, beside those that every user gives."""
    git: tuple[tuple[str, ...], ...] = ()
    """What the user asks git afterwards. That may run what the agent wrote, if the card names it."""
    open: Mapping[str, str] = field(default_factory=dict)
    """By means, why the attempt still succeeds; `*` stands for all of them."""

    def why_open(self, means: str) -> str:
        """Return why the attempt still succeeds by these means; empty: it does not."""
        return self.open.get(means, self.open.get("*", ""))
