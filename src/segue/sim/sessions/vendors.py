"""The vendors whose cloud agents are simulated, by the names of the agents."""

from __future__ import annotations

import importlib

from segue.sim.sessions.app import SimVendor

VENDORS = {
    "claude-cloud": "segue.sim.sessions.claude:CLAUDE",
    "copilot-cloud": "segue.sim.sessions.copilot:COPILOT",
    "devin": "segue.sim.sessions.devin:DEVIN",
    "jules": "segue.sim.sessions.jules:JULES",
}
"""Name → where the vendor is."""


def load_vendor(name: str) -> SimVendor:
    """Return a vendor."""
    module, _, attribute = VENDORS[name].partition(":")
    found = getattr(importlib.import_module(module), attribute)
    assert isinstance(found, SimVendor)
    return found
