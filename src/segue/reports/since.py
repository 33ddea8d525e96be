"""When `--since` begins: a date, an instant, or how long ago."""

from __future__ import annotations

import re
from datetime import datetime

from segue.domain.errors import UsageError

_AGO = re.compile(r"(\d{1,6})\s*([mhdw])", re.ASCII)
_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 604800}


def since(text: str, now: float) -> int:
    """The instant in milliseconds since the epoch; local time where no zone is named."""
    if found := _AGO.fullmatch(text.strip()):
        return int((now - int(found[1]) * _SECONDS[found[2]]) * 1000)
    try:
        return int(datetime.fromisoformat(text.strip()).timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(
            f"{text!r} is not an instant.", hint="Write --since 7d, 12h, 2026-01-31 or 2026-01-31T14:00."
        ) from error
