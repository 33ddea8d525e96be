"""The words of the script for the stand-in of Cursor's `agent`, and the state file of its launches."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from segue.sim import script
from segue.sim.script import ProgramScript, ScriptWords, StateFile, read_words

LOGGED_IN = "SEGUE_SIM_LOGGED_IN"

_WORDS = read_words(__file__)
SETTINGS, ACTIONS, FAULTS = _WORDS["settings"], _WORDS["actions"], _WORDS["faults"]
SELECTORS = script.SELECTORS | {"mode": "`agent`, `plan` or `ask`"}
WORDS = ScriptWords(
    SETTINGS, SELECTORS, ACTIONS, FAULTS, "SEGUE_SIM_AGENT", "SEGUE_SIM_FAULTS", ".segue-sim-agent.jsonl"
)


def load_script(home: Path | None) -> ProgramScript:
    """Read the script that the environment names; without one, launches are counted in `home`."""
    if home is None:
        import tempfile  # slow, and launchers have a home

        home = Path(tempfile.gettempdir())
    return ProgramScript.load(WORDS, home)


def is_logged_in(program: ProgramScript) -> bool:
    """Return whether no key is needed; the variable overrides the script."""
    named = os.environ.get(LOGGED_IN)
    return named == "1" if named is not None else bool(program.settings.get("logged_in"))


def count_launch(state: StateFile, argv: list[str], mode: str) -> int:
    """Record a launch and return its number."""
    names = sorted(name for name in os.environ if name.startswith(("CURSOR_", "VSCODE_")))
    config = os.environ.get("CURSOR_CONFIG_DIR", "")
    lines = state.append(argv=argv, mode=mode, cwd=str(Path.cwd()), env=names, config_dir=config)
    return sum("argv" in line for line in lines)


def count_turn(state: StateFile, session: str, prompt: str) -> int:
    """Record a turn of a session and return its number."""
    data = prompt.encode("utf-8", "replace")
    digest = hashlib.sha256(data).hexdigest()
    lines = state.append(session=session, prompt_sha256=digest, prompt_bytes=len(data))
    return sum(line.get("session") == session for line in lines)


def find_last_session(state: StateFile) -> str:
    """Return the session of the last turn, or nothing."""
    sessions = [line["session"] for line in state.read() if "session" in line]
    return sessions[-1] if sessions else ""
