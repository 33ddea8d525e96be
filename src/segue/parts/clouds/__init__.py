"""Cloud agents beside Cursor's: Claude Managed Agents, Copilot, Devin and Jules, each with its simulator."""

from segue.domain.part import Part, PartCommand

_HERE = "segue.parts.clouds"

PART = Part(
    name="clouds",
    summary="Lets cloud agents of Anthropic, GitHub, Cognition and Google work on tasks.",
    commands={
        f"sim {name}": PartCommand(
            f"{_HERE}.command:{name.replace('-', '_')}", "Serve", f"Simulate {vendor}."
        )
        for name, vendor in (
            ("claude-cloud", "Claude Managed Agents"),
            ("copilot-cloud", "GitHub Copilot's agent tasks"),
            ("devin", "Devin"),
            ("jules", "Google Jules"),
        )
    },
    sockets={
        "agents": {
            "claude-cloud": f"{_HERE}.claude:CLAUDE_CLOUD",
            "copilot-cloud": f"{_HERE}.copilot:COPILOT_CLOUD",
            "devin": f"{_HERE}.devin:DEVIN",
            "jules": f"{_HERE}.jules:JULES",
        }
    },
    needs=("sim",),
    topics=("clouds",),
)
