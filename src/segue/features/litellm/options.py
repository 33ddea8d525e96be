"""The settings of the part: `[provider]` and `[profiles]`."""

from typing import Annotated, Any

from msgspec import Meta

from segue.config.settings import Settings
from segue.domain.options import Count, Options, Text


class ModelAlias(Options, frozen=True):
    """One entry of `[[provider.models]]`: a name of your own for a model."""

    name: Text
    """The name that clients ask for."""
    model: Text
    """The model behind it, such as `claude-cli/opus`."""
    params: dict[str, Any] = {}
    """More `litellm_params`, such as `api_base` or prices per token."""


class ProviderSettings(Options, frozen=True):
    """How agents are served as models."""

    processes: Count = 8
    """Agents that may work as models at the same time; more calls wait."""
    record: bool = True
    """Store a trace of every call as events of a run; see `segue logs`."""
    models: tuple[ModelAlias, ...] = ()
    """Names of your own for models, for the proxy and for profiles."""


Profiles = Annotated[
    dict[str, dict[str, Any]],
    Meta(description="Models composed of several models: see `docs/guides/litellm.md`."),
]


def provider_settings(settings: Settings) -> ProviderSettings:
    """Return how agents are served."""
    return settings.part("provider", ProviderSettings)
