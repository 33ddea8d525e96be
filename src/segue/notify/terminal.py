"""Tells a person at the terminal: the bell, and a line on stderr."""

from __future__ import annotations

import sys

from segue.domain.plain import plain
from segue.notify.notice import Notice

_BELL = "\a"


async def tell(notice: Notice) -> None:
    """Write the notice as one line; the bell rings on a terminal only."""
    parts = [notice.title, plain(notice.text, 300), notice.link]
    bell = _BELL if sys.stderr.isatty() else ""
    sys.stderr.write(f"{bell}segue: {' · '.join(part for part in parts if part)}\n")
    sys.stderr.flush()
