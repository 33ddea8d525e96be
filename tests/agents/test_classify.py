"""The error classifier: limits are seen, prose about limits is not, traces do not hide an error."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.agents.classify import classify
from segue.agents.limits import FARTHEST, JUST_OVER, reset_time
from segue.domain.outcome import Failure, FailureKind

ROME = ZoneInfo("Europe/Rome")
NOW = datetime(2026, 3, 10, 12, 0, tzinfo=ROME).timestamp()  # a Tuesday
MINUTE = 60.0
"""What a sentence without seconds leaves out."""


def after(
    out: str = "",
    err: str = "",
    *,
    code: int | None = 0,
    signal: int | None = None,
    reason: str | None = None,
) -> Failure | None:
    return classify(code, signal, reason, "", out, err, NOW)


def kind(failure: Failure | None) -> FailureKind | None:
    return failure.kind if failure else None


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("not_started", FailureKind.NOT_STARTED),
        ("wall", FailureKind.TIMEOUT),
        ("idle", FailureKind.HANG),
        ("output", FailureKind.OUTPUT_LIMIT),
        ("disk", FailureKind.CRASH),
        ("ended", FailureKind.INTERRUPTED),
        ("lost", FailureKind.LOST),
        ("something new", FailureKind.CRASH),
    ],
)
def test_how_the_process_was_ended_decides_first(reason: str, expected: FailureKind) -> None:
    failure = after("done\n", "rate limit\n", code=None, reason=reason)
    assert failure is not None
    assert failure.kind is expected
    assert failure.message
    assert failure.stderr_tail == "rate limit"


LIMITS = [
    "Claude AI usage limit reached|1773160000",
    "Claude usage limit reached. Your limit will reset at 3pm (Europe/Rome).",
    "You've hit your usage limit",
    "You've reached your usage limit. Try again at 3:45 PM",
    "Usage limit reached … resets 3pm (Europe/Rome)",
    "usage limit reached, resets at 15:00",
    "[resource_exhausted]",
    "ConnectError: [resource_exhausted] Error",
    "Error: You've hit your limit … resets at 2026-03-10T20:00:00Z",
    "You've hit your session limit · resets 3pm (Europe/Rome)",
    "You've hit your weekly limit · resets Oct 9, 3pm (Europe/Rome)",
    "You've hit your usage limit. Upgrade to Pro, or try again in 2 hours 5 minutes.",
    "⚠️ Error: You have exceeded your monthly quota.",
    "5-hour limit reached ∙ resets 3pm",
    "try again in 2 hours 5 minutes",
    "quota exceeded",
    "You exceeded your current quota, please check your plan and billing details.",
    "Credit balance is too low",
    "\x1b[33mYou've hit your usage limit\x1b[0m",
    "T: You've hit your free requests limit. Upgrade to Pro.",
    "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.",
    "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.",
    "Your workspace is out of credits. Ask your workspace owner to refill in order to continue.",
    "You've used all your included usage for this month.",
    "You have exhausted your daily quota on this model.",
    "Usage limit reached for gemini-2.5-pro. Access resets at 3:40 PM EST.",
    "Insufficient credits. Add more using https://openrouter.ai/settings/credits",
]


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("line", LIMITS)
def test_a_usage_limit_is_seen_on_either_stream_whatever_the_exit_code(line: str, code: int) -> None:
    assert kind(after(f"working\n{line}\n\n", code=code)) is FailureKind.USAGE_LIMIT
    assert kind(after("working\n", f"{line}\nbye\n", code=code)) is FailureKind.USAGE_LIMIT


PROSE = [
    "I added a message 'usage limit reached' to the rate limiter.",
    "Usage limit reached is now logged once per day.",
    '"You\'ve hit your usage limit" is shown in the dialog.',
    "- You've hit your usage limit: shown when the counter is used up",
    "    usage limit reached",
    "`usage limit reached`",
    "When you've hit your usage limit, the button is disabled.",
    "Handles [resource_exhausted] from the server.",
    "Quota exceeded responses now carry a Retry-After header.",
    "The client will try again in 2 hours 5 minutes.",
    "Try again in 5 minutes is what the banner says.",
    "You exceeded your expectations, quota and all.",
    "Rate limit handling, 429 and 401 are tested; not logged in users get a 401 Unauthorized.",
    "You've hit the limit button too early in this test.",
    "Usage limit reached for a user is stored in the table.",
    "HTTP 402 Payment Required is returned for a free plan.",
    '{"type": "text", "text": "You\'ve hit your usage limit"}',
]


@pytest.mark.parametrize("line", PROSE)
def test_prose_about_limits_is_not_a_limit(line: str) -> None:
    assert after(f"Working on it.\n{line}\n") is None
    assert after("Done.\n", f"{line}\n") is None


def test_a_limit_quoted_in_a_code_block_is_not_a_limit() -> None:
    assert after("The banner now says:\n```\nYou've hit your usage limit.\n```\n") is None
    assert after("~~~text\nUsage limit reached\n~~~\nDone.\n") is None


def test_work_that_went_on_after_the_sentence_outweighs_it() -> None:
    lines = "You've hit your usage limit.\nstep one\nstep two\nstep three\n"
    assert after(lines) is None


def test_the_reset_time_may_stand_on_the_next_line() -> None:
    failure = after("Usage limit reached.\nYour limit resets at 3pm (Europe/Rome).\n")
    assert failure is not None
    assert failure.message == "Usage limit reached."
    assert failure.until == datetime(2026, 3, 10, 15, 1, tzinfo=ROME).timestamp()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Error: Authentication required. Please run 'agent login'", FailureKind.AUTH),
        ("\x1b[33mWarning: The provided API key is invalid.\x1b[0m", FailureKind.AUTH),
        ("Invalid API key · Please run /login", FailureKind.AUTH),
        ("error: unexpected status 401 Unauthorized", FailureKind.AUTH),
        ("API Error: 401 {}", FailureKind.AUTH),
        ("Your refresh token was revoked. Please log out and sign in again.", FailureKind.AUTH),
        ("GEMINI_API_KEY environment variable not set", FailureKind.AUTH),
        ("API key not valid. Please pass a valid API key.", FailureKind.AUTH),
        ("HTTP 403: API rate limit exceeded", FailureKind.RATE_LIMIT),
        ("API Error: 429 {}", FailureKind.RATE_LIMIT),
        ("exceeded retry limit, last status: 429", FailureKind.RATE_LIMIT),
        ("API Error: 529 overloaded_error", FailureKind.OUTAGE),
        ("Error: 507 Insufficient Storage", FailureKind.OUTAGE),
        ("dial tcp: lookup api.openai.com: no such host", FailureKind.OUTAGE),
        ("Selected model is at capacity. Please try a different model.", FailureKind.OUTAGE),
        ("ConnectError: [unavailable] Error", FailureKind.OUTAGE),
        ("curl: (7) Failed to connect: Connection refused", FailureKind.OUTAGE),
        ("Info: Response was interrupted due to a server error. Retrying...", FailureKind.OUTAGE),
        ("connect ECONNREFUSED 127.0.0.1:8080", FailureKind.OUTAGE),
        ("ConnectError: [unauthenticated] Error", FailureKind.AUTH),
        ("400 prompt is too long: 210000 tokens > 200000 maximum", FailureKind.CONTEXT),
        ("This model's maximum context length is 128000 tokens.", FailureKind.CONTEXT),
        ("Error: Reached max turns (3)", FailureKind.MAX_TURNS),
        ("rate limit exceeded", FailureKind.RATE_LIMIT),
        ("API Error: 402 Payment Required", FailureKind.USAGE_LIMIT),
        ('Error 429: {"error": {"code": "insufficient_quota"}}', FailureKind.USAGE_LIMIT),
        ('API Error: 400 {"error": {"message": "Your credit balance is too low."}}', FailureKind.USAGE_LIMIT),
        ("Your prepayment credits are depleted. Please go to AI Studio.", FailureKind.USAGE_LIMIT),
        ('{"code":403,"message":"This model is not included in your plan."}', FailureKind.USAGE_LIMIT),
        ("Request exceeds the maximum size", FailureKind.CONTEXT),
    ],
)
def test_keys_and_pace_count_only_after_a_failing_exit(text: str, expected: FailureKind) -> None:
    assert kind(after("", text + "\n", code=1)) is expected
    assert kind(after(text + "\n", "", code=1)) is expected
    assert after("done\n", text + "\n") is None


@pytest.mark.parametrize(
    "text",
    [
        "429 passed, 1 failed",
        "see line 529",
        "error on line 503",
        "the commit message is too long",
        "OSError: [Errno 122] Disk quota exceeded",
        "403 passed, 1 failed",
        "the login form is required",
        "exceeded the time limit for the quota test",
    ],
)
def test_a_number_alone_is_neither_a_key_nor_a_pace_problem(text: str) -> None:
    assert kind(after("", text + "\n", code=1)) is FailureKind.CRASH


def at(*parts: int, zone: ZoneInfo = ROME) -> float:
    return datetime(*parts, tzinfo=zone).timestamp()  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("reached|1773160000", 1773160000.0),
        ("resets at 2026-03-10T20:00:00Z", datetime(2026, 3, 10, 20, tzinfo=UTC).timestamp()),
        ("resets at 2026-03-10T20:00:00.123+02:00", datetime(2026, 3, 10, 18, tzinfo=UTC).timestamp()),
        ("until 2026-03-10 20:00 (Europe/Rome)", at(2026, 3, 10, 20)),
        ("resets 3pm (Europe/Rome)", at(2026, 3, 10, 15) + MINUTE),
        ("resets 11am (Europe/Rome)", at(2026, 3, 11, 11) + MINUTE),
        ("resets 11:59am (Europe/Rome)", NOW + MINUTE),  # a moment ago, not tomorrow
        ("resets at 12am (Europe/Rome)", at(2026, 3, 11, 0) + MINUTE),
        ("resets 15:04 UTC", datetime(2026, 3, 10, 15, 4, tzinfo=UTC).timestamp() + MINUTE),
        ("resets 9am (America/New_York)", at(2026, 3, 10, 9, zone=ZoneInfo("America/New_York")) + MINUTE),
        ("resets Jan 2 at 3pm (Europe/Rome)", at(2027, 1, 2, 15) + MINUTE),
        ("try again at Mar 12th, 2026 3:45 PM (Europe/Rome)", at(2026, 3, 12, 15, 45) + MINUTE),
        ("resets Tue 11am (Europe/Rome)", at(2026, 3, 17, 11) + MINUTE),
        ("try again in 2 hours 5 minutes", NOW + 7500 + MINUTE),
        ("resets in 2h 5m 10s", NOW + 7510),
        ("resets 3:40 PM PT", at(2026, 3, 10, 15, 40, zone=ZoneInfo("America/Los_Angeles")) + MINUTE),
        ("resets at 18:00 UTC+02:00", datetime(2026, 3, 10, 16, tzinfo=UTC).timestamp() + MINUTE),
        ("resets at 18:00 +0530", datetime(2026, 3, 10, 12, 30, tzinfo=UTC).timestamp() + MINUTE),
        ("resets tomorrow at 5pm (Europe/Rome)", at(2026, 3, 11, 17) + MINUTE),
        ("resets at midnight (Europe/Rome)", at(2026, 3, 11) + MINUTE),
        ("resets on 18 March 2026 at 9 AM (Europe/Rome)", at(2026, 3, 18, 9) + MINUTE),
        ("resets Mar 10, 9am (Europe/Rome)", NOW + MINUTE),  # hours ago, not next year
        ("resets Friday (Europe/Rome)", at(2026, 3, 13) + MINUTE),
        ("regain access on 2026-04-01 at 00:00 UTC", datetime(2026, 4, 1, tzinfo=UTC).timestamp()),
        ("resets on 04/01/2026 at 9:00 AM (Europe/Rome)", at(2026, 4, 1, 9) + MINUTE),
        (
            "Retry-After: Wed, 11 Mar 2026 09:33:00 GMT",
            datetime(2026, 3, 11, 9, 33, tzinfo=UTC).timestamp() + MINUTE,
        ),
        ("retry-after: 120", NOW + 120),
        ("try again in ~2 weeks", NOW + 14 * 86400 + MINUTE),
        ("try again in 20ms", None),
        ("resets after 3 attempts", None),
        ("reached|1573160000", None),
        ("resets Feb 31 at 3pm", None),
        ("in 999999999 days", None),
    ],
)
def test_reset_times(text: str, expected: float | None) -> None:
    assert reset_time(text, NOW) == expected


words = st.sampled_from(
    ["resets", "at", "in", "until", "on", "Oct", "Mon", "9", "3pm", "12:30", "25:99", "2h", "5 minutes", "pm"]
) | st.sampled_from(
    ["|1773160000", "2026-02-30T10:00:00Z", "2026-03-11T10:00", "(Europe/Rome)", "(X/Y)", "UTC", "31", "2027"]
)
instants = st.floats(min_value=0, max_value=4e9, allow_nan=False)


@settings(deadline=None)
@given(st.lists(words | st.text(max_size=8), max_size=12).map(" ".join), instants)
def test_any_text_gives_an_instant_that_may_be_waited_for_or_none(text: str, now: float) -> None:
    instant = reset_time(text, now)
    assert instant is None or now - JUST_OVER < instant <= now + FARTHEST


@given(st.integers(0, 14 * 60), instants)
def test_a_time_of_day_that_has_just_passed_is_not_tomorrow(ago: int, now: float) -> None:
    clock = datetime.fromtimestamp(now - ago, UTC)
    instant = reset_time(f"resets {clock:%H:%M} UTC", now)
    assert instant is not None
    assert 0 < instant - now <= MINUTE + 0.001


@settings(deadline=None)
@given(st.text(), st.text(), st.sampled_from([0, 1, None]))
def test_no_output_breaks_the_classifier(out: str, err: str, code: int | None) -> None:
    failure = after(out, err, code=code)
    assert failure is not None or code == 0


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
