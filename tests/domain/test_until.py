"""Waits are shown with date, time and duration."""

from __future__ import annotations

import time
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.amounts import describe_until

NOW = datetime.fromisoformat("2026-11-16T05:20:10").timestamp()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (2 * 86400 + 4 * 3600 + 780, "until Wed 18 Nov 09:33, in 2 d 4 h"),
        (3 * 86400 + 59, "until Thu 19 Nov 05:21, in 3 d"),
        (3600 + 125, "until Mon 16 Nov 06:22, in 1 h 2 min"),
        (185, "until Mon 16 Nov 05:23:15, in 3 min 5 s"),
        (40, "until Mon 16 Nov 05:20:50, in 40 s"),
        (-5, "until Mon 16 Nov 05:20:05, now"),
        (60 * 86400, "until Fri 15 Jan 2027 05:20, in 60 d"),
    ],
)
def test_the_words(seconds: float, words: str) -> None:
    assert describe_until(NOW + seconds, NOW) == words


@given(st.floats(0, 4e9), st.floats(-1e6, 4e7))
def test_any_instant_has_its_day(now: float, seconds: float) -> None:
    words = describe_until(now + seconds, now)
    moment = time.localtime(now + seconds)
    assert words.startswith(f"until {time.strftime('%a', moment)} {moment.tm_mday} ")
    assert ("in " in words) == (round(now + seconds - now) > 0)
