"""The files of the page that are ours: style, script and icon, read once; nothing else can be fetched."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache

KINDS = {"segue.css": "text/css", "segue.js": "text/javascript", "theme.js": "text/javascript"}
KINDS |= {"icon.svg": "image/svg+xml"}
"""The files under `static/`, and what they are."""


@dataclass(frozen=True, slots=True)
class Asset:
    """One file."""

    body: bytes
    kind: str
    digest: str


@cache
def assets() -> dict[str, Asset]:
    """The files by name."""
    from importlib.resources import files

    folder = files("segue.web") / "static"
    found = {name: (folder / name).read_bytes() for name in KINDS}
    return {
        name: Asset(body, KINDS[name], hashlib.sha256(body).hexdigest()[:12]) for name, body in found.items()
    }
