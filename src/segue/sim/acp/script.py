"""What the stand-in for agents that speak the Agent Client Protocol is told to do, and whom it plays."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCRIPT = "SEGUE_SIM_ACP"
FAULTS_NOW = "SEGUE_SIM_ACP_FAULTS"

FAULTS = {
    "mute": "never answers",
    "die_at_start": "ends at once with exit code 1",
    "version": "speaks another version of the protocol",
    "auth": "demands authentication before it opens a session",
    "auth_fails": "the same, and then refuses it",
    "error": "answers the prompt with an error: see `error`",
    "error_text": "says the error as its last words and ends its turn as if all were well",
    "die": "ends in the middle of its turn with exit code 1",
    "close_stdout": "closes its output in the middle of its turn and stays",
    "hang": "never ends its turn",
    "retry": "tries again for ever because its service refuses, and says so in its log as OpenCode does",
    "ignore_cancel": "goes on when its turn is cancelled",
    "stay": "does not end when its input ends, nor when it is told to",
    "long_line": "prints a line of 10 MB",
    "noise": "prints a line that is no JSON",
    "unknown_update": "tells of something nobody knows",
    "unknown_request": "asks its client for a file and for things nobody knows",
    "late_history": "answers that a session is loaded before it tells the session's past, as Gemini does",
    "late_tool": "tells of a tool call only when it has ended",
    "reject_cancels": "ends its turn when it is denied something",
    "plan_writes": "works in plan mode as if it were none, without asking",
    "plan_asks": "works in plan mode as if it were none, but asks",
    "orphan": "leaves a process behind that holds its output open",
}
SELECTORS = {
    "launch": "the launch with this number, from 1, counted in the state file",
    "mode": "the mode by its own name, such as `plan` or `default`",
    "task": "the task with this key",
    "phase": "this phase: `plan`, `execute`, …",
    "attempt": "the attempt with this number, from 1",
    "contains": "prompts that hold this text",
}
ACTIONS = {
    "faults": "what goes wrong: see below",
    "stderr": "prints this line on stderr",
    "delay": "waits so many seconds",
    "thinking": "so many thoughts before it starts (2 if unset)",
    "read": "reads files: paths",
    "shell": "uses the shell: commands; nothing is really run",
    "write": "writes files: path = content",
    "plan": "the plan, in plan mode",
    "say": "its last message, in pieces",
    "usage": "what it reports with its result: inputTokens, outputTokens, totalTokens, …",
    "cost": "the dollars it reports for the whole session",
    "stop_reason": "why its turn ends (`end_turn` if unset)",
    "error": "the error of the fault `error`: `code`, `message`, `data`; its message is that of `error_text`",
}
SETTINGS = {"faults": "what goes wrong in every launch", "on": "the entries"}


class Unplayable(Exception):
    """The script cannot be played."""


@dataclass(frozen=True, slots=True)
class Flavour:
    """How one vendor's agent differs from the others."""

    version: str
    modes: tuple[str, ...]
    starts_in: str
    plan: str | None
    """The mode in which nothing is changed."""
    by_option: bool = False
    """The mode is an option of the session."""
    announces: bool = True
    """It tells of a tool call before it asks for permission."""
    resumes: bool = False
    auth: str = "login"


_URL = "https://agentclientprotocol.com/protocol/session-modes#"
FLAVOURS = {
    "gemini": Flavour(
        "0.61.0",
        ("default", "autoEdit", "yolo", "plan"),
        "default",
        "plan",
        announces=False,
        auth="gemini-api-key",
    ),
    "copilot": Flavour(
        "GitHub Copilot CLI 1.0.102.\nRun 'copilot update' to check for updates.",
        tuple(f"{_URL}{mode}" for mode in ("agent", "plan", "autopilot")),
        f"{_URL}agent",
        f"{_URL}plan",
        auth="copilot-login",
    ),
    "opencode": Flavour(
        "1.18.18", ("build", "plan"), "build", "plan", by_option=True, resumes=True, auth="opencode-login"
    ),
    "qwen": Flavour(
        "0.24.4",
        ("plan", "default", "auto-edit", "auto", "yolo"),
        "auto",
        "plan",
        resumes=True,
        auth="openai",
    ),
    "vibe": Flavour("vibe-acp 3.0.3", ("ask", "accept-edits", "auto-approve"), "accept-edits", None),
    "cursor": Flavour("2026.09.28-64d2043", ("agent", "plan", "ask"), "agent", "plan", auth="cursor_login"),
}


@dataclass(frozen=True, slots=True)
class Script:
    """The settings and entries of a script, and the file that remembers what was played."""

    settings: Mapping[str, Any]
    state: Path

    def note(self, **facts: Any) -> int:
        """Write a JSON line into the state file, and say how many of this kind there are."""
        # One write at the file's end: where it ends tells what came before, whoever else writes.
        fd = os.open(self.state, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(fd, json.dumps(facts).encode() + b"\n")
            end = os.lseek(fd, 0, os.SEEK_CUR)
        finally:
            os.close(fd)
        lines = map(json.loads, self.state.read_bytes()[:end].splitlines())
        return sum(line["type"] == facts["type"] for line in lines)

    def prompts(self, session: str) -> int:
        """How often a session was prompted."""
        if not self.state.exists():
            return 0
        lines = map(json.loads, self.state.read_bytes().splitlines())
        return sum(line["type"] == "prompt" and line["session"] == session for line in lines)

    def entry(self, launch: int, mode: str, prompt: str) -> Mapping[str, Any]:
        """The first entry that fits; an empty one when none does."""
        facts = {"launch": str(launch), "mode": mode}
        facts |= {name: os.environ.get(f"SEGUE_{name.upper()}", "") for name in ("task", "phase", "attempt")}
        for entry in self.settings.get("on", []):
            fits = all(str(entry.get(name, fact)) == fact for name, fact in facts.items())
            if fits and entry.get("contains", "") in prompt:
                found: Mapping[str, Any] = entry
                return found
        return {}

    def faults(self, entry: Mapping[str, Any]) -> set[str]:
        """What goes wrong now."""
        now = os.environ.get(FAULTS_NOW, "").replace(",", " ").split()
        found = {*now, *self.settings.get("faults", []), *entry.get("faults", [])}
        _check(found, FAULTS, "fault")
        return found


def load(home: Path) -> Script:
    """Read the script that the environment names; without one, launches are counted in `home`."""
    named = os.environ.get(SCRIPT)
    if not named:
        return Script({}, home / ".segue-sim-acp.jsonl")
    path = Path(named)
    try:
        text = path.read_text("utf-8")
        settings = json.loads(text) if path.suffix == ".json" else _toml(text)
    except (OSError, ValueError) as error:
        raise Unplayable(f"sim: {path} cannot be read: {error}") from None
    _check(settings, SETTINGS, "key")
    for entry in settings.get("on", []):
        _check(entry, SELECTORS | ACTIONS, "key")
    return Script(settings, path.with_name(path.name + ".state"))


def _toml(text: str) -> Any:
    import tomllib  # takes a while, and most launches have no script

    return tomllib.loads(text)


def _check(names: Any, known: Mapping[str, str], what: str) -> None:
    for name in names:
        if name not in known:
            raise Unplayable(f"sim: unknown {what} {name!r}; known: {', '.join(known)}")
