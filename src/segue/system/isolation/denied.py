"""Say which setting opens a place that a program in the sandbox could not write."""

from __future__ import annotations

import re

from segue.domain.pattern import pattern

_READ_ONLY = pattern(r"read-only file system|EROFS", re.IGNORECASE)
_DENIED = pattern(r"read-only file system|EROFS|permission denied|EACCES", re.IGNORECASE)
_PLACE = pattern(r"""['"‘`](/[^'"’`\n]{1,300})['"’`]|(?:^|[\s:(])(/[^\s:'"(),]{2,300})""")
_INSTALLED = pattern(r"/(node_modules|\.?venv|vendor)(/|$)")
_LANE = (
    "In a lane your dependencies are read-only; lane_setup or lane_copy gives each lane its own "
    "(`segue help parallel`)."
)
_LINES = 200


def explain_denied(text: str, *, by_rules: bool) -> str:
    """Return a sentence about the last place that could not be written; empty if there is none.

    Mounts make places read-only; rules (Landlock) deny the permission.
    """
    for line in reversed(text.splitlines()[-_LINES:]):
        if (_DENIED if by_rules else _READ_ONLY).search(line):
            found = _PLACE.search(line)
            place = next(filter(None, found.groups()), "") if found else ""
            if _INSTALLED.search(place):
                return _LANE
            where = f"{place} is" if place else "the place is"
            setting = f'["{place}"]' if place else "[…]"
            closed = f"If {where} closed by the sandbox"
            return f"{closed}, sandbox.write = {setting} opens it (`segue help sandbox`)."
    return ""
