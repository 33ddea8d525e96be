"""The server for other agents and editors, in the Model Context Protocol: its tools and resources."""

from segue.domain.part import Part, PartCommand

PART = Part(
    name="mcp",
    summary="Lets other agents and editors start runs, watch them and read their proof.",
    commands={
        "mcp": PartCommand(
            "segue.parts.mcp.command:mcp", "Serve", "Let other agents and editors hand work to Segue."
        )
    },
    sockets={"way-out": {"mcp": "segue.parts.mcp.offer:find_server"}},
    extras=("mcp",),
    topics=("mcp",),
)
