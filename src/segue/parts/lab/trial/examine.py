"""Have a short conversation with an agent in a throw-away repository and compare it with what Segue expects.

Two launches: one writes a small file, the other one continues the conversation.
"""

from __future__ import annotations

import platform
import re
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from segue import __version__
from segue.domain.events import AgentRaw, Event
from segue.domain.job import Job, Limits, Mode
from segue.domain.outcome import FailureKind, Outcome, Usage
from segue.flow.watched import run_agent
from segue.ports import Agent
from segue.prompts.task import try_prompt
from segue.runtime.app import App
from segue.runtime.registry import CORE
from segue.runtime.try_agent import interruptible, new_repository, refuse_unable
from segue.runtime.wiring import make_agent
from segue.system.git.repository import Repository
from segue.system.process.processes import Processes

_FILE, _TEXT, _NUMBER = "greeting.txt", "hello from segue", "7411"
_WORK = (
    f"Write the file {_FILE} in the current folder, with exactly this one line: {_TEXT}\n"
    f"Do nothing else. Then answer with one short sentence that contains the number {_NUMBER}."
)
_AGAIN = "Which number was in your last answer? Answer with the number alone, and change nothing."
_WALL, _SILENCE = 120.0, 60.0
_KIND = re.compile(r"[A-Za-z][\w./-]{0,59}")
_LIMITS = (FailureKind.USAGE_LIMIT, FailureKind.RATE_LIMIT)
_ELSEWHERE = (*_LIMITS, FailureKind.AUTH, FailureKind.OUTAGE, FailureKind.NOT_STARTED)
"""Failures that say something of the account, the model's name or the network, and nothing of the program."""
_WHY = {
    FailureKind.USAGE_LIMIT: "a limit of the account is reached",
    FailureKind.RATE_LIMIT: "its service asks to slow down",
    FailureKind.AUTH: "its service refused the login or key: log in again",
    FailureKind.OUTAGE: "its service could not be reached, or did not work",
    FailureKind.NOT_STARTED: "it did not start, or its service knows no such model: name one with --model",
    FailureKind.REFUSED: "the model refused",
    FailureKind.HANG: "it printed nothing for too long",
    FailureKind.TIMEOUT: "it took too long",
}

State = Literal["yes", "no", "not tried", "not seen"]


class TrialCheck(Struct, frozen=True):
    """One thing that Segue expects of an agent, and whether it was so."""

    name: str
    state: State
    note: str = ""


class TrialReport(Struct, frozen=True):
    """What a trial showed; nothing in it is a text, path or key of the user, or a text of the agent."""

    agent: str
    version: str
    segue: str
    system: str
    seconds: float
    usage: Usage | None
    checks: tuple[TrialCheck, ...]
    unknown: tuple[str, ...]
    """The kinds of lines that Segue does not know."""
    failure: FailureKind | None = None

    @property
    def is_fine(self) -> bool:
        """True if nothing was other than expected."""
        return all(check.state != "no" for check in self.checks)

    @property
    def verdict(self) -> str:
        """What follows from all checks, in a few words."""
        if self.failure in _ELSEWHERE and self.checks[0].state == "no":
            return "could not be tried"
        return "as expected" if self.is_fine else "not as expected"


class _Turn(Struct, frozen=True):
    outcome: Outcome
    kinds: tuple[str, ...]
    """The kinds of lines that came unread."""


async def examine(app: App, name: str, model: str | None, folder: Path) -> tuple[TrialReport, str]:
    """Try an agent with the user's own account and settings; also return how it failed, in its words.

    `folder` is thrown away by the caller.
    """
    async with Processes(folder / "run") as processes:
        services = app.services(processes, folder / "repo")
        agent = make_agent(name, app.loaded, services)
        refuse_unable(agent, Mode.EDIT)
        repo = await new_repository(folder / "repo")
        limits = app.loaded.settings.limits.launch()
        limits = replace(limits, wall=_WALL, idle=_SILENCE, patience=0.0)  # a person waits for the answer
        with interruptible(folder):
            first = await _launch(agent, repo, model, limits, _WORK, None)
            session = first.outcome.session if first.outcome.failure is None else None
            again = None
            if session and agent.can.follow_up:
                again = await _launch(agent, repo, model, limits, _AGAIN, session)
        changed = await _changes(repo)
    version = agent.installation().version or ""
    failures = (turn.outcome.failure for turn in (first, again) if turn)
    said = services.redactor.text(next((failure.message for failure in failures if failure), ""))
    return _report(name, version, agent, first, again, changed), said


async def _launch(
    agent: Agent, repo: Repository, model: str | None, limits: Limits, text: str, session: str | None
) -> _Turn:
    token, kinds = uuid.uuid4().hex, list[str]()

    async def see(event: Event) -> None:
        if isinstance(event, AgentRaw):
            kinds.append(event.kind)

    labels = {"run": "try", "task": "try", "phase": Mode.EDIT.value, "attempt": "1"}
    job = Job(token, try_prompt(text), repo.root, Mode.EDIT, model, session, limits=limits, labels=labels)
    outcome = await run_agent(agent, job, see)
    agent.forget(token)
    return _Turn(outcome, tuple(kinds))


async def _changes(repo: Repository) -> tuple[list[str], str]:
    """Return the files that differ, and what the one says that was asked for."""
    await repo.git("add", "--all", "--intent-to-add")
    files = (await repo.git("diff", "--name-only", "HEAD")).split()
    place = repo.root / _FILE
    return files, place.read_text("utf-8", "replace").strip() if place.is_file() else ""


def _report(
    name: str, version: str, agent: Agent, first: _Turn, again: _Turn | None, changed: tuple[list[str], str]
) -> TrialReport:
    turns = [first, *([again] if again else [])]
    used = [turn.outcome.usage for turn in turns if turn.outcome.usage]
    failure = next((turn.outcome.failure for turn in turns if turn.outcome.failure), None)
    unknown = sum(int(turn.outcome.facts.get("unknown_lines", 0)) for turn in turns)
    return TrialReport(
        agent=name if name in CORE["agents"] else "one of the user's own",
        version=version if re.fullmatch(r"[\w.+ ()-]{1,60}", version) else "not known",
        segue=__version__,
        system=f"{sys.platform} {platform.machine()}, Python {platform.python_version()}",
        seconds=round(sum(turn.outcome.duration for turn in turns), 1),
        usage=sum(used[1:], used[0]) if used else None,
        checks=tuple(_compare(agent, first, again, changed, unknown)),
        unknown=_name_kinds(turns) if unknown else (),
        failure=failure.kind if failure else None,
    )


def _compare(
    agent: Agent, first: _Turn, again: _Turn | None, changed: tuple[list[str], str], unknown: int
) -> Sequence[TrialCheck]:
    outcome, (files, text) = first.outcome, changed
    failure = outcome.failure
    if failure is not None:
        checks = [
            TrialCheck("works", "no", _WHY.get(failure.kind, f"it failed: {failure.kind}")),
            TrialCheck("lines are understood", _state(not unknown)),
        ]
        if failure.kind in _LIMITS:
            known = "" if failure.until else "not "
            checks.append(TrialCheck("limits are understood", "yes", f"its end is {known}known"))
        return checks
    follows = agent.can.follow_up
    kept = again is not None and again.outcome.failure is None and _NUMBER in again.outcome.text
    return [
        TrialCheck("works", _state(text == _TEXT), "" if text else "the file that was asked for is missing"),
        TrialCheck("changes only that", _state(files in ([], [_FILE])), f"{len(files)} files changed"),
        TrialCheck("gives a result", _state(bool(outcome.text.strip()))),
        TrialCheck("reports usage", _reports(agent.can.reports_usage, bool(outcome.usage))),
        TrialCheck(
            "reports cost",
            _reports(
                agent.can.reports_cost, outcome.usage is not None and outcome.usage.cost_usd is not None
            ),
        ),
        TrialCheck("continues its session", _state(kept) if follows else "not tried"),
        TrialCheck("lines are understood", _state(not unknown), f"{unknown} unknown" if unknown else ""),
        TrialCheck("limits are understood", "not seen", "no limit was met"),
    ]


def _state(ok: bool) -> State:
    return "yes" if ok else "no"


def _reports(claimed: bool, seen: bool) -> State:
    """Return whether an agent reports what Segue says that it reports."""
    if seen:
        return "yes"
    return "no" if claimed else "not seen"


def _name_kinds(turns: Sequence[_Turn]) -> tuple[str, ...]:
    """Return the kinds of lines that were kept as they came: names of the vendor's protocol, not texts."""
    kinds = (kind for turn in turns for kind in turn.kinds)
    return tuple(dict.fromkeys(kind for kind in kinds if _KIND.fullmatch(kind)))[:20]


def write_markdown(report: TrialReport) -> str:
    """Return the report as it is attached to an issue."""
    usage = report.usage
    spent = "not reported"
    if usage is not None:
        cost = "" if usage.cost_usd is None else f", ${usage.cost_usd:.4f}"
        spent = f"{usage.input_tokens} tokens in, {usage.output_tokens} out{cost}"
    rows = [f"| {check.name} | {check.state} | {check.note} |" for check in report.checks]
    lines = [
        f"# segue try {report.agent}: {report.verdict}",
        "",
        f"- agent: {report.agent} {report.version}",
        f"- Segue: {report.segue}, {report.system}",
        f"- took {report.seconds} s, {spent}",
        *([f"- kinds of lines that came unread: {', '.join(report.unknown)}"] if report.unknown else []),
        "",
        "| expected | seen | note |",
        "|---|---|---|",
        *rows,
    ]
    return "\n".join(lines) + "\n"
