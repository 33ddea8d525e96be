"""Honest and cheating changes, which every means of sealing must tell apart."""

from __future__ import annotations

from tests.slow.proof.means_cases.case import Case, Link
from tests.slow.proof.means_cases.cheats import CHEATS
from tests.slow.proof.means_cases.honest import HONEST

__all__ = ["CASES", "Case", "Link"]

CASES: tuple[Case, ...] = (*HONEST, *CHEATS)
