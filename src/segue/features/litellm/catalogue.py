"""The models that can be called, and what each name means: an agent, a profile or a LiteLLM model."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct, field

from segue.config.load import LoadedSettings
from segue.domain.errors import SegueError, UsageError
from segue.domain.options import OptionError, Options, Text, read_options
from segue.features.litellm.failures import InvalidRequest
from segue.features.litellm.options import provider_settings
from segue.features.litellm.trace import SpanKind
from segue.runtime.wiring import agent_kind, agent_names

PREFIX = "composite/profile/"
"""The prefix of a profile's name when it is used as a model."""
_DEPTH = 4
"""How deep profiles may be nested."""


class Single(Options, frozen=True, tag_field="kind", tag="single"):
    """One model under a name of its own."""

    model: Text
    """The model that answers."""

    def nodes(self) -> tuple[str, ...]:
        """Return the models it is made of."""
        return (self.model,)


class Fallback(Options, frozen=True, tag_field="kind", tag="fallback"):
    """The first model that answers."""

    models: Annotated[tuple[Text, ...], Meta(min_length=1)]
    """The models, in the order they are tried."""

    def nodes(self) -> tuple[str, ...]:
        """Return the models it is made of."""
        return self.models


class FanOut(Options, frozen=True, tag_field="kind", tag="fan_out"):
    """All models at once; a judge picks the answer that counts."""

    models: Annotated[tuple[Text, ...], Meta(min_length=2)]
    """The models that answer at the same time."""
    judge: Text
    """The model that picks an answer; if it picks none, the first one counts."""

    def nodes(self) -> tuple[str, ...]:
        """Return the models it is made of."""
        return (*self.models, self.judge)


Profile: TypeAlias = Single | Fallback | FanOut
KINDS: tuple[type[Options], ...] = (Single, Fallback, FanOut)


def read_profiles(
    tables: Mapping[str, Mapping[str, Any]],
    aliases: Mapping[str, str] = MappingProxyType({}),
    depth: int = _DEPTH,
) -> dict[str, Profile]:
    """The profiles; raises UsageError for wrong options, cycles, unknown profiles and too deep nesting.

    `aliases` are the user's own names: a circle may lead through them, too.
    """
    profiles = {name: _read(name, table) for name, table in tables.items()}
    for name in profiles:
        _descend(name, profiles, aliases, (), depth)
    return profiles


def _read(name: str, table: Mapping[str, Any]) -> Profile:
    try:
        return read_options(Profile, table)  # type: ignore[arg-type]
    except OptionError as error:
        place = ".".join(filter(None, ("profiles", name, error.path)))
        raise UsageError(f"{place}: {error.message}", hint="See docs/guides/litellm.md") from None


def _descend(
    name: str, profiles: Mapping[str, Profile], aliases: Mapping[str, str], above: tuple[str, ...], depth: int
) -> None:
    path = (*above, name)
    if name in above:
        raise UsageError(f"Profiles use each other in a circle: {' → '.join(path)}.")
    if name not in profiles:
        raise UsageError(
            f"profiles.{above[-1]} uses the profile {name!r}, which does not exist.",
            hint=f"Known profiles: {', '.join(sorted(profiles))}",
        )
    if len(path) > depth:
        raise UsageError(
            f"Profiles are nested deeper than {depth}: {' → '.join(path)}.",
            hint="Make them flatter, or ask one model less",
        )
    for node in profiles[name].nodes():
        model = aliases.get(node, node)
        if model.startswith(PREFIX):
            _descend(model.removeprefix(PREFIX), profiles, aliases, path, depth)


SUFFIX = "-cli"
"""The end of a provider's name: `claude-cli/sonnet` asks the agent `claude`."""

COMPOSER = "composer-cli"
"""Another name for `cursor-cli`."""

COMPOSITE = "composite"
DEFAULT_MODEL = "default"
"""`claude-cli/default` uses the setting `model`; if that is unset, the agent chooses."""


def find_providers(loaded: LoadedSettings | None = None) -> dict[str, str]:
    """Return the providers, each with the agent behind it: every agent that answers on this machine.

    A cloud agent is none: it works on a repository, not on a question.
    """
    names = [name for name in agent_names(loaded) if _answers(name, loaded)]
    return {COMPOSER: "cursor", **{f"{name}{SUFFIX}": name for name in names}}


def _answers(name: str, loaded: LoadedSettings | None) -> bool:
    try:
        options = agent_kind(name, loaded).Options
    except SegueError:  # a plug-in that cannot be loaded
        return False
    return "repository" not in getattr(options, "__struct_fields__", ())


class ModelTarget(Struct, frozen=True):
    """The agent, profile or LiteLLM model behind a name."""

    kind: SpanKind
    name: str
    by: str = ""
    """The agent that answers, or the provider."""
    model: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)


class Catalogue(Struct, frozen=True):
    """The agents that can be asked, and the user's aliases and profiles, validated."""

    agents: Mapping[str, str]
    """Provider → the agent behind it."""
    profiles: Mapping[str, Profile]
    aliases: Mapping[str, tuple[str, Mapping[str, Any]]]

    @classmethod
    def read(cls, loaded: LoadedSettings) -> Catalogue:
        """Build the catalogue from the settings; raise UsageError if a name cannot be resolved."""
        provider = provider_settings(loaded.settings)
        aliases = {alias.name: (alias.model, alias.params) for alias in provider.models}
        models = {name: model for name, (model, _params) in aliases.items()}
        profiles = read_profiles(loaded.settings.part("profiles", dict), models)
        catalogue = cls(find_providers(loaded), profiles, aliases)
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
        if provider in self.agents:
            if not rest:  # LiteLLM would hand it back to us, without end
                choices = f"{provider}/MODEL or {provider}/{DEFAULT_MODEL}"
                raise InvalidRequest(f"{model!r} names no model. Write {choices}.")
            return ModelTarget("cli", name, self.agents[provider], rest, params)
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
            ours = ", ".join(f"{known}/MODEL" for known in self.agents)
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
