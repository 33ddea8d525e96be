"""Experiments: run the same prompts with several agents or arms, each trial in its own repository."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct

from segue.config.tree import environment_of
from segue.config.trust import VARIABLE
from segue.domain.errors import SegueError, UsageError
from segue.domain.options import Count, OptionError, Options, Text, read_options
from segue.domain.run import Run, RunState, TrialSpec
from segue.parts.lab.experiment.arms import ELSEWHERE, Arm, read_agent, read_arms, read_prompt_file
from segue.runtime.app import App
from segue.sources.recognise import is_prompt
from segue.system import identity
from segue.system.files import private_folder
from segue.system.git.repository import Repository
from segue.system.git.scratch import clone_whole
from segue.system.process.segue import run_segue
from segue.system.reading import explain_unreadable, read_file
from segue.view.load import ACTIVE

if TYPE_CHECKING:
    from segue.store.store import Store


_ENDED = (RunState.DONE, RunState.NEEDS_HUMAN)
"""States in which a trial is over: one that needs a human has failed, and counts."""

_LONGEST = 100_000
"""The maximum length of a prompt in bytes: it is passed as an argument."""


class Experiment(Options, frozen=True):
    """An experiment file."""

    prompts: Annotated[tuple[Text, ...], Meta(min_length=1)]
    """What to build, one sentence or more each."""
    agents: tuple[str, ...] = ()
    """`NAME` or `NAME:MODEL`, at least one; with arms, the agent of those that name none."""
    arms: dict[str, dict[str, Any]] = {}
    """What is compared instead of agents: `agent`, `model`, `prompt` or `prompt_file`, and settings."""
    trials: Annotated[int, Meta(ge=1, le=1000)] = 1
    """How often each agent or arm builds each prompt."""
    at_once: Count = 1
    """Runs at the same time, in all."""
    limits: dict[str, Count] = {}
    """Runs at the same time, per agent."""
    folder: Path | None = None
    """Where the repositories are created; FILE.runs beside the file if unset."""
    template: Path | None = None
    """A repository that every trial starts from; an empty one if unset."""
    looks: Annotated[int, Meta(ge=1, le=20)] = 1
    """How often to look whether it may be stopped, with the end: each makes every comparison stricter."""
    settings: dict[str, Any] = {}
    """Settings of every run, as in segue.toml."""

    @property
    def name(self) -> str:
        """Its name: that of its folder."""
        assert self.folder is not None
        return _slug(self.folder.name.removesuffix(".runs"))[:30]

    def list_arms(self) -> tuple[Arm, ...]:
        """Return what is compared: the arms, or each agent by itself."""
        agents = tuple(map(read_agent, self.agents))
        if self.arms:
            return read_arms(self.arms, agents, self.settings, len(self.prompts))
        if not agents:
            raise UsageError(
                "agents: name at least one, or describe [arms.NAME].",
                hint='Write agents = ["claude", "codex"]',
            )
        return tuple(Arm("", choice, self.settings) for choice in agents)


class Trial(Struct, frozen=True):
    """One prompt with one agent or arm, once."""

    prompt: str
    """As the arm words it."""
    arm: Arm
    number: int
    repo: Path
    spec: TrialSpec
    """What is stored of it with its run."""

    @property
    def name(self) -> str:
        """The name shown to people."""
        of = self.arm.name or self.repo.parent.name
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


_KEPT, _HINT = "Nothing was started.", "See: segue help experiments"
TrialObserver = Callable[[str, Trial, Run | None], None]
"""Called with `started`, `waiting` (for the fleet), `finished`, `kept` (it was already over) or `failed`."""


def read(path: Path, config: Path | None = None) -> Experiment:
    """Read and check an experiment file; relative paths in it are relative to the file.

    `config` is the configuration file of its runs, if one was named.
    """
    try:
        found = read_options(Experiment, tomllib.loads(read_file(path).decode("utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(explain_unreadable(path, error), kept=_KEPT, hint=_HINT) from None
    except OptionError as error:
        raise UsageError(f"{path}: {error}", kept=_KEPT, hint=_HINT) from None
    base = path.absolute().parent
    folder = base / (found.folder or f"{path.stem}.runs")
    template = base / found.template if found.template else None
    arms = {name: read_prompt_file(f"arms.{name}", arm, base) for name, arm in found.arms.items()}
    experiment = msgspec.structs.replace(found, folder=folder, template=template, arms=arms)
    _check_settings(path, "settings", found.settings, template or base, config)
    for arm in experiment.list_arms():
        where, own = (f"arms.{arm.name}", arm.settings) if arms else ("agents", {"agent": arm.choice.name})
        _check_settings(path, where, own, template or base, config)
    return experiment


def _check_settings(
    path: Path, where: str, settings: dict[str, Any], place: Path, config: Path | None
) -> None:
    """Find mistakes in settings before a trial does."""
    idle = [name for name in ELSEWHERE if name in settings]
    if idle:
        raise UsageError(
            f"{path}: {where}: {', '.join(idle)} has no effect in an experiment.", hint="Leave it out"
        )
    try:
        App.load(place, config, settings, need="nothing")
    except UsageError as error:
        said = str(error).removesuffix(" (from command line)").removesuffix(" (agent, from command line)")
        raise UsageError(f"{path}: {where}: {said}", hint=error.hint) from None


def trials(experiment: Experiment) -> Iterator[Trial]:
    """Yield every trial, each arm once per round, so that an interrupted experiment is comparable too."""
    assert experiment.folder is not None
    prompts = {prompt: _prompt_folder(prompt) for prompt in experiment.prompts}
    arms = experiment.list_arms()
    names = {_slug(arm.name) if arm.name else _arm_folder(arm) for arm in arms}
    if (len(prompts), len(names)) != (len(experiment.prompts), len(arms)):
        raise UsageError(
            "The experiment contains a prompt, an agent or the name of an arm twice.",
            hint="Use trials = N to repeat trials",
        )
    for number in range(1, experiment.trials + 1):
        for prompt, folder in prompts.items():
            for place in range(len(arms)):
                repo = experiment.folder / folder / _arm_folder(arms[place]) / str(number)
                yield _make_trial(experiment, prompt, arms, place, number, repo)


def _make_trial(
    experiment: Experiment, asked: str, arms: Sequence[Arm], place: int, number: int, repo: Path
) -> Trial:
    arm = arms[place]
    prompt = arm.word(asked)
    if prompt != asked:
        _check_prompt(prompt, f"arms.{arm.name}.prompt")
    original = asked if prompt != asked else ""
    design = (place + 1, len(arms), len(experiment.prompts), experiment.trials, experiment.looks)
    spec = TrialSpec(experiment.name, arm.name, original, arm.digest if arm.name else "", *design)
    return Trial(prompt, arm, number, repo, spec)


def _arm_folder(arm: Arm) -> str:
    if arm.name:
        return f"{_slug(arm.name)}-{arm.digest}"
    choice = arm.choice
    return f"{_slug(choice.agent)}--{_slug(choice.model)}" if choice.model else _slug(choice.agent)


def _prompt_folder(prompt: str) -> str:
    """Return a folder name from the first words of a prompt and its hash."""
    _check_prompt(prompt, "prompts")
    digest = hashlib.sha256(prompt.encode("utf-8", "replace")).hexdigest()
    return f"{_slug(' '.join(prompt.split()[:6]))}-{digest[:6]}"


def _check_prompt(prompt: str, where: str) -> None:
    if not is_prompt(prompt) or "\0" in prompt or len(prompt.encode("utf-8", "replace")) > _LONGEST:
        raise UsageError(
            f"{where}: {prompt[:60]!r} must be a sentence of several words, up to 100 kB.",
            hint='Write prompts = ["Build a todo app"]',
        )


def refuse_changed(store: Store, experiment: Experiment) -> None:
    """Refuse an arm under whose name there are results of other settings: they would be mixed."""
    for arm in experiment.list_arms():
        found = store.query(
            "SELECT id FROM orchestrator_runs"
            " WHERE kind = 'trial' AND state IN ('done', 'failed', 'needs_human')"
            " AND spec->'trial'->>'experiment' = ? AND spec->'trial'->>'arm' = ?"
            " AND spec->'trial'->>'digest' <> ? ORDER BY id LIMIT 1",
            [experiment.name, arm.name, arm.digest],
        )
        if found and arm.name:
            raise UsageError(
                f"arms.{arm.name} is not what it was: run {found[0]['id']} was made with other settings.",
                kept="Nothing was started.",
                hint="Give the arm another name, so that reports do not mix them",
            )


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.").lower()[:60] or "unnamed"


async def run_trials(
    app: App, experiment: Experiment, base: Path, report: TrialObserver
) -> list[TrialResult]:
    """Run every trial that is not over yet; cancelling this stops the runs."""
    everything = asyncio.Semaphore(experiment.at_once)
    agents = {name: asyncio.Semaphore(most) for name, most in experiment.limits.items()}

    async def one(trial: Trial) -> TrialResult:
        own = agents.get(trial.arm.choice.agent, contextlib.nullcontext())
        async with own, everything:
            return await _run_trial(app, experiment, base, trial, report)

    wanted = list(trials(experiment))
    try:
        async with asyncio.TaskGroup() as group:
            work = [group.create_task(one(trial)) for trial in wanted]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in work]


async def _run_trial(
    app: App, experiment: Experiment, base: Path, trial: Trial, report: TrialObserver
) -> TrialResult:
    folder = private_folder(trial.repo.parent)
    log = folder / f"{trial.number}.log"
    with app.store() as store:
        run = await _when_free(app, store, experiment, trial, report)
    if run is not None and (run.state in _ENDED or run.spec.origin is not None):
        result = TrialResult(trial, run, 0 if run.state in _ENDED else SegueError.exit_code, log)
        report("kept" if result.ended else "failed", trial, run)
        return result
    await _prepare_repository(experiment, trial)
    report("started", trial, run)
    code = await _start_run(app, experiment, base, trial, log)
    with app.store() as store:
        result = TrialResult(trial, last_run(app, store, experiment, trial), code, log)
    report("finished" if result.ended else "failed", trial, result.run)
    return result


async def _when_free(
    app: App, store: Store, experiment: Experiment, trial: Trial, report: TrialObserver
) -> Run | None:
    """Return the trial's run once nobody drives it: a killed experiment may have left it running.

    One that was submitted to a fleet is waited for.
    """
    announced = False
    while True:
        run = last_run(app, store, experiment, trial)
        if run is None or not _is_driven(run):
            return run
        if run.spec.origin is not None and not announced:
            report("waiting", trial, run)
            announced = True
        await asyncio.to_thread(store.wait_for_change, 1.0)


def _is_driven(run: Run) -> bool:
    if run.spec.origin is not None:
        return run.state in ACTIVE
    return run.owner is not None and not identity.is_dead(run.owner.split("#")[0])


def last_run(app: App, store: Store, experiment: Experiment, trial: Trial) -> Run | None:
    """Return the run of a trial: the one that was submitted to a fleet, or the newest one here."""
    runs = store.runs(source_key=app.source(trial.prompt, trial.repo).key, limit=1)
    return find_far(store, fleet_id(experiment, trial)) or (runs[0] if runs else None)


def fleet_id(experiment: Experiment, trial: Trial) -> str:
    """Return the id of a trial's run in a fleet: the same for the same prompt, agent, arm and settings."""
    parts = "\0".join((trial.prompt, trial.arm.digest))
    digest = hashlib.sha256(parts.encode("utf-8", "replace")).hexdigest()
    return f"{experiment.name}-{digest[:8]}-{trial.number:04}"


def find_far(store: Store, run_id: str) -> Run | None:
    """Return the run with exactly this id, if it was submitted to a fleet."""
    run = store.run(run_id)
    return run if run is not None and run.id == run_id and run.spec.origin is not None else None


async def _prepare_repository(experiment: Experiment, trial: Trial) -> None:
    """Clone the template, if there is one, as the repository of a trial."""
    if experiment.template is not None and not trial.repo.exists():
        template = await Repository.open(experiment.template)
        await clone_whole(template.root, trial.repo, "--no-hardlinks")


def _trust(experiment: Experiment) -> dict[str, str]:
    """A clone of the template has the settings that were trusted there."""
    return {VARIABLE: "1"} if experiment.template is not None else {}


async def _start_run(app: App, experiment: Experiment, base: Path, trial: Trial, log: Path) -> int:
    """Run the trial in its own process, so that a failure does not affect the others."""
    choice = trial.arm.choice
    chosen = ["--agent", choice.agent, *(["--model", choice.model] if choice.model else [])]
    given = {"SEGUE_DATABASE_URL": app.database(), "SEGUE_STATE_DIR": str(app.state_dir)}
    given["SEGUE_TRIAL"] = msgspec.json.encode(trial.spec).decode()
    config = ["--config", str(app.config)] if app.config else []
    return await run_segue(
        ["run", trial.prompt, "--repo", str(trial.repo), *chosen, *config],
        log=log,
        cwd=base,
        variables={**environment_of(trial.arm.settings), **given, **_trust(experiment)},
    )
