"""The table `[judge]`: the language model that judges."""

from typing import Annotated

from msgspec import Meta

from segue.domain.options import Options, Seconds, Text, WebAddress


class JudgeSettings(Options, frozen=True):
    """The table `[judge]`."""

    model: Text = "gpt-4o-mini"
    """The model that judges; `litellm/NAME` is called through LiteLLM."""
    base_url: WebAddress = "https://api.openai.com/v1"
    """The address of the OpenAI-compatible endpoint."""
    api_key_env: str = "OPENAI_API_KEY"
    """The environment variable with the key; empty if the endpoint needs none."""
    timeout: Seconds = 120
    """Seconds one answer of the model may take."""
    max_evidence_bytes: Annotated[int, Meta(ge=1000)] = 200_000
    """Bytes of evidence to show the model; the largest files are left out."""
