"""Sources of other tools that list tasks: Task Master and beads."""

from segue.domain.part import Part, PartFiles

PART = Part(
    name="trackers",
    summary="Takes tasks from Task Master and beads, and tells them what is done.",
    sockets={
        "sources": {
            "taskmaster": "segue.parts.trackers.taskmaster:TaskMasterSource",
            "beads": "segue.parts.trackers.beads:BeadsSource",
        }
    },
    files={
        "taskmaster": PartFiles((".taskmaster", ".taskmaster/*.json"), ".taskmaster/tasks/tasks.json"),
        "beads": PartFiles((".beads", ".beads/*.jsonl"), ".beads/issues.jsonl"),
    },
    topics=("tasks",),
)
