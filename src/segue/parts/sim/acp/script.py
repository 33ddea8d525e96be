"""The words of the script for agents that speak the Agent Client Protocol, and the agents it can play."""

from __future__ import annotations

from typing import NamedTuple

from segue.sim import script
from segue.sim.script import ScriptWords, read_words

_WORDS = read_words(__file__)
SETTINGS, ACTIONS, FAULTS = _WORDS["settings"], _WORDS["actions"], _WORDS["faults"]
SELECTORS = script.SELECTORS | {"mode": "the mode by its own name, such as `plan` or `default`"}
WORDS = ScriptWords(
    SETTINGS, SELECTORS, ACTIONS, FAULTS, "SEGUE_SIM_ACP", "SEGUE_SIM_ACP_FAULTS", ".segue-sim-acp.jsonl"
)


class Flavour(NamedTuple):
    """The modes and habits of one vendor's agent."""

    version: str
    modes: list[str]
    starts_in: str
    plan: str | None
    """The mode in which it changes nothing."""
    by_option: bool = False
    """The mode is an option of the session."""
    announces: bool = True
    """It reports a tool call before it asks for permission."""
    resumes: bool = False
    auth: str = "login"


FLAVOURS = {name: Flavour(**facts) for name, facts in _WORDS["flavours"].items()}
