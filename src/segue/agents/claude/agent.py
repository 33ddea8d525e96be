"""The claude agent: Claude Code, the program `claude`, without its terminal interface.

See `docs/guides/agents.md` for the flags and what they allow, and `lines` for what it prints. Each launch is
one process that gets the prompt on stdin, and more while it works; all launches of a run share a
configuration folder of their own.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Literal

from msgspec import field

from segue.agents.claude.lines import LOGIN, RESULT, ClaudeLines, write_message
from segue.agents.local.launch import SessionUsage, flag, run_program
from segue.agents.local.program import (
    InstalledProgram,
    LoginProbe,
    Program,
    check_program_name,
    find_key,
    in_home,
)
from segue.domain.events import Event
from segue.domain.job import Job, Mode
from segue.domain.options import Amount, Count, NonNegative, NonNegativeFloat, Options
from segue.domain.outcome import Outcome
from segue.ports import Capabilities
from segue.system.isolation.policy import Places
from segue.system.process.processes import Command
from segue.system.services import Services

_CLAUDE = Program(
    "claude",
    "Claude Code",
    ("claude",),
    "Install it: npm install -g @anthropic-ai/claude-code",
    r"\d+\.\d+\.\d+\S* \(Claude Code\)",
    LOGIN,
    LoginProbe(("auth", "status", "--json"), r'"loggedIn"\s*:\s*false\b', r'"loggedIn"\s*:\s*true\b'),
    untold="when its service fails late in an answer",
)
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
_QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
_TOOLS, _WEB = "Read,Grep,Glob", "WebSearch,WebFetch"


class ClaudeOptions(Options, frozen=True):
    """The table `[agents.claude]`."""

    agent_cmd: str | None = None
    """The program: a name on PATH or a full path; `claude` if unset."""
    permission_mode: Literal["bypassPermissions", "acceptEdits", "auto", "dontAsk"] = "bypassPermissions"
    """What Claude may do in edit mode without asking; anything else is denied."""
    allowed_tools: list[str] = []
    """More tools it may use in edit mode, such as `Bash(git *)`."""
    max_turns: Count | None = None
    """Turns of the model in one launch."""
    max_budget_usd: Amount | None = None
    """Dollars that one launch may cost, as Claude counts them."""
    max_retries: NonNegative = 4
    """How often Claude retries a request that its service refused; its own default is 10."""
    extra_args: list[str] = []
    """More arguments, after all others."""
    pass_env: list[str] = field(default_factory=lambda: [*KEYS, "ANTHROPIC_BASE_URL"])
    """Environment variables that the agent may see."""
    own_config_dir: bool = True
    """Use a CLAUDE_CONFIG_DIR per run if a key or token is set; else your login."""
    result_grace: NonNegativeFloat = 60.0
    """Seconds of silence after a result, while a command runs in the background."""

    def __post_init__(self) -> None:
        check_program_name(self.agent_cmd)


class ClaudeAgent:
    """Runs Claude Code, one process per launch."""

    Options = ClaudeOptions
    name = "claude"
    can = Capabilities(
        plan_mode=True, ask_mode=True, follow_up=True, streams=True, reports_usage=True, reports_cost=True
    )

    def __init__(self, options: ClaudeOptions, services: Services) -> None:
        self._options, self._services = options, services
        self._program = InstalledProgram(_CLAUDE, options.agent_cmd, self._passed, self._key, _QUIET)
        self.check, self.installation = self._program.check, self._program.installation
        self.forget = services.processes.forget

    def run(self, job: Job) -> AsyncGenerator[Event | Outcome, None]:
        """Run Claude Code on the job and report what it prints."""
        lines = ClaudeLines(job.mode, SessionUsage.open(self._services.processes, self.name, job), job.hear)
        grace = self._options.result_grace
        return run_program(
            self._services,
            job,
            self._command(job),
            lines,
            patience=lambda: lines.patience(grace, job.limits),
        )

    def _command(self, job: Job) -> Command:
        variables = {"CLAUDE_CODE_MAX_RETRIES": str(self._options.max_retries)}
        if self._options.own_config_dir and self._key():
            variables["CLAUDE_CONFIG_DIR"] = str(self._services.processes.shared("claude-config"))
        given = variables.get("CLAUDE_CONFIG_DIR") or os.environ.get("CLAUDE_CONFIG_DIR")
        config = (Path(given),) if given else in_home(".claude", ".claude.json")
        places = Places(config, in_home(".local/share/claude"))
        is_root = hasattr(os, "geteuid") and os.geteuid() == 0
        if job.mode is Mode.EDIT and self._options.permission_mode == "bypassPermissions" and is_root:
            variables["IS_SANDBOX"] = "1"  # otherwise it refuses to run as root
        prompt = write_message(job.prompt.text) + "\n"
        return self._program.command(job, self._arguments(job), variables, places, prompt, RESULT)

    def tell(self, token: str, number: int, text: str) -> None:
        """Have Claude read more: before the next request to its model, or when it has ended its turn."""
        self._services.processes.tell(token, number, write_message(text, number))

    def _arguments(self, job: Job) -> list[str]:
        options = self._options
        caps = [cap for cap in (options.max_budget_usd, job.limits.cost_usd) if cap is not None]
        budget = min(caps, default=None)
        return [
            *("-p", "--output-format", "stream-json", "--verbose"),
            *("--input-format", "stream-json", "--replay-user-messages"),
            *(["--include-partial-messages"] if job.hear else []),
            *self._permissions(job),
            *flag("--model", job.model),
            *flag("--max-turns", options.max_turns),
            *flag("--max-budget-usd", budget and f"{budget:f}"),
            *flag("--resume", job.session),
            *options.extra_args,
        ]

    def _permissions(self, job: Job) -> list[str]:
        if job.mode is Mode.EDIT:
            allowed = flag("--allowedTools", ",".join(self._options.allowed_tools))
            return ["--permission-mode", self._options.permission_mode, *allowed]
        if job.mode is Mode.PLAN:
            return ["--permission-mode", "plan"]
        tools = f"{_TOOLS},{_WEB}" if job.web else _TOOLS
        return ["--tools", tools, *flag("--allowedTools", job.web and _WEB), "--permission-mode", "dontAsk"]

    def _passed(self) -> list[str]:
        # The user's own folder counts unless the run has one.
        return [*self._options.pass_env, "CLAUDE_CONFIG_DIR"]

    def _key(self) -> str | None:
        return find_key(KEYS, self._options.pass_env)
