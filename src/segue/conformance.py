"""The name under which authors of plug-ins import the suites of the part conformance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.domain.installed import find_variant, known_variants

if TYPE_CHECKING:
    from segue.parts.conformance.agent import check_agent as check_agent
    from segue.parts.conformance.delivery import check_delivery as check_delivery
    from segue.parts.conformance.judge import check_judge as check_judge
    from segue.parts.conformance.notifier import check_notifier as check_notifier
    from segue.parts.conformance.reviewer import check_reviewer as check_reviewer
    from segue.parts.conformance.searcher import check_searcher as check_searcher
    from segue.parts.conformance.source import check_source as check_source
    from segue.parts.conformance.store import check_store as check_store


def __getattr__(name: str) -> Any:
    """Import a suite; raises UsageError if the part is not installed."""
    if name not in known_variants("suites"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return find_variant("suites", name, f"segue.{name}")
