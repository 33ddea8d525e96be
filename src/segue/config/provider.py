"""The settings of the models that Segue serves: the table `[provider]`."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class ModelAlias(BaseModel):
    """One entry of `[[provider.models]]`: a name of your own for a model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, description="The name that clients ask for.")
    model: str = Field(min_length=1, description="What stands behind it, such as `claude-cli/opus`.")
    params: dict[str, Any] = Field(
        default_factory=dict, description="Further `litellm_params`, such as `api_base` or prices per token."
    )


class ProviderSettings(BaseModel):
    """How agents are served as models."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    processes: int = Field(
        8, ge=1, description="Agents that may work at the same time as models; further calls wait."
    )
    record: bool = Field(True, description="Keep a trace of every call as events of a run; see `segue logs`.")
    depth: int = Field(4, ge=1, description="How deep profiles may be nested.")
    output_bytes: int = Field(
        64 * 1024**2, ge=1024, description="Bytes one agent may print for an answer before it is ended."
    )
    models: tuple[ModelAlias, ...] = Field(
        (), description="Names of your own for models, for the proxy and for profiles."
    )
