"""Finds the commit that broke a test, among those of a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

_MOST = 16
"""So many commits are tried at most before a test counts as one that never passed."""

Passes = Callable[[int], Awaitable[bool]]
"""Whether a test passes at a commit, by its place in the run."""


async def find_breaker(last: int, passes: Passes) -> int | None:
    """Return the place of the commit that broke a test, which fails at the last one; None: it never passed.

    A test may fail at first because what it needs is not there yet. So one that passes is looked for from the
    end, in growing steps, and where these miss it in small ones; then the two are brought together.
    """
    known = {last: False}

    async def look(place: int) -> bool:
        if place not in known:
            known[place] = await passes(place)
        return known[place]

    good = await _find_good(last, look)
    if good is None:
        return None
    bad = min(place for place, ok in known.items() if place > good and not ok)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if await look(middle) else (good, middle)
    return bad


async def _find_good(last: int, look: Passes) -> int | None:
    step = 1
    while last - step >= 0:
        if await look(last - step):
            return last - step
        step *= 2
    for place in range(last - 1, max(-1, last - _MOST), -1):
        if await look(place):
            return place
    return None
