"""Limits that leave programs enough time to begin, also on a busy machine."""

from __future__ import annotations

from collections.abc import Callable

FACTORS = (1, 4, 16)


def unhurried(check: Callable[[float], None]) -> None:
    """Run a check whose limits must not end too early; repeat it with longer ones where the machine is busy.

    The check gets the factor by which its limits are longer, and must bear being repeated.
    """
    for factor in FACTORS:
        try:
            check(factor)
        except AssertionError:
            if factor == FACTORS[-1]:
                raise
        else:
            return
