"""The codex agent: OpenAI's Codex CLI, as `codex exec`.

See `docs/guides/agents.md` for the flags and what they allow, and `lines` for what it prints. Each launch is
one process that gets the prompt on stdin; all launches of a run share a CODEX_HOME of their own.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Literal

from msgspec import field

from segue.agents.codex.lines import LOGIN, CodexLines
from segue.agents.limits import SHORT_RETRY
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
from segue.domain.options import NonNegativeFloat, Options
from segue.domain.outcome import Outcome
from segue.ports import Capabilities
from segue.system.isolation.policy import Places
from segue.system.process.processes import Command
from segue.system.services import Services

KEY = "CODEX_API_KEY"
_MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}
# On every start it asks several hosts about plugins and updates, and waits for those it cannot reach.
_QUIET = ["-c", "analytics.enabled=false", "--disable", "plugins"]


class CodexOptions(Options, frozen=True):
    """The table `[agents.codex]`."""

    agent_cmd: str | None = None
    """The program: a name on PATH or a full path; `codex` if unset."""
    sandbox: Literal["workspace-write", "none"] = "workspace-write"
    """Where commands may write in edit mode: repository and temporary folders; anywhere."""
    network: bool = False
    """Let commands use the network inside the sandbox, loopback included."""
    config: list[str] = []
    """Settings of Codex, each as `-c` takes it: `model_reasoning_effort="high"`."""
    extra_args: list[str] = []
    """More arguments, before the prompt."""
    pass_env: list[str] = field(default_factory=lambda: [KEY])
    """Environment variables that the agent may see."""
    own_config_dir: bool = True
    """Use a CODEX_HOME per run if a key or a provider is set; else your login."""
    offline_grace: NonNegativeFloat = 120.0
    """Seconds that Codex may try to reach its service before it is stopped."""

    def __post_init__(self) -> None:
        check_program_name(self.agent_cmd)


def _find_native(found: Path) -> str | None:
    """Return the program that npm's launcher starts: killing a launcher on an old node leaves it alive."""
    launcher = found.resolve()
    if launcher.suffix != ".js":
        return None
    machine = _MACHINES.get(platform.machine().lower(), platform.machine())
    package = launcher.parent.parent
    for place in (package.parent, package / "node_modules" / "@openai"):
        for program in sorted(place.glob(f"codex-{sys.platform}-{machine}/vendor/*/bin/*")):
            if program.name in ("codex", "codex.exe") and os.access(program, os.X_OK):
                return str(program)
    return None


_CODEX = Program(
    "codex",
    "Codex",
    ("codex",),
    "Install it: npm install -g @openai/codex",
    r"codex-cli \d+\.\d+\.\d+\S*",
    LOGIN,
    LoginProbe(("login", "status"), r"Not logged in", r"Logged in"),
    _find_native,
)


class CodexAgent:
    """Runs `codex exec`, one process per launch."""

    Options = CodexOptions
    name = "codex"
    can = Capabilities(plan_mode=True, ask_mode=True, follow_up=True, streams=True, reports_usage=True)

    def __init__(self, options: CodexOptions, services: Services) -> None:
        self._options, self._services = options, services
        self._program = InstalledProgram(_CODEX, options.agent_cmd, self._passed, self._key)
        self.check, self.installation = self._program.check, self._program.installation
        self.forget = services.processes.forget

    def run(self, job: Job) -> AsyncGenerator[Event | Outcome, None]:
        """Run Codex on the job and report what it prints."""
        note = self._services.processes.scratch(job.token) / "gave-up"
        usage = SessionUsage.open(self._services.processes, self.name, job)
        lines = CodexLines(job.mode, usage, job.model, note.exists, self._homes()[0], job.hear)
        # It says that it tries again, but not when: a moment is its own business, if others could work.
        grace = min(self._options.offline_grace, max(job.limits.patience, SHORT_RETRY))

        def patience() -> float | None:
            if lines.offline_since is None:
                return None
            return max(0.0, lines.offline_since + grace - time.monotonic())

        return run_program(
            self._services,
            job,
            self._command(job),
            lines,
            patience,
            give_up=note.touch,
        )

    def _command(self, job: Job) -> Command:
        variables, homes = self._own_folders(), self._homes()
        return self._program.command(job, self._arguments(job), variables, Places(homes))

    def _homes(self) -> tuple[Path, ...]:
        """Return the folders that are Codex's own; the first has its sessions."""
        theirs = os.environ.get("CODEX_HOME")
        own = tuple(map(Path, self._own_folders().values()))
        return own or (Path(theirs) if theirs else in_home(".codex")[0],)

    def _own_folders(self) -> dict[str, str]:
        """Return folders of the run for Codex; it keeps no programs in the machine's temporary folder.

        It starts such a program in its sandbox, so a state folder in there needs a temporary folder apart.
        Without a key there are none: the user's own has the login.
        """
        if not self._options.own_config_dir or not self._key():
            return {}
        home = self._services.processes.shared("codex-home")
        variables = {"CODEX_HOME": str(home)}
        if home.resolve().is_relative_to(Path(tempfile.gettempdir()).resolve()):
            variables["TMPDIR"] = str(self._services.processes.shared("codex-tmp"))
        return variables

    def _arguments(self, job: Job) -> list[str]:
        session = [job.session] if job.session else []
        return [
            *("exec", "--color", "never", *(["resume"] if session else []), "--json", *_QUIET),
            *("--skip-git-repo-check", *self._sandbox(job)),
            *flag("-c", job.web and 'web_search="live"'),
            *flag("-m", job.model),
            *(part for setting in self._options.config for part in ("-c", setting)),
            *self._options.extra_args,
            *session,
            "-",
        ]

    def _sandbox(self, job: Job) -> list[str]:
        is_free = job.mode is Mode.EDIT and self._options.sandbox == "none"
        if is_free or self._services.isolation.forbids_own:
            return ["--dangerously-bypass-approvals-and-sandbox"]
        mode = self._options.sandbox if job.mode is Mode.EDIT else "read-only"
        network = job.mode is Mode.EDIT and self._options.network
        # `exec resume` does not take -s.
        chosen = ["-c", f'sandbox_mode="{mode}"'] if job.session else ["-s", mode]
        return [*chosen, *(["-c", "sandbox_workspace_write.network_access=true"] if network else [])]

    def _passed(self) -> list[str]:
        # The user's own folder counts unless the run has one.
        return [*self._options.pass_env, "CODEX_HOME"]

    def _key(self) -> str | None:
        """Return what replaces a login: a key, or a provider of the user's own."""
        has_provider = any(setting.startswith("model_provider") for setting in self._options.config)
        return "agents.codex.config" if has_provider else find_key([KEY], self._options.pass_env)
