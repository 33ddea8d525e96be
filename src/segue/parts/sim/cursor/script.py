"""The words of the script for the stand-in of Cursor's `agent`, and the state file of its launches."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from segue.sim import script
from segue.sim.script import ProgramScript, ScriptWords, StateFile

LOGGED_IN = "SEGUE_SIM_LOGGED_IN"

FAULTS = {
    "hang_before_init": "prints nothing and never ends",
    "hang": "starts a command after its first words and never ends",
    "hang_after_result": "prints its result and never ends",
    "ignore_stdin": "never reads its stdin",
    "empty": "ends with exit code 0 and prints nothing",
    "no_result": "ends with exit code 0 and without a result",
    "truncated": "stops in the middle of its last line",
    "error_result": "prints a result that is an error",
    "not_json": "prints a line that is not JSON",
    "unknown_event": "prints an event of an unknown kind",
    "bad_utf8": "prints bytes that are not UTF-8",
    "long_line": "prints a line of 10 MB",
    "orphan": "leaves a process behind that keeps its stdout open",
    "config_race": "fails as it does when several start at once, unless it has a CURSOR_CONFIG_DIR",
    "quota": "reports that the quota is used up",
    "bad_key": "reports that the API key is invalid",
    "no_usage": "reports no usage, as builds of early 2026",
}
SELECTORS = script.SELECTORS | {"mode": "`agent`, `plan` or `ask`"}
ACTIONS = {
    "faults": "what goes wrong: see below",
    "thinking": "this many thoughts before it starts (3 if unset)",
    "delay": "waits this many seconds",
    "shell": "uses the shell: commands, or tables of `command`, `exit_code`, `stdout`; nothing is run",
    "write": "writes files: path = content",
    "plan": "the plan, in plan mode",
    "plan_as_text": "gives the plan as a message, as some models do",
    "say": "its last message",
    "usage": "what it reports: inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens",
    "shape": "how tools are printed: `current`, `function` or `case`, which are older",
    "stdout": "prints this line unchanged",
    "stderr": "prints this line on stderr",
    "exit_code": "ends with this exit code",
}
SETTINGS = {
    "logged_in": "`true`: no CURSOR_API_KEY is needed",
    "models": "further models: slug = display name",
    "version": "what `--version` prints",
    "faults": "what goes wrong in every launch",
    "on": "the entries",
}
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
