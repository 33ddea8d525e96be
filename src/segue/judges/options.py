"""The settings of the judge that asks a language model."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class JudgeSettings(BaseModel):
    """The table `[judge]`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(
        "gpt-4o-mini",
        min_length=1,
        description="The model that judges; `litellm/NAME` goes through LiteLLM.",
    )
    base_url: str = Field(
        "https://api.openai.com/v1",
        pattern=r"^https?://[^/]",
        description="Where the OpenAI-compatible endpoint is.",
    )
    api_key_env: str = Field(
        "OPENAI_API_KEY",
        description="The environment variable that holds the key; empty for an endpoint that wants none.",
    )
    timeout: float = Field(120, gt=0, description="Seconds one answer of the model may take.")
    max_wait: float = Field(
        600, ge=0, description="Seconds to wait out rate limits and outages of the judge, per question."
    )
    max_evidence_bytes: int = Field(
        200_000, ge=1000, description="Bytes of evidence the model is shown; the largest files are left out."
    )
    structured: bool = Field(
        True, description="Ask for structured output; an endpoint that refuses it is asked without."
    )
