"""The file of an experiment: prompts, what is compared on them, and the settings of its runs."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from segue.config.load import join_settings
from segue.domain.errors import UsageError
from segue.domain.job import AgentChoice, read_chain
from segue.domain.options import Count, OptionError, Options, Text, read_options
from segue.runtime.app import App
from segue.sources.recognise import is_prompt
from segue.system.reading import explain_unreadable, read_file

Table = dict[str, Any]

_ELSEWHERE = ("database_url", "state_dir", "repo", "source")
"""Settings that an experiment decides itself."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}", re.ASCII)

_LONGEST = 100_000
"""The maximum length of a prompt in bytes: it is passed as an argument."""

_KEPT, _HINT = "Nothing was started.", "See docs/guides/experiments.md"


class Arm(Struct, frozen=True):
    """What the trials are made with that are compared as one; without a name, an agent and nothing else."""

    name: str
    choice: AgentChoice
    settings: Table
    """The settings of its runs: those of the experiment, and its own."""

    @property
    def digest(self) -> str:
        """A short hash of everything that makes it different."""
        settings = json.dumps(self.settings, sort_keys=True, default=str)
        parts = "\0".join((self.name, self.choice.name, settings))
        return hashlib.sha256(parts.encode("utf-8", "replace")).hexdigest()[:8]


class Experiment(Options, frozen=True):
    """An experiment file."""

    prompts: Annotated[tuple[Text, ...], Meta(min_length=1)]
    """What to build, one sentence or more each."""
    agents: tuple[str, ...] = ()
    """`NAME` or `NAME:MODEL`, at least one; with arms, the agent of those that name none."""
    arms: dict[str, Table] = {}
    """What is compared instead of agents: `agent`, `model`, and settings."""
    trials: Annotated[int, Meta(ge=1, le=1000)] = 1
    """How often each agent or arm builds each prompt."""
    at_once: Count = 1
    """Runs at the same time, in all."""
    folder: Path | None = None
    """Where the repositories are created; FILE.runs beside the file if unset."""
    template: Path | None = None
    """A repository that every trial starts from; an empty one if unset."""
    settings: Table = {}
    """Settings of every run, as in segue.toml."""

    @property
    def name(self) -> str:
        """Its name: that of its folder."""
        assert self.folder is not None
        return slug(self.folder.name.removesuffix(".runs"))[:30]

    def list_arms(self) -> tuple[Arm, ...]:
        """Return what is compared: the arms, or each agent by itself."""
        agents = tuple(map(_read_agent, self.agents))
        if self.arms:
            return tuple(_read_arm(name, dict(arm), agents, self.settings) for name, arm in self.arms.items())
        if not agents:
            raise UsageError(
                "agents: name at least one, or describe [arms.NAME].",
                hint='Write agents = ["claude", "codex"]',
            )
        return tuple(Arm("", choice, self.settings) for choice in agents)


def slug(text: str) -> str:
    """Return a text as a name of a folder."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.").lower()[:60] or "unnamed"


def read_experiment(path: Path, config: Path | None = None) -> Experiment:
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
    experiment = msgspec.structs.replace(found, folder=folder, template=template)
    for prompt in found.prompts:
        _check_prompt(prompt)
    arms = experiment.list_arms()
    if len(set(found.prompts)) < len(found.prompts) or len({arm.digest for arm in arms}) < len(arms):
        raise UsageError(
            "The experiment contains a prompt or an agent twice.", hint="Use trials = N to repeat trials"
        )
    _check_settings(path, "settings", found.settings, template or base, config)
    for arm in arms:
        settings = {**arm.settings, "agent": arm.choice.agent}
        _check_settings(
            path, f"arms.{arm.name}" if arm.name else "agents", settings, template or base, config
        )
    return experiment


def _read_agent(text: Any, where: str = "agents") -> AgentChoice:
    """Read `NAME` or `NAME:MODEL`."""
    try:
        (choice,) = read_chain(text)
    except (ValueError, AttributeError):
        raise UsageError(f"{where}: {text!r} is not NAME or NAME:MODEL.", kept=_KEPT, hint=_HINT) from None
    return choice


def _read_arm(name: str, own: Table, agents: tuple[AgentChoice, ...], settings: Table) -> Arm:
    where = f"arms.{name}"
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"arms: {name!r} is not a name.",
            hint="Use up to 40 letters, digits, dots, dashes and underscores",
        )
    if "agent" not in own and len(agents) != 1:
        raise UsageError(f"{where} has no agent.", hint='Set its agent, or agents = ["NAME"] for all arms')
    choice = _read_agent(own.pop("agent"), f"{where}.agent") if "agent" in own else agents[0]
    model = own.pop("model", choice.model)
    if not isinstance(model, str | None):
        raise UsageError(f"{where}.model: expected the name of a model.", kept=_KEPT, hint=_HINT)
    return Arm(name, AgentChoice(choice.agent, model), join_settings(settings, own))


def _check_prompt(prompt: str) -> None:
    if not is_prompt(prompt) or "\0" in prompt or len(prompt.encode("utf-8", "replace")) > _LONGEST:
        raise UsageError(
            f"prompts: {prompt[:60]!r} must be a sentence of several words, up to 100 kB.",
            hint='Write prompts = ["Build a todo app"]',
        )


def _check_settings(path: Path, where: str, settings: Table, place: Path, config: Path | None) -> None:
    """Find mistakes in settings before a trial does."""
    idle = [name for name in _ELSEWHERE if name in settings]
    if idle:
        raise UsageError(
            f"{path}: {where}: {', '.join(idle)} has no effect in an experiment.", hint="Leave it out"
        )
    try:
        App.load(place, config, settings, need="nothing")
    except UsageError as error:
        said = str(error).removesuffix(" (from command line)").removesuffix(" (agent, from command line)")
        raise UsageError(f"{path}: {where}: {said}", hint=error.hint) from None
