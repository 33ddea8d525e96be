"""The table `[provider]`: how agents are served as models."""

from typing import Annotated, Any

from msgspec import Meta

from segue.domain.options import Count, Options, Text


class ModelAlias(Options, frozen=True):
    """One entry of `[[provider.models]]`: a name of your own for a model."""

    name: Annotated[Text, Meta(description="The name that clients ask for.")]
    model: Annotated[Text, Meta(description="The model behind it, such as `claude-cli/opus`.")]
    params: Annotated[
        dict[str, Any],
        Meta(description="More `litellm_params`, such as `api_base` or prices per token."),
    ] = {}


class ProviderSettings(Options, frozen=True):
    """How agents are served as models."""

    processes: Annotated[
        Count, Meta(description="Agents that may work as models at the same time; more calls wait.")
    ] = 8
    record: Annotated[
        bool, Meta(description="Store a trace of every call as events of a run; see `segue logs`.")
    ] = True
    depth: Annotated[Count, Meta(description="How deep profiles may be nested.")] = 4
    output_bytes: Annotated[
        int, Meta(ge=1024, description="Bytes one agent may print for an answer before it is stopped.")
    ] = 64 * 1024**2
    models: Annotated[
        tuple[ModelAlias, ...],
        Meta(description="Names of your own for models, for the proxy and for profiles."),
    ] = ()
