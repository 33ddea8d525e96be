"""The exam beyond single tasks: tests that combine them, and old code against new."""

from segue.domain.part import Part

PART = Part(
    name="exam",
    summary="Tests tasks together, and compares old code with new where behaviour must stay.",
    sockets={
        "combining": {"together": "segue.parts.exam.together:combine"},
        "comparing": {"same": "segue.parts.exam.same:compare"},
    },
    topics=("proof",),
)
