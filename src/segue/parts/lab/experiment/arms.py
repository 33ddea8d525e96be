"""The arms of an experiment: what each does differently from the others."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from segue.config.load import join_settings
from segue.domain.errors import UsageError
from segue.domain.job import AgentChoice, read_chain
from segue.system.reading import explain_unreadable, read_file

Table = dict[str, Any]

PLACEHOLDER = "{prompt}"
"""Where the experiment's prompt is, in the prompt of an arm."""

ELSEWHERE = ("database_url", "state_dir", "repo", "source")
"""Settings that an experiment decides itself."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}", re.ASCII)


class Arm(Struct, frozen=True):
    """What the trials are made with that are compared as one; without a name, an agent and nothing else."""

    name: str
    choice: AgentChoice
    settings: Table
    """The settings of its runs: those of the experiment, and its own."""
    prompt: str = PLACEHOLDER

    @property
    def label(self) -> str:
        """The name shown to people."""
        return self.name or self.choice.name

    @property
    def digest(self) -> str:
        """A short hash of everything that makes it different."""
        settings = json.dumps(self.settings, sort_keys=True, default=str)
        parts = "\0".join((self.name, self.choice.name, self.prompt, settings))
        return hashlib.sha256(parts.encode("utf-8", "replace")).hexdigest()[:8]

    def word(self, prompt: str) -> str:
        """Return a prompt as this arm words it."""
        return self.prompt.replace(PLACEHOLDER, prompt)


_HINT = "See: segue help experiments"


def read_agent(text: Any, where: str = "agents") -> AgentChoice:
    """Read `NAME` or `NAME:MODEL`."""
    try:
        (choice,) = read_chain(text)
    except (ValueError, AttributeError):
        raise UsageError(f"{where}: {text!r} is not NAME or NAME:MODEL.", hint=_HINT) from None
    return choice


def read_arms(
    arms: Mapping[str, Table], agents: tuple[AgentChoice, ...], settings: Table, prompts: int
) -> tuple[Arm, ...]:
    """Check and return the arms; `agents` is the one agent for those that name none, if there is one."""
    if len(agents) > 1:
        raise UsageError(
            "agents: with arms, only one agent can be named here.",
            hint='Give the others arms of their own: [arms.NAME] with agent = "NAME:MODEL"',
        )
    if agents and all("agent" in arm for arm in arms.values()):
        raise UsageError("agents: every arm names its own agent, so this has no effect.", hint="Leave it out")
    return tuple(_read_arm(name, dict(arm), agents, settings, prompts) for name, arm in arms.items())


def _read_arm(name: str, own: Table, agents: tuple[AgentChoice, ...], settings: Table, prompts: int) -> Arm:
    where = f"arms.{name}"
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"arms: {name!r} is not a name.",
            hint="Use up to 40 letters, digits, dots, dashes and underscores",
        )
    if not own:
        raise UsageError(
            f"{where} sets nothing.", hint="Say what it does differently, for example: model or resolve"
        )
    choice = _choose_agent(where, own, agents)
    prompt = own.pop("prompt", PLACEHOLDER)
    if not isinstance(prompt, str):
        raise UsageError(f"{where}.prompt: expected text.", hint=_HINT)
    if prompts > 1 and PLACEHOLDER not in prompt:
        raise UsageError(
            f"{where}.prompt would make all prompts the same.",
            hint=f"Write {PLACEHOLDER} where each of them belongs",
        )
    return Arm(name, choice, join_settings(settings, own), prompt)


def _choose_agent(where: str, own: Table, agents: tuple[AgentChoice, ...]) -> AgentChoice:
    """Take agent and model out of an arm's table."""
    if "agent" not in own and not agents:
        raise UsageError(f"{where} has no agent.", hint='Set its agent, or agents = ["NAME"] for all arms')
    choice = read_agent(own.pop("agent"), f"{where}.agent") if "agent" in own else agents[0]
    model = own.pop("model", None)
    if model is None:
        return choice
    if not isinstance(model, str) or not model.strip():
        raise UsageError(f"{where}.model: expected the name of a model.", hint=_HINT)
    if choice.model:
        raise UsageError(
            f"{where}: both {choice.name} and model = {model!r} name a model.", hint="Leave one of them out"
        )
    return AgentChoice(choice.agent, model)


def read_prompt_file(where: str, own: Mapping[str, Any], base: Path) -> Table:
    """Return an arm's table with the text of its `prompt_file` as its prompt."""
    table = dict(own)
    named = table.pop("prompt_file", None)
    if named is None:
        return table
    if "prompt" in table:
        raise UsageError(f"{where}: both prompt and prompt_file say what to ask.", hint="Leave one out")
    try:
        text = read_file(base / str(named)).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"{where}.prompt_file: {explain_unreadable(base / str(named), error)}"
        raise UsageError(message, hint="It is relative to the experiment file") from None
    return {**table, "prompt": text.strip()}
