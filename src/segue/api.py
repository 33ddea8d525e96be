"""Run a source from Python, watch its events, read the store; and what helps to write an agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from segue.agents.local.launch import PlainOutput, ReadLine, make_command
from segue.agents.local.launch import run_program as run_command
from segue.domain.errors import SegueError
from segue.domain.events import Event
from segue.domain.job import Job
from segue.domain.outcome import Outcome
from segue.domain.run import RunState
from segue.ports import Observer
from segue.runtime.app import App
from segue.system.services import Services
from segue.view.load import load_view
from segue.view.run import RunView

if TYPE_CHECKING:
    from segue.store.store import Store


class RunResult(Struct, frozen=True):
    """How a run ended."""

    run: str | None
    """Its id; None when there was nothing to do."""
    state: RunState
    view: RunView
    error: SegueError | None = None
    """What stopped it before all tasks were done."""

    @property
    def exit_code(self) -> int:
        """What the command line would have ended with."""
        return self.error.exit_code if self.error else 0


def run(
    source: str | Path,
    *,
    agent: str | None = None,
    repo: str | Path | None = None,
    tasks: Sequence[str] = (),
    observers: Sequence[Observer] = (),
    **settings: Any,
) -> RunResult:
    """Run the tasks of a source with an agent, as `segue run` does, and return how it ended.

    `settings` are those of segue.toml (`checks=["pytest -q"]`, `limits={"attempts": 2}`). Every event is
    passed to the observers. Mistakes in the settings raise UsageError; a task that needs a human does not.
    """
    return asyncio.run(
        run_async(source, agent=agent, repo=repo, tasks=tasks, observers=observers, **settings)
    )


async def run_async(
    source: str | Path,
    *,
    agent: str | None = None,
    repo: str | Path | None = None,
    tasks: Sequence[str] = (),
    observers: Sequence[Observer] = (),
    **settings: Any,
) -> RunResult:
    """Do what `run` does, in an event loop that is running already."""
    from segue.runtime.open import open_run
    from segue.runtime.session import run_session
    from segue.runtime.task_choice import TaskChoice

    app = App.load(Path(repo) if repo else None, None, {"agent": agent, **settings})
    async with open_run(app, str(source), TaskChoice(tuple(tasks))) as opened:
        if opened is None:
            return RunResult(None, RunState.DONE, RunView())
        ended = await run_session(opened, observers)
    with app.store(read_only=True) as store:
        found = store.run(ended.run)
        assert found is not None
        return RunResult(ended.run, ended.state, load_view(store, found), ended.error)


def open_store(repo: str | Path | None = None, **settings: Any) -> Store:
    """Open the database that the settings name, for reading."""
    return App.load(Path(repo) if repo else None, None, settings, need="place").store(read_only=True)


def run_program(
    services: Services,
    job: Job,
    argv: Sequence[str],
    read_line: ReadLine | None = None,
    *,
    env: Mapping[str, str] | None = None,
    pass_env: Sequence[str] = (),
) -> AsyncGenerator[Event | Outcome, None]:
    """Run a program for a job and yield what an agent's `run` must yield.

    The program gets the prompt on stdin. It is started under Segue's supervisor, survives a crash of Segue
    and is adopted afterwards. What it prints is bounded, and redacted when it is
    stored. `read_line` turns a line into events.
    """
    command = make_command(job, argv, pass_env, env)
    return run_command(services, job, command, PlainOutput(job.model, read_line))
