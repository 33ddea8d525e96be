"""Try an agent: one prompt in a throwaway repository shows in a minute whether it works here.

The repository, the supervisor's files and the raw output are in one folder; no file of the user is touched.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.errors import Interrupted, SegueError, UsageError, WorkspaceError
from segue.domain.events import Event
from segue.domain.job import Job, Mode
from segue.domain.outcome import Failure, FailureKind, Outcome
from segue.flow.watched import run_agent
from segue.ports import Agent
from segue.prompts.task import try_prompt
from segue.runtime.app import App
from segue.runtime.wiring import make_agent, raise_problems
from segue.system.git.outside import PLAIN_DIFF
from segue.system.git.repository import Repository
from segue.system.git.scratch import init_repository
from segue.system.lines import LineFramer, OutputLine
from segue.system.process.folder import Stream
from segue.system.process.group import on_interrupt
from segue.system.process.processes import Processes
from segue.system.redact import Redactor

if TYPE_CHECKING:
    from collections.abc import Iterator

_DIFF_CHARS = 200_000
_LINE_BYTES = 64 * 1024 * 1024
_EXIT_CODES = {FailureKind.AUTH: 4, FailureKind.NOT_STARTED: 5, FailureKind.INTERRUPTED: 130}
_EXIT_CODES |= {FailureKind.TIMEOUT: 124, FailureKind.HANG: 124}
_FAILED = 3
_SETTINGS = {
    "user.name": "Segue",
    "user.email": "segue@localhost",
    "commit.gpgsign": "false",
    # Do not run the user's hooks.
    "core.hooksPath": os.devnull,
}


class AgentTrial(Struct, frozen=True):
    """What to try, and where."""

    agent: str
    prompt: str
    mode: Mode
    model: str | None
    folder: Path

    @property
    def repo(self) -> Path:
        """The throwaway repository."""
        return self.folder / "repo"

    @property
    def stdout(self) -> Path:
        """The program's stdout, with secrets redacted."""
        return self.folder / "stdout"

    @property
    def stderr(self) -> Path:
        """The program's stderr, with secrets redacted."""
        return self.folder / "stderr"


class AgentTrialResult(Struct, frozen=True):
    """How a trial ended."""

    outcome: Outcome
    failure: Failure | None
    diff: str

    @property
    def exit_code(self) -> int:
        """The exit code of `segue try`."""
        return _EXIT_CODES.get(self.failure.kind, _FAILED) if self.failure else 0


async def try_agent(app: App, trial: AgentTrial, see: Callable[[Event], None]) -> AgentTrialResult:
    """Send the prompt to the agent in a new repository and return the outcome and the diff."""
    async with Processes(trial.folder / "run") as processes:
        services = app.services(processes, trial.repo)
        redactor = services.redactor
        agent = make_agent(trial.agent, app.loaded, services)
        refuse_unable(agent, trial.mode)
        repo = await new_repository(trial.repo)
        base = await repo.head()
        token = uuid.uuid4().hex
        labels = {"run": "try", "task": "try", "phase": trial.mode.value, "attempt": "1"}
        limits = replace(app.loaded.settings.limits.launch(), patience=0.0)  # a person waits for the answer
        job = Job(
            token, try_prompt(trial.prompt), repo.root, trial.mode, trial.model, limits=limits, labels=labels
        )

        async def emit(event: Event) -> None:
            see(redactor.struct(event))

        with interruptible(trial.folder):
            try:
                outcome = redactor.struct(await run_agent(agent, job, emit))
            finally:
                _keep_output(processes, token, trial, redactor)
        agent.forget(token)
    diff = redactor.text(await _diff(repo, base, trial.folder))
    return AgentTrialResult(outcome, outcome.failure or _forbidden_change(trial.mode, diff), diff)


def refuse_unable(agent: Agent, mode: Mode) -> None:
    """Raise if the agent cannot be tried here in this mode."""
    if agent.can.cloud:
        raise UsageError(
            f"{agent.name} works on a hosted repository, so it cannot be tried in a throwaway one.",
            hint=f"Run a small plan in a clone of one: segue run plan.md --agent {agent.name}",
        )
    able = {Mode.EDIT: agent.can.edits, Mode.PLAN: agent.can.plan_mode, Mode.ASK: agent.can.ask_mode}
    if not able[mode]:
        modes = ", ".join(mode.value for mode in Mode if able[mode])
        raise UsageError(f"{agent.name} has no {mode} mode.", hint=f"It has: {modes}")
    raise_problems(agent.check())


@contextmanager
def interruptible(folder: Path) -> Iterator[None]:
    """Let Ctrl-C stop the agent with all its children."""
    task = asyncio.current_task()
    assert task is not None
    try:
        with on_interrupt(task.cancel):
            yield
    except asyncio.CancelledError:
        raise Interrupted("The agent was stopped.", kept=f"Its work is in {folder}") from None


async def new_repository(folder: Path) -> Repository:
    """Make a repository with one commit, without the user's settings."""
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("A throwaway repository, made by `segue try`.\n")
    repo = await init_repository(folder, "--initial-branch=main")
    for name, value in _SETTINGS.items():
        await repo.set(name, value)
    await repo.git("add", "--all")
    await repo.git("commit", "--quiet", "--message", "Start")
    return repo


async def _diff(repo: Repository, base: str, folder: Path) -> str:
    """Return all changes since the start, committed or not."""
    try:
        await repo.git("add", "--all", "--intent-to-add")
        diff = await repo.git("diff", "--no-color", *PLAIN_DIFF, base)
    except WorkspaceError as error:
        raise WorkspaceError(error.message, kept=f"The agent's work is in {folder}") from error
    cut = len(diff) - _DIFF_CHARS
    return f"{diff[:_DIFF_CHARS]}\n[{cut} characters cut]\n" if cut > 0 else diff


def _forbidden_change(mode: Mode, diff: str) -> Failure | None:
    if mode is Mode.EDIT or not diff:
        return None
    return Failure(FailureKind.PLAN_EDITED, f"The agent changed files in {mode} mode.")


def _write_lines(file: BinaryIO, lines: list[OutputLine], redactor: Redactor) -> None:
    text = "".join(f"{line.text}\n" for line in lines)
    file.write(redactor.text(text).encode("utf-8", "replace"))


def _keep_output(processes: Processes, token: str, trial: AgentTrial, redactor: Redactor) -> None:
    """Copy the output from the supervisor's folder, with secrets redacted."""
    try:
        with trial.stdout.open("wb") as out, trial.stderr.open("wb") as err:
            files: dict[Stream, BinaryIO] = {"out": out, "err": err}
            lines = {name: LineFramer(_LINE_BYTES) for name in files}
            for name, data in processes.printed(token):
                _write_lines(files[name], lines[name].feed(data), redactor)
            for name, file in files.items():
                _write_lines(file, lines[name].close(), redactor)
    except OSError as error:
        raise SegueError(
            f"The agent's output could not be saved: {error.strerror or error}.",
            kept=f"The agent's work is in {trial.folder}",
            hint="Free some disk space, or choose another folder with --keep",
        ) from error
