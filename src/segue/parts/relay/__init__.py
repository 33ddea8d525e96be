"""Runs allowed actions on the user's machine for a bridge that has a token."""

from segue.domain.part import Part, PartCommand, PartTable

PART = Part(
    name="relay",
    summary="Runs actions that you allowed on this machine for a bridge elsewhere.",
    commands={
        "relay": PartCommand(
            "segue.parts.relay.command:relay",
            "Serve",
            "Run approved actions on this machine for a bridge elsewhere.",
        )
    },
    tables={
        "relay": PartTable(
            "segue.parts.relay.options:RelaySettings",
            "lets agents elsewhere run commands here",
            paths=("certfile", "keyfile"),
            personal=True,
        )
    },
    sockets={"questions": {"relay": "segue.parts.relay.web:list_questions"}},
    pages=("segue.parts.relay.web",),
    topics=("relay",),
)
