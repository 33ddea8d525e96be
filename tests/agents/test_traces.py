"""An error is found also where a program prints a trace after it."""

from __future__ import annotations

from segue.agents.classify import classify
from segue.domain.outcome import FailureKind

NOW = 1_794_733_000.0
TRACE = """
            throw err
            ^

ApiError: {"error": {"code": "insufficient_quota", "retry_after": 90}}
    at throwErrorIfNotOK (file:///x.js:1:2)
    at process.processTicksAndRejections (node:internal/process/task_queues:105:5)
    at async a (file:///x.js:1:2)
    at async b (file:///x.js:1:2)
    at async c (file:///x.js:1:2)
    at async d (file:///x.js:1:2)
    at async e (file:///x.js:1:2) {
  status: 429
}

Node.js v20.20.2
"""


def test_an_error_is_found_before_its_trace() -> None:
    failure = classify(1, None, None, "", "", TRACE, NOW)
    assert failure is not None
    assert (failure.kind, failure.until) == (FailureKind.USAGE_LIMIT, NOW + 90)


def test_a_context_that_cannot_be_made_smaller_is_full() -> None:
    said = "Internal error: Session too large to compact - context exceeds model limit: ContextOverflowError"
    failure = classify(1, None, None, "", said, "", NOW)
    assert failure is not None
    assert failure.kind is FailureKind.CONTEXT
