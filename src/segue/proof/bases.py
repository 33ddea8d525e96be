"""What a result on a tree depends on beside the tree: dependencies, programs and variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from segue.proof.inputs import Inputs

_OF_THE_SESSION = ("TERM", "COLORTERM", "XDG_SE", "XDG_VTNR")
"""Beginnings of variables that differ from terminal to terminal."""
_INSTALLED = ("lib/python*/site-packages", "lib/python3/dist-packages", "lib/node_modules")
"""Where packages are installed beside a folder of programs; the folder's time changes with them."""


def input_facts(inputs: Inputs, scratch: Path) -> list[object]:
    """Return what tells these dependencies and copied files from others.

    Compiled files are left out: programs write them as they run, and they say the same.
    """
    copies = [(name, *_facts(scratch / "inputs" / name)) for name in inputs.copied]
    return [inputs.folders, copies, inputs.user_site]


def machine_facts(env: Mapping[str, str]) -> list[object]:
    """Return what tells this machine's programs and variables from what they were at another time."""
    variables = {name: env[name] for name in sorted(env) if not name.startswith(_OF_THE_SESSION)}
    folders = [Path(name) for name in dict.fromkeys(env.get("PATH", "").split(os.pathsep)) if name]
    beside = [
        place for folder in folders for glob in _INSTALLED for place in sorted(folder.parent.glob(glob))
    ]
    return [variables, [(str(place), *_facts(place)) for place in (*folders, *dict.fromkeys(beside))]]


def _facts(place: Path) -> tuple[int, int]:
    try:
        found = place.stat()
    except OSError:
        return 0, 0
    return (0 if place.is_dir() else found.st_size), found.st_mtime_ns
