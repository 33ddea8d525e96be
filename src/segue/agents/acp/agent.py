"""Agents that speak the Agent Client Protocol: Gemini, Copilot, OpenCode, Qwen, and the user's.

`profiles` has what differs between them. Each launch is one process of our own, the driver in `child`, which
starts the agent and talks to it; `lines` reads what the driver prints.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import ClassVar

from msgspec import Struct, structs

from segue import __version__
from segue.agents.acp.lines import RESULT, AcpLines
from segue.agents.acp.profiles import ModeNames, Profile, ToolPolicy, load_profiles
from segue.agents.limits import SHORT_RETRY
from segue.agents.local.launch import SessionUsage, make_command, run_program
from segue.agents.local.program import (
    InstalledProgram,
    Program,
    check_program_name,
    find_key,
    in_home,
)
from segue.domain.events import AgentStarted, Event
from segue.domain.job import Job, Mode
from segue.domain.options import NonNegativeFloat, Options, Seconds
from segue.domain.outcome import Outcome
from segue.ports import Capabilities
from segue.system.files import write_atomic
from segue.system.isolation.places import program_places
from segue.system.isolation.policy import Places
from segue.system.process.processes import Command
from segue.system.process.segue import part_command
from segue.system.services import Services


class AcpOptions(Options, frozen=True):
    """The table `[agents.NAME]` of an agent that speaks the Agent Client Protocol."""

    agent_cmd: str | None = None
    """The program: a name on PATH or a full path; the profile's if unset."""
    extra_args: list[str] = []
    """More arguments, after all others."""
    env: dict[str, str] = {}
    """Variables to set. Secrets belong in pass_env."""
    pass_env: list[str] = []
    """Environment variables that the agent may see, besides the profile's."""
    permissions: ToolPolicy | None = None
    """What is allowed in edit mode when the agent asks: `all`, `edits` (reading and changing files) or
    `read`; the profile's if unset."""
    modes: ModeNames = ModeNames()
    auth_method: str | None = None
    """The authentication method, if the agent asks for one."""
    own_config_dir: bool = True
    """Use a configuration folder per run, where the agent can, if a key is set; without a key your login is
    used."""
    start_timeout: Seconds = 120.0
    """Seconds that the agent may take to answer before the prompt is sent."""
    retry_grace: NonNegativeFloat = 120.0
    """Seconds that the agent may retry while its service refuses; then it is stopped."""
    end_grace: Seconds = 2.0
    """Seconds between the steps that stop the agent after its turn."""

    def __post_init__(self) -> None:
        check_program_name(self.agent_cmd)


class AcpAgent:
    """Runs an agent through the driver, one process per launch."""

    Options = AcpOptions

    def __init__(self, name: str, profile: Profile, options: AcpOptions, services: Services) -> None:
        self.name = name
        self._profile, self._options, self._services = profile, options, services
        given = {mode: word for mode, word in structs.asdict(options.modes).items() if word is not None}
        self._modes = structs.replace(profile.modes, **given)
        self.can = Capabilities(
            plan_mode=self._modes.plan is not None,
            ask_mode=self._modes.ask is not None,
            follow_up=True,
            streams=True,
            reports_usage=profile.reports_usage,
            reports_cost=profile.reports_cost,
        )
        install = f"Install it: {profile.install}" if profile.install else ""
        title = profile.title or name
        program = Program(name, title, (profile.argv[0],), install, profile.version, untold=profile.untold)
        self._program = InstalledProgram(program, options.agent_cmd, self._passed, self._key, options.env)
        self.check, self.installation = self._program.check, self._program.installation
        self.forget = services.processes.forget

    async def run(self, job: Job) -> AsyncGenerator[Event | Outcome, None]:
        """Have the driver do the job and report what it prints."""
        usage = SessionUsage.open(self._services.processes, self.name, job)
        lines = AcpLines(self.name, self._profile, job.mode, usage, job.hear)
        async with aclosing(run_program(self._services, job, self._command(job), lines)) as items:
            async for item in items:
                if isinstance(item, Outcome):
                    for held in lines.rest:
                        yield held
                # The program is the agent's, not the driver.
                yield AgentStarted(self._argv()[0]) if isinstance(item, AgentStarted) else item

    def _command(self, job: Job) -> Command:
        shared = self._services.processes.shared(self.name)
        folder = shared / "config"
        for file in self._profile.files:
            place = folder / file.path
            place.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(place, file.text.encode())
        begun = folder / "begun"
        times = {"not_before": self._not_before(job, begun), "begun": str(begun)}
        stdin = json.dumps({**self._document(job), **times})
        argv = part_command("segue.agents.acp.child")
        variables = self._variables(job, folder)
        own = Places((folder, *in_home(*self._profile.home)), tuple(program_places(self._argv(), variables)))
        return make_command(job, argv, self._passed(), variables, f"{stdin}\n", own, RESULT)

    def tell(self, token: str, number: int, text: str) -> None:
        """Have the driver prompt the agent again when it has ended its turn, in the same session."""
        line = json.dumps({"number": number, "text": text})
        self._services.processes.tell(token, number, line)

    def _not_before(self, job: Job, begun: Path) -> float:
        """Return when the session may be continued; the driver notes later when it began its own.

        Starting takes seconds, so the minute of the launch may not be that of the session.
        """
        if not self._profile.one_launch_a_minute:
            return 0.0
        last = begun.stat().st_mtime if job.session and begun.exists() else 0.0
        begun.parent.mkdir(parents=True, exist_ok=True)
        begun.touch()
        return (last // 60 + 1) * 60

    def _document(self, job: Job) -> dict[str, object]:
        """Return the document that the driver reads."""
        profile, options = self._profile, self._options
        policies = structs.asdict(profile.permissions)
        policies["edit"] = options.permissions or policies["edit"]
        by_option = job.model if not (profile.model.args or profile.model.env) else None
        return {
            "argv": [*self._argv(), *self._model_arguments(job.model), *options.extra_args],
            "cwd": str(job.workspace),
            "client": {"name": "segue", "title": "Segue", "version": __version__},
            "session": job.session,
            "mode": {"name": getattr(self._modes, job.mode.value), "option": profile.mode_option},
            "model": {"name": by_option, "option": profile.model.option},
            "policy": policies[job.mode.value],
            "auth_method": options.auth_method or profile.auth_method,
            "prompt": job.prompt.text,
            "retry_text": profile.retry_text,
            "retry_grace": min(options.retry_grace, max(job.limits.patience, SHORT_RETRY)),
            "start_timeout": options.start_timeout,
            "end_grace": options.end_grace,
        }

    def _argv(self) -> list[str]:
        return [self._program.path(), *self._profile.argv[1:]]

    def _model_arguments(self, model: str | None) -> list[str]:
        return [part.replace("{model}", model) for part in self._profile.model.args] if model else []

    def _variables(self, job: Job, folder: Path) -> dict[str, str]:
        profile = self._profile
        own = profile.own_env if self._options.own_config_dir and self._key() else {}
        if own or profile.files:
            folder.mkdir(parents=True, exist_ok=True)
        chosen = {profile.model.env: job.model} if profile.model.env and job.model else {}
        given = profile.env | own | (profile.read_env if job.mode is not Mode.EDIT else {})
        filled = {name: value.replace("{folder}", str(folder)) for name, value in given.items()}
        return {**filled, **chosen, **self._options.env}

    def _passed(self) -> list[str]:
        profile = self._profile
        return [*profile.pass_env, *profile.login_env, *self._options.pass_env]

    def _key(self) -> str | None:
        return find_key(self._profile.login_env, self._passed())


class AcpKind(Struct, frozen=True):
    """Takes the place of an agent's class: makes an AcpAgent with a profile."""

    name: str
    profile: Profile
    Options: ClassVar[type[AcpOptions]] = AcpOptions

    def __call__(self, options: AcpOptions, services: Services) -> AcpAgent:
        """Make the agent."""
        return AcpAgent(self.name, self.profile, options, services)


GEMINI, COPILOT, OPENCODE, QWEN = (AcpKind(*known) for known in load_profiles().items())
