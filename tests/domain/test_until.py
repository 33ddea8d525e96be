"""Waits are shown with date, time and duration."""

from __future__ import annotations

from datetime import datetime

import pytest

from segue.domain.amounts import describe_until

NOW = datetime.fromisoformat("2026-11-16T05:20:10").timestamp()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (2 * 86400 + 4 * 3600 + 780, "until Wed 18 Nov 09:33, in 2 d 4 h"),
        (3600 + 125, "until Mon 16 Nov 06:22, in 1 h 2 min"),
        (185, "until Mon 16 Nov 05:23:15, in 3 min 5 s"),
        (40, "until Mon 16 Nov 05:20:50, in 40 s"),
        (-5, "until Mon 16 Nov 05:20:05, now"),
    ],
)
def test_the_words(seconds: float, words: str) -> None:
    assert describe_until(NOW + seconds, NOW) == words
