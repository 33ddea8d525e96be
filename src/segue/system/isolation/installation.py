"""What agents can do to Segue itself, where it is installed in a place that they work in."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from segue.system.isolation.policy import expand_places
from segue.system.programs import own_bytecode, own_prefix, own_search, own_source


class OwnInstallation(Struct, frozen=True):
    """Where Segue runs from, if agents could write that."""

    kept: tuple[Path, ...] = ()
    """What is made read-only for them."""
    note: str = ""
    """What to say about it; empty if agents cannot write Segue anyway."""


def examine_installation(tree: Path, opened: Iterable[Path], *, can_keep: bool) -> OwnInstallation:
    """Return what Segue was installed into, if agents can write it; what the user has opened stays open."""
    prefix, source, bytecode = own_prefix(), own_source(), own_bytecode()
    writable = [Path(os.path.realpath(place)) for place in expand_places(tree, opened)]
    kept = [Path(place) for place in (prefix, bytecode) if place is not None and can_keep]
    kept = [place for place in kept if not any(one.is_relative_to(place) for one in writable)]
    if source is None and prefix is not None and Path(prefix) in kept:
        return OwnInstallation(
            tuple(kept),
            f"Segue is installed in {prefix}, so agents cannot change that folder; to let them, install "
            "Segue in an environment of its own (`segue help sandbox`).",
        )
    if bytecode is not None and Path(bytecode) in kept:
        bytecode = None
    place = source or prefix or bytecode
    if place is None and (place := own_search()) is not None:
        return OwnInstallation(
            tuple(kept),
            f"PYTHONPATH names {place}, where agents can write: Python runs what they put there before Segue "
            "can refuse. Start Segue without it (`segue help sandbox`).",
        )
    if place is None:
        return OwnInstallation(tuple(kept))
    return OwnInstallation(
        tuple(kept),
        f"Segue itself runs from {place}, where agents can write: what they change there runs outside of the "
        "sandbox. Install Segue in an environment of its own (`segue help sandbox`).",
    )
