"""Submits experiments: every trial is a run of the fleet, with a name by which it is found again."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.errors import UsageError
from segue.domain.run import LOCAL, Run, RunKind, RunState
from segue.parts.fleet.placement import needs_for
from segue.parts.fleet.remote import resume
from segue.parts.fleet.submit import OF_MACHINES, Submission, Wanted, begin_here, common_parts, submit_named
from segue.parts.lab.experiment.arms import Arm
from segue.parts.lab.experiment.trials import Experiment, Trial, find_far, fleet_id, refuse_changed, trials
from segue.runtime.app import App
from segue.runtime.registry import check_name
from segue.system.git.repository import Repository
from segue.system.git.scratch import new_repository

if TYPE_CHECKING:
    import procrastinate

_UNFINISHED = (RunState.STOPPED, RunState.FAILED)


class SubmittedTrials(Struct, frozen=True):
    """The runs of an experiment, by what became of them now."""

    new: tuple[str, ...]
    again: tuple[str, ...]
    """They had stopped or failed, and continue."""
    kept: tuple[str, ...]
    """They are over, at work, or waiting already."""


async def prepare_trials(
    load: Callable[[dict[str, Any]], App], experiment: Experiment, wanted: Wanted
) -> dict[str, Submission]:
    """Find everything that could be wrong; return what to submit, by the names of the runs.

    `load` reads the settings of a run, of which the experiment gives some.
    """
    app = load(experiment.settings)
    arms = {arm.name: load(arm.settings) for arm in experiment.list_arms()}
    for trial in trials(experiment):
        _refuse_elsewhere(trial.arm)
        check_name("agents", trial.arm.choice.agent, arms[trial.arm.name].loaded.settings.acp)
    with app.store() as store:
        refuse_changed(store, experiment)
    parts = {name: common_parts(found, wanted) for name, found in arms.items()}
    begun = await _begin(app, experiment, common_parts(app, wanted))
    return {
        fleet_id(experiment, trial): _submission(
            arms[trial.arm.name], replace(begun, settings=parts[trial.arm.name].settings), trial, wanted
        )
        for trial in trials(experiment)
    }


def _refuse_elsewhere(arm: Arm) -> None:
    refused = sorted(OF_MACHINES & arm.settings.keys())
    if refused:
        where = f"arms.{arm.name} or settings" if arm.name else "settings"
        raise UsageError(
            f"{where}: {', '.join(refused)} belong to a machine, and have no effect in a fleet.",
            kept="Nothing was submitted.",
            hint="Leave them out: every worker has its own",
        )


async def submit_trials(
    app: App, queue: procrastinate.App, wanted: Mapping[str, Submission], at: datetime | None
) -> SubmittedTrials:
    """Submit the trials that are not there yet, and let those continue that could not finish."""
    with app.store() as store:
        known = {name: found for name in wanted if (found := find_far(store, name)) is not None}
    new = {name: one for name, one in wanted.items() if name not in known}
    await submit_named(app, queue, new, at)
    again = [run for run in known.values() if run.state in _UNFINISHED]
    for run in again:
        await resume(app, run)
    return SubmittedTrials(tuple(new), _ids(again), _ids([run for run in known.values() if run not in again]))


def _ids(runs: list[Run]) -> tuple[str, ...]:
    return tuple(run.id for run in runs)


def _submission(app: App, common: Submission, trial: Trial, wanted: Wanted) -> Submission:
    choice = trial.arm.choice
    chosen = {"agent": choice.agent, **({"model": choice.model} if choice.model else {})}
    return replace(
        common,
        source=trial.prompt,
        source_kind="prompt",
        settings={**common.settings, **chosen},
        needs=needs_for(replace(app.loaded.settings, agent=choice.agent), wanted.needs),
        agent=choice.agent,
        kind=RunKind.TRIAL,
        trial=trial.spec,
    )


async def _begin(app: App, experiment: Experiment, common: Submission) -> Submission:
    """Let every trial begin with the template, or with a repository of one empty commit."""
    if experiment.template is not None:
        return await begin_here(app, await Repository.open(experiment.template), common, None)
    with tempfile.TemporaryDirectory(prefix="segue-trial-") as folder:
        place = Path(folder) / "empty"
        await new_repository(place)
        begun = await begin_here(app, await Repository.open(place), common, None)
    return replace(begun, url=f"{LOCAL}empty")
