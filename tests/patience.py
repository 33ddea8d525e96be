"""Limits that leave programs enough time to begin, also on a busy machine."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from _pytest.mark import ParameterSet

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


def seeds(number: int) -> list[ParameterSet]:
    """Return the seeds of a random test: one for `make test`, all of them for `make thorough`."""
    return [pytest.param(seed, marks=[pytest.mark.thorough] if seed else []) for seed in range(number)]
