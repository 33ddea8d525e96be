"""What Segue lends to parts, for tests that build one by itself."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from segue.system.process.processes import Processes
from segue.system.redact import Redactor
from segue.system.services import Services


def make_services(
    repo: Path | None = None,
    *,
    state_dir: Path | None = None,
    processes: Processes | None = None,
    secrets: Iterable[str] = (),
) -> Services:
    """Return services that work in a folder; without one, where the tests are run."""
    place = repo or Path.cwd()
    return Services(place, state_dir or place, processes or Processes(), Redactor(list(secrets)))
