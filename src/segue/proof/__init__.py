"""Sealed checks: evidence that the agent cannot touch."""

from segue.proof.bubblewrap import seal_strength
from segue.proof.execute import find_program
from segue.proof.options import SealOptions
from segue.proof.seal import Sealer

__all__ = ["SealOptions", "Sealer", "find_program", "seal_strength"]
