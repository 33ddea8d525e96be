"""What agents can do to Segue itself, where it is installed in a place that they work in."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from segue.system.programs import own_prefix, own_source


class OwnInstallation(Struct, frozen=True):
    """Where Segue runs from, if agents could write that."""

    kept: Path | None = None
    """What is made read-only for them."""
    note: str = ""
    """What to say about it; empty if agents cannot write Segue anyway."""


def examine_installation(tree: Path, opened: Iterable[Path], *, can_keep: bool) -> OwnInstallation:
    """Return what Segue was installed into, if agents can write it; what the user has opened stays open."""
    prefix, source = own_prefix(), own_source()
    places = (tree / Path(os.path.expandvars(place)).expanduser() for place in opened)
    kept = None
    if prefix is not None and can_keep:
        is_opened = any(Path(os.path.realpath(place)).is_relative_to(prefix) for place in places)
        kept = None if is_opened else Path(prefix)
    if source is None and kept is not None:
        return OwnInstallation(
            kept,
            f"Segue is installed in {kept}, so agents cannot change that folder; to let them, install Segue "
            "in an environment of its own (`segue help sandbox`).",
        )
    place = source or prefix
    if place is None:
        return OwnInstallation()
    return OwnInstallation(
        kept,
        f"Segue itself runs from {place}, where agents can write: what they change there runs outside of the "
        "sandbox. Install Segue in an environment of its own (`segue help sandbox`).",
    )
