"""The models that can be called, and what each name means: an agent, a profile or a LiteLLM model."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from segue.config.settings import Settings
from segue.domain.errors import UsageError
from segue.provider.failures import InvalidRequest
from segue.provider.options import PREFIX, Profile, read_profiles
from segue.provider.trace import SpanKind

AGENTS = {"composer-cli": "cursor", "claude-cli": "claude", "codex-cli": "codex"}
"""Provider → the agent behind it."""

COMPOSITE = "composite"
PROVIDERS = (*AGENTS, COMPOSITE)
DEFAULT_MODEL = "default"
"""`claude-cli/default` uses the setting `model`; if that is unset, the agent chooses."""


@dataclass(frozen=True, slots=True)
class ModelTarget:
    """The agent, profile or LiteLLM model behind a name."""

    kind: SpanKind
    name: str
    provider: str = ""
    model: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The user's aliases and profiles, validated."""

    profiles: Mapping[str, Profile]
    aliases: Mapping[str, tuple[str, Mapping[str, Any]]]

    @classmethod
    def read(cls, settings: Settings) -> Catalogue:
        """Build the catalogue from the settings; raise UsageError if a name cannot be resolved."""
        aliases = {alias.name: (alias.model, alias.params) for alias in settings.provider.models}
        models = {name: model for name, (model, _params) in aliases.items()}
        catalogue = cls(read_profiles(settings.profiles, settings.provider.depth, models), aliases)
        for name, profile in catalogue.profiles.items():
            for node in profile.nodes():
                catalogue._check(f"profiles.{name}", node)
        for name, model in models.items():
            catalogue._check(f"provider.models {name}", model)
        return catalogue

    def resolve(self, name: str) -> ModelTarget:
        """Return what a name means; raise InvalidRequest for one of our own that does not exist."""
        model, params = self.aliases.get(name, (name, {}))
        provider, _, rest = model.partition("/")
        if provider in AGENTS:
            if not rest:  # LiteLLM would hand it back to us, without end
                choices = f"{provider}/MODEL or {provider}/{DEFAULT_MODEL}"
                raise InvalidRequest(f"{model!r} names no model. Write {choices}.")
            return ModelTarget("cli", name, provider, rest, params)
        if provider == COMPOSITE:
            profile = model.removeprefix(PREFIX)
            if profile not in self.profiles:
                known = ", ".join(f"{PREFIX}{known}" for known in sorted(self.profiles))
                raise InvalidRequest(f"There is no profile {model!r}. Known profiles: {known or 'none'}.")
            return ModelTarget("profile", name, COMPOSITE, profile, params)
        return ModelTarget("litellm", name, provider if rest else "", model, params)

    def _check(self, where: str, name: str) -> None:
        try:
            target = self.resolve(name)
        except InvalidRequest as error:
            raise UsageError(f"{where}: {error}") from None
        if target.kind == "litellm" and not _is_known_to_litellm(target.model):
            ours = ", ".join(f"{known}/MODEL" for known in AGENTS)
            raise UsageError(
                f"{where} uses {name!r}, a model that neither Segue nor LiteLLM knows.",
                hint=f"Model names are {ours}, {PREFIX}NAME, or LiteLLM's own, such as openai/gpt-5",
            )


def _is_known_to_litellm(model: str) -> bool:
    litellm: Any = importlib.import_module("litellm")
    try:
        litellm.get_llm_provider(model)
    except litellm.BadRequestError:
        return False
    return True
