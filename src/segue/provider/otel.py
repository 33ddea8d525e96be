"""Emits traces as OpenTelemetry spans, named by the GenAI conventions, if OpenTelemetry is installed."""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from typing import Any

from segue.domain.events import TraceSpan
from segue.provider.trace import Trace

_OPERATIONS = {"cli": "chat", "litellm": "chat", "profile": "invoke_agent"}
_NANO = 1_000_000_000


@cache
def _api() -> Any:
    if importlib.util.find_spec("opentelemetry") is None:
        return None
    return importlib.import_module("opentelemetry.trace")


def current_context() -> Any:
    """Return the caller's context, the parent of our spans; None without OpenTelemetry."""
    if _api() is None:
        return None
    return importlib.import_module("opentelemetry.context").get_current()


def emit(trace: Trace, context: Any) -> None:
    """Pass the finished spans to the tracer that the application has set up."""
    api = _api()
    if api is None:
        return
    tracer = api.get_tracer("segue.provider")
    contexts: dict[str | None, Any] = {None: context}
    for span in trace.spans:
        made = tracer.start_span(
            f"{_OPERATIONS[span.kind]} {span.model}",
            context=contexts[span.parent],
            kind=api.SpanKind.INTERNAL if span.kind == "profile" else api.SpanKind.CLIENT,
            attributes=_attributes(span),
            start_time=int(span.started * _NANO),
        )
        contexts[span.id] = api.set_span_in_context(made, context)
        if not span.ok:
            made.set_status(api.Status(api.StatusCode.ERROR, span.error))
        made.end(int((span.started + span.seconds) * _NANO))


def _attributes(span: TraceSpan) -> dict[str, Any]:
    """Return the attributes of a span, without those that have no value."""
    provider, _, model = span.model.partition("/")
    known = {
        "gen_ai.operation.name": _OPERATIONS[span.kind],
        "gen_ai.provider.name": provider if model else span.kind,
        "gen_ai.request.model": model or span.model,
        "gen_ai.response.model": span.answered_by,
        "gen_ai.usage.input_tokens": span.input_tokens or None,
        "gen_ai.usage.output_tokens": span.output_tokens or None,
        "error.type": None if span.ok else span.failure or span.error.partition(":")[0],
        "process.exit.code": span.exit_code,
        "segue.part": span.part or None,
        "segue.queued": span.queued or None,
        "segue.stderr": span.stderr or None,
        "segue.usage.estimated": span.estimated or None,
        "segue.usage.cost_usd": span.cost_usd,
        "segue.note": span.note or None,
    }
    return {name: value for name, value in known.items() if value is not None}
