"""Read what a session used from the agent's own database, where the protocol tells of its last step only."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from segue.agents.acp.profiles import SessionTotals
from segue.agents.local.program import in_home
from segue.domain.outcome import Usage

_PATIENCE = 2.0


def read_total(totals: SessionTotals, session: str) -> Usage | None:
    """Return all that a session used; None if the database does not say it, as in other versions."""
    (path,) = in_home(totals.database)
    if not path.is_file():
        return None
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=_PATIENCE)) as database:
            row = database.execute(totals.query, {"session": session}).fetchone()
            read, written, cost, cached = (*row, None)[:4]  # the last one may be left out
    except (sqlite3.Error, TypeError, ValueError):
        return None
    if not all(isinstance(number, int | float) for number in (read, written)):
        return None
    dollars, known = (number if isinstance(number, int | float) else None for number in (cost, cached))
    return Usage(int(read), int(written), dollars, None if known is None else int(known))
