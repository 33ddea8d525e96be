"""Products that reach into the process of their tests or look who runs them, and honest ones that seem to."""

from __future__ import annotations

from tests.proof.disguise_cases.case import DisguiseCase
from tests.proof.disguise_cases.honest import HONEST
from tests.proof.disguise_cases.inside import INSIDE
from tests.proof.disguise_cases.looking import LOOKING

__all__ = ["HONEST", "INSIDE", "LOOKING", "DisguiseCase"]
