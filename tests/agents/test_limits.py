"""Fields that name the end of a limit are found wherever a vendor puts them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from segue.agents.limits import MARGIN, Refusal, Signal, read_signal
from segue.domain.outcome import FailureKind

NOW = 1_794_733_000.0
GEMINI = {
    "error": {
        "code": 429,
        "status": "RESOURCE_EXHAUSTED",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}],
    }
}


@pytest.mark.parametrize(
    ("data", "signal"),
    [
        ({"resetsAt": NOW + 60}, Signal(0, NOW + 60 + MARGIN)),
        ({"resets_at": (NOW + 60) * 1000}, Signal(0, NOW + 60 + MARGIN)),
        ({"reset-at": datetime.fromtimestamp(NOW + 60, UTC).isoformat()}, Signal(0, NOW + 60 + MARGIN)),
        ({"status": 429, "headers": {"Retry-After": "40"}}, Signal(429, NOW + 40)),
        ({"retry_after_ms": 1500}, Signal(0, NOW + 1.5)),
        ({"retryDelayMs": 1500, "statusCode": "503"}, Signal(503, NOW + 1.5)),
        (GEMINI, Signal(429, NOW + 34.5)),
        ({"message": f"got status: 429. {json.dumps(GEMINI)}"}, Signal(429, NOW + 34.5)),
        ([{"primary": {"resets_at": NOW + 9}}, {"secondary": {"resets_at": NOW + 99}}],
         Signal(0, NOW + 99 + MARGIN)),
        ({"resetsAt": f"{NOW + 60:.0f}000"}, Signal(0, NOW + 60 + MARGIN)),
        ({"retry-after": "Sun, 15 Nov 2026 08:56:40 GMT"}, Signal(0, NOW + MARGIN)),
        ({"reset_at": "2026-11-15 08:56:40"}, Signal(0, NOW + MARGIN)),
        ({"quotaResetDelay": "2h3m4.5s"}, Signal(0, NOW + 7384.5)),
        ({"retry_delay": {"seconds": 34}}, Signal(0, NOW + 34)),
        ({"retryAfter": "2 minutes"}, Signal(0, NOW + 120)),
        ({"x-ratelimit-reset": 40}, Signal(0, NOW + 40)),
        ({"x-ratelimit-reset": NOW + 40}, Signal(0, NOW + 40 + MARGIN)),
        ({"retryAfter": -3}, Signal()),
        ({"resetsAt": NOW - 3600}, Signal()),
        ({"resetsAt": True, "retryAfter": "soon", "code": 7}, Signal()),
        ("resets 9:32am", Signal()),
    ],
)  # fmt: skip
def test_what_is_read(data: Any, signal: Signal) -> None:
    assert read_signal(data, NOW) == signal


def test_a_short_wait_is_the_agent_s_own_business() -> None:
    refusal = Refusal(FailureKind.RATE_LIMIT, NOW + 40, "")
    assert refusal.outlasts(0, NOW)
    assert not refusal.outlasts(600, NOW)
    assert not Refusal(FailureKind.OUTAGE, NOW + 8, "").outlasts(0, NOW)
