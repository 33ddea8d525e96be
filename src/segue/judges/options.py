"""The table `[judge]`: the language model that judges."""

from typing import Annotated

from msgspec import Meta

from segue.domain.options import Options, Seconds, Text, WebAddress


class JudgeSettings(Options, frozen=True):
    """The table `[judge]`."""

    model: Annotated[
        Text, Meta(description="The model that judges; `litellm/NAME` is called through LiteLLM.")
    ] = "gpt-4o-mini"
    base_url: Annotated[WebAddress, Meta(description="The address of the OpenAI-compatible endpoint.")] = (
        "https://api.openai.com/v1"
    )
    api_key_env: Annotated[
        str, Meta(description="The environment variable with the key; empty if the endpoint needs none.")
    ] = "OPENAI_API_KEY"
    timeout: Annotated[Seconds, Meta(description="Seconds one answer of the model may take.")] = 120
    max_wait: Annotated[
        float, Meta(ge=0, description="Seconds to wait out rate limits and outages, per question.")
    ] = 600
    max_evidence_bytes: Annotated[
        int, Meta(ge=1000, description="Bytes of evidence to show the model; the largest files are left out.")
    ] = 200_000
    structured: Annotated[
        bool, Meta(description="Ask for structured output; retry without it if the endpoint refuses.")
    ] = True
