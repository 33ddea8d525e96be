"""The static files of the page: style, scripts and icon, read once; nothing else can be fetched."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache

MEDIA_TYPES = {
    "segue.css": "text/css",
    "segue.js": "text/javascript",
    "theme.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
"""The files under `static/`."""


@dataclass(frozen=True, slots=True)
class Asset:
    """One static file."""

    body: bytes
    media_type: str
    digest: str


@cache
def load_assets() -> dict[str, Asset]:
    """Read the files, by name."""
    from importlib.resources import files

    folder = files("segue.web") / "static"
    bodies = {name: (folder / name).read_bytes() for name in MEDIA_TYPES}
    return {
        name: Asset(body, MEDIA_TYPES[name], hashlib.sha256(body).hexdigest()[:12])
        for name, body in bodies.items()
    }
