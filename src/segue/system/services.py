"""What Segue lends to the parts of a run: agents, reviewers, judges, notifiers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from segue.system.isolation.isolate import Isolation

if TYPE_CHECKING:
    from segue.system.process.processes import Processes
    from segue.system.redact import Redactor


class Services(Struct, frozen=True):
    """The second argument of every part's constructor; the first one are its options."""

    repo: Path
    """The work tree."""
    state_dir: Path
    """Where Segue keeps its files."""
    processes: Processes
    """Runs programs that outlive Segue and are adopted after a crash."""
    redactor: Redactor
    """Removes the user's secrets from what is stored and shown."""
    isolation: Isolation = msgspec.field(default_factory=Isolation)
    """The sandbox for programs of agents and checks."""
