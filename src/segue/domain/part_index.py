"""The parts that come with Segue, as they describe themselves. Written by `make docs`: do not edit."""

from segue.domain.part import Part, PartCommand, PartTable

PARTS: tuple[Part, ...] = (
    Part(
        name="litellm",
        summary="Serves agents as models, in a program that uses LiteLLM or through LiteLLM's proxy.",
        commands={
            "proxy": PartCommand(
                where="segue.parts.litellm.command:proxy",
                heading="Serve",
                help="Serve agents as models through LiteLLM's proxy.",
            ),
        },
        tables={
            "provider": PartTable(
                where="segue.parts.litellm.options:ProviderSettings",
                meaning="serves agents as models",
            ),
            "profiles": PartTable(
                where="segue.parts.litellm.options:Profiles",
                meaning="serves agents as models",
                named=True,
            ),
        },
        events={
            "trace.span": "segue.parts.litellm.events:TraceSpan",
        },
        extras=(
            "litellm",
            "proxy",
        ),
        topics=("litellm",),
    ),
)
