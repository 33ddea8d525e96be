"""Suites that every variant of a socket passes, those of plug-ins too."""

from segue.domain.part import Part

_SOCKETS = ("agent", "delivery", "judge", "notifier", "reviewer", "searcher", "source", "store")

PART = Part(
    name="conformance",
    summary="Checks that agents, sources and the like, also your own, keep what their sockets promise.",
    sockets={
        "suites": {f"check_{name}": f"segue.parts.conformance.{name}:check_{name}" for name in _SOCKETS}
    },
    topics=("python",),
)
