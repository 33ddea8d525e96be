"""Agents served as LiteLLM models."""

from segue.domain.part import Part, PartCommand, PartTable

PART = Part(
    name="litellm",
    summary="Serves agents as models, in a program that uses LiteLLM or through LiteLLM's proxy.",
    commands={
        "proxy": PartCommand(
            "segue.parts.litellm.command:proxy", "Serve", "Serve agents as models through LiteLLM's proxy."
        )
    },
    tables={
        "provider": PartTable("segue.parts.litellm.options:ProviderSettings", "serves agents as models"),
        "profiles": PartTable("segue.parts.litellm.options:Profiles", "serves agents as models", named=True),
    },
    events={"trace.span": "segue.parts.litellm.events:TraceSpan"},
    extras=("litellm", "proxy"),
    topics=("litellm",),
)
