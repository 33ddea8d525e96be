"""placeholder"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def collision_text(
    titles: Mapping[str, str], files: Sequence[str], reason: str, diff: str, *, resolves: bool
) -> str:
    return f"{titles} {files} {reason} {diff} {resolves}"
