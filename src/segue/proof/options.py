"""What the settings say about sealed checks."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from msgspec import Struct


class SealOptions(Struct, frozen=True):
    """How checks are sealed."""

    control_files: tuple[str, ...] = ()
    """Globs of further control files."""
    known_failures: tuple[str, ...] = ()
    """Globs of the ids of tests that may fail."""
    setup: tuple[tuple[str, ...], ...] = ()
    """Commands that make the tree ready, such as `npm ci`; they may use the network."""
    teardown: tuple[tuple[str, ...], ...] = ()
    """Commands that run after each check; with any of them, `setup` runs before each check too."""
    network: bool = False
    """Whether checks may use the network."""
    means: Literal["auto", "bwrap", "namespaces", "copy"] = "auto"
    """How checks are kept apart: `auto` takes the first of the others that works here."""
    timeout: float = 600
    """Seconds that one run of a check may take."""
    bases: Path | None = None
    """Where results on trees that nobody works on are kept for all runs; None: with the run."""
    setups: Path | None = None
    """Where what setup commands make is kept for all lanes of a run; None: with each."""
