"""What tasks come from and work goes to beyond GitHub: Task Master, beads, and merge requests on GitLab."""

from segue.domain.part import Part, PartCommand, PartFiles

_HERE = "segue.parts.trackers"

PART = Part(
    name="trackers",
    summary="Takes tasks from Task Master and beads, and opens merge requests on GitLab.",
    commands={"sim gitlab": PartCommand(f"{_HERE}.command:gitlab", "Serve", "Simulate GitLab's API.")},
    sockets={
        "sources": {
            "taskmaster": f"{_HERE}.taskmaster:TaskMasterSource",
            "beads": f"{_HERE}.beads:BeadsSource",
        },
        "hostings": {"gitlab": f"{_HERE}.gitlab:GitLab"},
    },
    files={
        "taskmaster": PartFiles((".taskmaster", ".taskmaster/*.json"), ".taskmaster/tasks/tasks.json"),
        "beads": PartFiles((".beads", ".beads/*.jsonl"), ".beads/issues.jsonl"),
    },
    needs=("sim",),
    topics=("tasks", "pull-requests"),
)
