"""Which names can be asked, and what stands behind each: an agent, a profile, or a model of LiteLLM's."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from segue.config.settings import Settings
from segue.domain.errors import UsageError
from segue.provider.options import PREFIX, Profile, read_profiles
from segue.provider.request import Refused
from segue.provider.trace import Kind

AGENTS = {"composer-cli": "cursor", "claude-cli": "claude", "codex-cli": "codex"}
"""Provider → the agent behind it."""

COMPOSITE = "composite"
PROVIDERS = (*AGENTS, COMPOSITE)
DEFAULT_MODEL = "default"
"""`claude-cli/default` leaves the choice to the setting `model`, and else to the agent itself."""


@dataclass(frozen=True, slots=True)
class Target:
    """What stands behind a name."""

    kind: Kind
    name: str
    provider: str = ""
    model: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The user's names and profiles, checked."""

    profiles: Mapping[str, Profile]
    aliases: Mapping[str, tuple[str, Mapping[str, Any]]]

    @classmethod
    def read(cls, settings: Settings) -> Catalogue:
        """From the settings; raises UsageError when a name leads nowhere."""
        aliases = {alias.name: (alias.model, alias.params) for alias in settings.provider.models}
        plain = {name: model for name, (model, _params) in aliases.items()}
        catalogue = cls(read_profiles(settings.profiles, settings.provider.depth, plain), aliases)
        for name, profile in catalogue.profiles.items():
            for node in profile.nodes():
                catalogue._check(f"profiles.{name}", node)
        for name, model in plain.items():
            catalogue._check(f"provider.models {name}", model)
        return catalogue

    def target(self, name: str) -> Target:
        """What stands behind a name; raises Refused for one that is ours but leads nowhere."""
        model, params = self.aliases.get(name, (name, {}))
        provider, _, rest = model.partition("/")
        if provider in AGENTS:
            if not rest:
                raise Refused(
                    f"{model!r} names no model. Write {provider}/MODEL or {provider}/{DEFAULT_MODEL}."
                )
            return Target("cli", name, provider, rest, params)
        if provider == COMPOSITE:
            profile = model.removeprefix(PREFIX)
            if profile not in self.profiles:
                known = ", ".join(f"{PREFIX}{known}" for known in sorted(self.profiles))
                raise Refused(f"There is no profile {model!r}. Known profiles: {known or 'none'}.")
            return Target("profile", name, COMPOSITE, profile, params)
        return Target("litellm", name, provider if rest else "", model, params)

    def _check(self, where: str, name: str) -> None:
        try:
            target = self.target(name)
        except Refused as error:
            raise UsageError(f"{where}: {error}") from None
        if target.kind == "litellm" and not _known(target.model):
            ours = ", ".join(f"{known}/MODEL" for known in AGENTS)
            raise UsageError(
                f"{where} uses {name!r}, which is no model that Segue or LiteLLM knows.",
                hint=f"Models are named {ours}, {PREFIX}NAME, or as LiteLLM names them: openai/gpt-5",
            )


def _known(model: str) -> bool:
    litellm: Any = importlib.import_module("litellm")
    try:
        litellm.get_llm_provider(model)
    except litellm.BadRequestError:
        return False
    return True
