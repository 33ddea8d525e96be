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
            read, written, cost = database.execute(totals.query, {"session": session}).fetchone()
    except (sqlite3.Error, TypeError, ValueError):
        return None
    numbers = all(isinstance(number, int | float) for number in (read, written))
    return (
        Usage(int(read), int(written), cost if isinstance(cost, float | int) else None) if numbers else None
    )
