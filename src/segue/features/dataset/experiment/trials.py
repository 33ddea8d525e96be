"""Runs the trials of an experiment, each in a repository of its own."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from segue.config.tree import environment_of
from segue.config.trust import VARIABLE
from segue.domain.run import Run, RunState, TrialSpec
from segue.features.dataset.experiment.file import Arm, Experiment, slug
from segue.runtime.app import App
from segue.system import identity
from segue.system.files import private_folder
from segue.system.git.repository import Repository
from segue.system.git.scratch import clone_whole
from segue.system.process.segue import run_segue

if TYPE_CHECKING:
    from segue.store.store import Store


_ENDED = (RunState.DONE, RunState.NEEDS_HUMAN)
"""States in which a trial is over: one that needs a human has failed, and counts."""


class Trial(Struct, frozen=True):
    """One prompt with one agent or arm, once."""

    prompt: str
    arm: Arm
    number: int
    repo: Path
    spec: TrialSpec
    """What is stored of it with its run."""

    @property
    def name(self) -> str:
        """The name shown to people."""
        of = self.arm.name or self.arm.choice.name
        return f"{self.repo.parent.parent.name} · {of} · {self.number}"


class TrialResult(Struct, frozen=True):
    """How a trial ended."""

    trial: Trial
    run: Run | None
    code: int
    log: Path

    @property
    def ended(self) -> bool:
        """Return whether the trial is over, successful or not."""
        return self.run is not None and self.run.state in _ENDED


TrialObserver = Callable[[str, Trial, Run | None], None]
"""Called with `started`, `waiting` (for another process), `finished`, `kept` (it was over) or `failed`."""


def list_trials(experiment: Experiment) -> Iterator[Trial]:
    """Yield every trial, each arm once per round, so that an interrupted experiment is comparable too.

    The folder of a trial names what it is made with, so that changed settings make new trials.
    """
    assert experiment.folder is not None
    for number in range(1, experiment.trials + 1):
        for prompt in experiment.prompts:
            for arm in experiment.list_arms():
                place = experiment.folder / _prompt_folder(prompt) / _arm_folder(arm) / str(number)
                yield Trial(prompt, arm, number, place, TrialSpec(experiment.name, arm.name, arm.digest))


def _arm_folder(arm: Arm) -> str:
    return f"{slug(arm.name or arm.choice.name)}-{arm.digest}"


def _prompt_folder(prompt: str) -> str:
    """Return a folder name from the first words of a prompt and its hash."""
    digest = hashlib.sha256(prompt.encode("utf-8", "replace")).hexdigest()
    return f"{slug(' '.join(prompt.split()[:6]))}-{digest[:6]}"


async def run_trials(
    app: App, experiment: Experiment, base: Path, report: TrialObserver
) -> list[TrialResult]:
    """Run every trial that is not over yet; cancelling this stops the runs."""
    turns = asyncio.Semaphore(experiment.at_once)

    async def take_turn(trial: Trial) -> TrialResult:
        async with turns:
            return await _run_trial(app, experiment, base, trial, report)

    try:
        async with asyncio.TaskGroup() as group:
            work = [group.create_task(take_turn(trial)) for trial in list_trials(experiment)]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in work]


async def _run_trial(
    app: App, experiment: Experiment, base: Path, trial: Trial, report: TrialObserver
) -> TrialResult:
    log = private_folder(trial.repo.parent) / f"{trial.number}.log"
    with app.store() as store:
        run = await _when_free(app, store, trial, report)
    if run is not None and run.state in _ENDED:
        report("kept", trial, run)
        return TrialResult(trial, run, 0, log)
    if experiment.template is not None and not trial.repo.exists():
        template = await Repository.open(experiment.template)
        await clone_whole(template.root, trial.repo, "--no-hardlinks")
    report("started", trial, run)
    code = await _start_run(app, experiment, base, trial, log)
    with app.store() as store:
        result = TrialResult(trial, _last_run(app, store, trial), code, log)
    report("finished" if result.ended else "failed", trial, result.run)
    return result


async def _when_free(app: App, store: Store, trial: Trial, report: TrialObserver) -> Run | None:
    """Return the trial's run once nobody drives it: a killed experiment may have left it running."""
    announced = False
    while True:
        run = _last_run(app, store, trial)
        if run is None or run.owner is None or identity.is_dead(run.owner.split("#")[0]):
            return run
        if not announced:
            report("waiting", trial, run)
            announced = True
        await asyncio.to_thread(store.wait_for_change, 1.0)


def _last_run(app: App, store: Store, trial: Trial) -> Run | None:
    runs = store.runs(source_key=app.source(trial.prompt, trial.repo).key, limit=1)
    return runs[0] if runs else None


async def _start_run(app: App, experiment: Experiment, base: Path, trial: Trial, log: Path) -> int:
    """Run the trial in its own process, so that a failure does not affect the others."""
    choice = trial.arm.choice
    chosen = ["--agent", choice.agent, *(["--model", choice.model] if choice.model else [])]
    given = {"SEGUE_DATABASE_URL": app.database(), "SEGUE_STATE_DIR": str(app.state_dir)}
    given["SEGUE_TRIAL"] = msgspec.json.encode(trial.spec).decode()
    if experiment.template is not None:
        given[VARIABLE] = "1"  # a clone of the template has the settings that were trusted there
    config = ["--config", str(app.config)] if app.config else []
    return await run_segue(
        ["run", trial.prompt, "--repo", str(trial.repo), *chosen, *config],
        log=log,
        cwd=base,
        variables={**environment_of(trial.arm.settings), **given},
    )
