"""The bridge: turns the command lines an agent prints into actions, and tells it the results.

Down the layers: serve → routes | webhooks → session → conversation → execute → subagent → launch → agent.
"""

from segue.domain.part import Part, PartCommand, PartTable

_EVENTS = {
    "bridge.turn": "BridgeTurn",
    "bridge.command": "BridgeCommand",
    "bridge.skipped": "BridgeSkipped",
    "bridge.result": "BridgeResult",
    "bridge.reminder": "BridgeReminder",
    "bridge.webhook": "BridgeWebhook",
}

PART = Part(
    name="bridge",
    summary="Runs the commands that an agent without keys prints: conversations, webhooks, reminders.",
    commands={
        "bridge": PartCommand(
            "segue.parts.bridge.command:bridge", "Serve", "Run the commands that an agent prints."
        )
    },
    tables={
        "bridge": PartTable(
            "segue.parts.bridge.options:BridgeSettings",
            "lets agents elsewhere run commands here",
            paths=("relay_token_file",),
            agents=("subagent", "allow_agents"),
        )
    },
    events={name: f"segue.parts.bridge.events:{kind}" for name, kind in _EVENTS.items()},
    sockets={
        "continues": {"conversation": "segue.parts.bridge.command:hold"},
        "scenes": {"bridge": "segue.parts.bridge.demo:show_bridge"},
    },
    pages=("segue.parts.bridge.page",),
    needs=("notify", "relay", "sim"),
    extras=("bridge",),
    topics=("bridge",),
)
