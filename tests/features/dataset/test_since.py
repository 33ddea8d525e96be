"""What `--since` understands."""

from __future__ import annotations

from datetime import datetime

import pytest

from segue.domain.errors import UsageError
from segue.features.dataset.reports.selection import parse_since

NOW = 1_790_000_000.0


@pytest.mark.parametrize(
    ("text", "seconds"), [("7d", 604800), ("12h", 43200), (" 30 m ", 1800), ("2w", 1209600)]
)
def test_how_long_ago(text: str, seconds: int) -> None:
    assert parse_since(text, NOW) == (NOW - seconds) * 1000


def test_dates_and_instants() -> None:
    assert parse_since("2026-01-31", NOW) == datetime(2026, 1, 31).timestamp() * 1000  # noqa: DTZ001 - local time
    assert parse_since("2026-01-31T14:00Z", NOW) == 1769868000000


@pytest.mark.parametrize("text", ["", "yesterday", "7", "7 years", "2026-02-31", "999999w ago", "-1d", "٣d"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a date or duration"):
        parse_since(text, NOW)
