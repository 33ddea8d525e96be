"""Vendors' stand-ins: command line tools, Cursor's cloud agents and GitHub, simulated to rehearse a run."""

from segue.domain.part import Part, PartCommand

PART = Part(
    name="sim",
    summary="Simulates vendors' tools and services, to rehearse a run without accounts.",
    commands={
        "sim": PartCommand(
            "segue.parts.sim.command:sim", "Serve", "Simulate vendors' tools to rehearse a run."
        )
    },
    sockets={"scenes": {"feature": "segue.parts.sim.demo:show_feature"}},
    extras=("sim",),
    topics=("simulators",),
)
