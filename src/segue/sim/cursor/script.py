"""What the stand-in for Cursor's `agent` is told to do, and its memory of what it has done."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segue.sim.cursor.flags import Refused

SCRIPT = "SEGUE_SIM_AGENT"
FAULTS_NOW = "SEGUE_SIM_FAULTS"
LOGGED_IN = "SEGUE_SIM_LOGGED_IN"

FAULTS = {
    "hang_before_init": "prints nothing and never ends",
    "hang": "starts a command after its first words and never ends",
    "hang_after_result": "prints its result and never ends",
    "ignore_stdin": "never reads its stdin",
    "empty": "ends with exit code 0 and prints nothing",
    "no_result": "ends with exit code 0 and without a result",
    "truncated": "stops in the middle of its last line",
    "error_result": "prints a result that says it is an error",
    "not_json": "prints a line that is no JSON",
    "unknown_event": "prints an event of a kind nobody knows",
    "bad_utf8": "prints bytes that are no UTF-8",
    "long_line": "prints a line of 10 MB",
    "orphan": "leaves a process behind that holds its stdout open",
    "config_race": "fails as it does when several start at once, unless it has a CURSOR_CONFIG_DIR",
    "quota": "says that the quota is used up",
    "bad_key": "says that the API key is invalid",
    "no_usage": "reports no usage, as builds of early 2026",
}
SELECTORS = {
    "launch": "the launch with this number, from 1, counted in the state file",
    "mode": "`agent`, `plan` or `ask`",
    "task": "the task with this key",
    "phase": "this phase: `plan`, `execute`, …",
    "attempt": "the attempt with this number, from 1",
    "contains": "prompts that hold this text",
}
ACTIONS = {
    "faults": "what goes wrong: see below",
    "thinking": "so many thoughts before it starts (3 if unset)",
    "delay": "waits so many seconds",
    "shell": "uses the shell: commands, or tables of `command`, `exit_code`, `stdout`; nothing is really run",
    "write": "writes files: path = content",
    "plan": "the plan, in plan mode",
    "plan_as_text": "gives the plan as a message, as some models do",
    "say": "its last message",
    "usage": "what it reports: inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens",
    "shape": "how tools are printed: `current`, `function` or `case`, which are older",
    "stdout": "prints this line as it is",
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


@dataclass(frozen=True, slots=True)
class Log:
    """The state file: one JSON line per launch and per turn of a session."""

    path: Path

    def begin(self, argv: list[str], mode: str) -> int:
        """Note a launch and say which one it is, also when several begin at once."""
        seen = sorted(name for name in os.environ if name.startswith(("CURSOR_", "VSCODE_")))
        config = os.environ.get("CURSOR_CONFIG_DIR", "")
        facts = {"argv": argv, "mode": mode, "cwd": str(Path.cwd()), "env": seen, "config_dir": config}
        end = self._append(facts)
        return sum("argv" in line for line in self._lines(end))

    def turn(self, session: str, prompt: str) -> int:
        """Note a turn of a session and say which one it is."""
        data = prompt.encode("utf-8", "replace")
        digest = hashlib.sha256(data).hexdigest()
        end = self._append({"session": session, "prompt_sha256": digest, "prompt_bytes": len(data)})
        return sum(line.get("session") == session for line in self._lines(end))

    def last_session(self) -> str:
        """The session that spoke last; empty when there was none."""
        sessions = [line["session"] for line in self._lines(None) if "session" in line]
        return sessions[-1] if sessions else ""

    def _append(self, facts: dict[str, Any]) -> int:
        # One write at the file's end: where it ends tells what came before, whoever else writes.
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(fd, json.dumps(facts).encode() + b"\n")
            return os.lseek(fd, 0, os.SEEK_CUR)
        finally:
            os.close(fd)

    def _lines(self, end: int | None) -> Iterator[dict[str, Any]]:
        if self.path.exists():
            for line in self.path.read_bytes()[:end].splitlines():
                yield json.loads(line)


@dataclass(frozen=True, slots=True)
class Script:
    """The settings and entries of a script, and the memory that goes with it."""

    settings: dict[str, Any]
    log: Log

    @property
    def logged_in(self) -> bool:
        """Whether no key is needed; the variable counts more than the script."""
        told = os.environ.get(LOGGED_IN)
        return told == "1" if told is not None else bool(self.settings.get("logged_in"))

    def entry(self, number: int, mode: str, prompt: Callable[[], str]) -> dict[str, Any]:
        """The first entry that fits this launch; an empty one when none does."""
        facts = {"launch": str(number), "mode": mode}
        facts |= {name: os.environ.get(f"SEGUE_{name.upper()}", "") for name in ("task", "phase", "attempt")}
        entries: list[dict[str, Any]] = self.settings.get("on", [])
        for entry in entries:
            fits = all(str(entry.get(name, fact)) == fact for name, fact in facts.items())
            if fits and ("contains" not in entry or entry["contains"] in prompt()):
                return entry
        return {}

    def faults(self, entry: dict[str, Any]) -> set[str]:
        """What goes wrong in this launch."""
        now = [name for name in os.environ.get(FAULTS_NOW, "").replace(",", " ").split() if name]
        found = {*now, *self.settings.get("faults", []), *entry.get("faults", [])}
        _check(found, FAULTS, "fault")
        return found


def load(home: Path | None) -> Script:
    """Read the script that the environment names; `home` is where launches are counted without one."""
    named = os.environ.get(SCRIPT)
    if not named:
        return Script({}, Log((home or Path(tempfile.gettempdir())) / ".segue-sim-agent.jsonl"))
    path = Path(named)
    try:
        text = path.read_text("utf-8")
        settings = json.loads(text) if path.suffix == ".json" else _toml(text)
    except (OSError, ValueError) as error:
        raise Refused(f"sim: {path} cannot be read: {error}") from None
    _check(settings, SETTINGS, "key")
    for entry in settings.get("on", []):
        _check(entry, SELECTORS | ACTIONS, "key")
    return Script(settings, Log(path.with_name(path.name + ".state")))


def _toml(text: str) -> Any:
    import tomllib  # takes a while, and most launches have no script

    return tomllib.loads(text)


def _check(names: Any, known: dict[str, str], what: str) -> None:
    for name in names:
        if name not in known:
            raise Refused(f"sim: unknown {what} {name!r}; known: {', '.join(known)}")
