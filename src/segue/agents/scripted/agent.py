"""The scripted agent: deterministic, without keys or network, yet a real process that edits real files.

Without a script it writes one small note per task.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from pathlib import Path

from segue import __version__
from segue.agents.local.failures import FailureTable
from segue.agents.local.launch import ProcessEnd, make_command, run_program
from segue.agents.local.lines import LineReader
from segue.agents.local.speech import Hear
from segue.agents.local.values import Json, as_count, as_money, as_table, as_text
from segue.agents.scripted.acts import ScriptedEntry, load_script, make_note, pick_entry, write_acts
from segue.domain.events import AgentTool, AgentUsage, Event
from segue.domain.job import Job
from segue.domain.options import Options
from segue.domain.outcome import Failure, FailureKind, Outcome, Usage
from segue.ports import Capabilities, Installation, Problem
from segue.system.process.segue import part_command
from segue.system.services import Services

FAILURES = FailureTable("the agent", login="")


class ScriptedLines:
    """Remembers what the outcome of a launch needs."""

    def __init__(self, hear: Hear | None = None) -> None:
        self._result: Json | None = None
        self._lines = LineReader(
            {
                "text": self._read_text,
                "tool": lambda line: [
                    AgentTool(as_text(line.get("name")), dict(as_table(line.get("input"))))
                ],
                "usage": self._read_usage,
                "result": self._read_result,
            },
            hear=hear,
        )
        self.read = self._lines.read

    def _read_text(self, line: Json) -> list[Event]:
        return self._lines.say(as_text(line.get("text")))

    def _read_usage(self, line: Json) -> list[Event]:
        tokens = as_count(line.get("input_tokens")), as_count(line.get("output_tokens"))
        used = AgentUsage(*tokens, as_money(line.get("cost_usd")))
        self._lines.usage = total = (self._lines.usage or Usage()) + used.count()
        return [AgentUsage(total.input_tokens, total.output_tokens, total.cost_usd)]

    def _read_result(self, line: Json) -> list[Event]:
        self._result = line
        return []

    def outcome(self, end: ProcessEnd, now: float) -> Outcome:
        """Return how the launch ended, judging by everything that was read."""
        said = as_text((self._result or {}).get("text"))
        return self._lines.outcome(end, said, self._failure(end, now, said), {})

    def _failure(self, end: ProcessEnd, now: float, said: str) -> Failure | None:
        if self._result is None:
            return FAILURES.judge_end(end, self._lines, now)
        if self._result.get("ok"):
            return end.failure(now, self._lines.plain_text)
        known = end.failure(now, self._lines.plain_text)
        return known or Failure(FailureKind.UNKNOWN, said or "the agent reports a failure")


class ScriptedOptions(Options, frozen=True):
    """The table `[agents.scripted]`."""

    script: Path | None = None
    """A TOML file that says what the agent does."""


class ScriptedAgent:
    """Plays a script in a process of its own."""

    Options = ScriptedOptions
    name = "scripted"
    has_vendor = False
    can = Capabilities(plan_mode=True, ask_mode=True, streams=True, reports_usage=True, reports_cost=True)

    def __init__(self, options: ScriptedOptions, services: Services) -> None:
        self._script = options.script.absolute() if options.script else None
        self._services = services
        if self._script:
            load_script(self._script)

    def check(self) -> list[Problem]:
        """Return nothing: the agent is part of the package, so nothing can be missing."""
        return []

    def installation(self) -> Installation:
        """Return the Python that plays the script, and the version of the package."""
        return Installation(sys.executable, __version__)

    def run(self, job: Job) -> AsyncGenerator[Event | Outcome, None]:
        """Play the script and report what the process prints."""
        argv = part_command("segue.agents.scripted.child")
        entry = pick_entry(load_script(self._script).on, job) if self._script else None
        acts = write_acts(entry or ScriptedEntry(write=make_note(job)), job)
        return run_program(self._services, job, make_command(job, argv, stdin=acts), ScriptedLines(job.hear))

    def forget(self, token: str) -> None:
        """Drop what was kept for an adoption."""
        self._services.processes.forget(token)
