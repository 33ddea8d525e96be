"""The words of the script for agents that speak the Agent Client Protocol, and the agents it can play."""

from __future__ import annotations

from typing import NamedTuple

from segue.sim import script
from segue.sim.script import ScriptWords

FAULTS = {
    "mute": "never answers",
    "die_at_start": "ends at once with exit code 1",
    "version": "speaks another version of the protocol",
    "auth": "requires authentication before it opens a session",
    "auth_fails": "the same, and then refuses it",
    "no_session": "answers that it failed itself when a session is to begin",
    "error": "answers the prompt with an error: see `error`",
    "error_text": "reports the error in its last message and ends its turn as if it had succeeded",
    "die": "ends in the middle of its turn with exit code 1",
    "close_stdout": "closes its output in the middle of its turn and stays",
    "hang": "never ends its turn",
    "retry": "retries forever because its service refuses, and logs it as OpenCode does",
    "ignore_cancel": "continues when its turn is cancelled",
    "stay": "does not end when its input ends, nor on SIGTERM",
    "long_line": "prints a line of 10 MB",
    "noise": "prints a line that is not JSON",
    "unknown_update": "sends an unknown update",
    "unknown_request": "asks its client for a file and sends an unknown request",
    "late_history": "answers that a session is loaded before it replays the session, as Gemini does",
    "late_tool": "reports a tool call only when it has ended",
    "reject_cancels": "ends its turn when it is denied something",
    "plan_writes": "works in plan mode as in any other, without asking",
    "plan_asks": "works in plan mode as in any other, but asks",
    "orphan": "leaves a process behind that keeps its output open",
}
SELECTORS = script.SELECTORS | {"mode": "the mode by its own name, such as `plan` or `default`"}
ACTIONS = {
    "faults": "what goes wrong: see below",
    "stderr": "prints this line on stderr",
    "delay": "waits this many seconds",
    "thinking": "this many thoughts before it starts (2 if unset)",
    "read": "reads files: paths",
    "shell": "uses the shell: commands; nothing is run",
    "write": "writes files: path = content",
    "plan": "the plan, in plan mode",
    "say": "its last message, in pieces",
    "usage": "what it reports with its result: inputTokens, outputTokens, totalTokens, …",
    "cost": "the dollars it reports for the whole session",
    "stop_reason": "why its turn ends (`end_turn` if unset)",
    "error": "the error of the fault `error`: `code`, `message`, `data`; its message is that of `error_text`",
}
SETTINGS = {"faults": "what goes wrong in every launch", "on": "the entries"}
WORDS = ScriptWords(
    SETTINGS, SELECTORS, ACTIONS, FAULTS, "SEGUE_SIM_ACP", "SEGUE_SIM_ACP_FAULTS", ".segue-sim-acp.jsonl"
)


class Flavour(NamedTuple):
    """The modes and habits of one vendor's agent."""

    version: str
    modes: tuple[str, ...]
    starts_in: str
    plan: str | None
    """The mode in which it changes nothing."""
    by_option: bool = False
    """The mode is an option of the session."""
    announces: bool = True
    """It reports a tool call before it asks for permission."""
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
