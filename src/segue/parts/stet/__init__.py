"""stet, a reviewer of the lines that a commit changed: talks to it, and simulates it."""

from segue.domain.part import Part

PART = Part(
    name="stet",
    summary="Lets stet review every change, and simulates it.",
    sockets={
        "reviewers": {"stet": "segue.parts.stet.reviewer:StetReviewer"},
        "stand-ins": {"stet": "segue.parts.stet.sim.command:main"},
    },
    topics=("reviewing",),
)
