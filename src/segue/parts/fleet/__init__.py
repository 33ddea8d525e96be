"""Many machines: runs that any worker may drive, on the Postgres that they share.

Down the layers: commands → submit → queue → worker → seats → drive → work (what a run takes along) → git.
"""

from segue.domain.part import Part, PartCommand, PartTable

_COMMANDS = {
    "submit": ("submit:submit", "Let the workers of a fleet run a task list."),
    "worker": ("fleet:worker", "Work for a fleet on this machine."),
    "fleet": ("fleet:fleet", "Prepare a fleet's database, see what the fleet does."),
    "schedule": ("schedule:schedule", "Let a fleet begin runs again and again."),
    "fetch": ("fleet:fetch", "Bring the work of a fleet's run into your clone."),
}
_REMOTE = ("stop", "resume", "read_tasks", "read_diff", "find_submitted")

PART = Part(
    name="fleet",
    summary="Lets many machines that share one Postgres take runs out of a queue.",
    commands={
        name: PartCommand(f"segue.parts.fleet.commands.{where}", "Fleet", text)
        for name, (where, text) in _COMMANDS.items()
    },
    tables={
        "worker": PartTable(
            "segue.parts.fleet.options:WorkerSettings", "lets this machine work for a fleet", personal=True
        )
    },
    sockets={
        "submitted": {name: f"segue.parts.fleet.remote:{name}" for name in _REMOTE},
        "stuck": {"fleet": "segue.parts.fleet.page:find_stuck"},
    },
    pages=("segue.parts.fleet.page",),
    needs=("lab",),
    extras=("fleet",),
    topics=("fleet",),
)
