"""The error classifier: limits are seen, prose about limits is not."""

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


def test_the_supervisors_own_message_is_kept() -> None:
    failure = classify(None, None, "disk", "no space left on device", "", "", NOW)
    assert failure == Failure(FailureKind.CRASH, "no space left on device", "")


LIMITS = [
    "Claude AI usage limit reached|1773160000",
    "Claude usage limit reached. Your limit will reset at 3pm (Europe/Rome).",
    "You've hit your usage limit",
    "You’ve hit your usage limit.",
    "You've reached your usage limit. Try again at 3:45 PM",
    "Usage limit reached … resets 3pm (Europe/Rome)",
    "usage limit reached · resets 3pm (Europe/Rome)",
    "usage limit reached, resets at 15:00",
    "[resource_exhausted]",
    "[resource_exhausted] Error",
    "ConnectError: [resource_exhausted] Error",
    "Error: You've hit your limit … resets at 2026-03-10T20:00:00Z",
    "You've hit your limit · resets 3pm (Europe/Rome)",
    "You've hit your session limit · resets 3pm (Europe/Rome)",
    "You've hit your weekly limit · resets Oct 9, 3pm (Europe/Rome)",
    "You've hit your usage limit. Upgrade to Pro, or try again in 2 hours 5 minutes.",
    "You've hit your usage limit for Claude Sonnet. Switch to another model.",
    "■ You've hit your usage limit. Upgrade to Plus to continue using Codex.",
    "⚠️ Error: You have exceeded your monthly quota.",
    "5-hour limit reached ∙ resets 3pm",
    "Weekly limit reached ∙ resets Oct 9 at 10:30am",
    "try again in 2 hours 5 minutes",
    "Please try again in 30m.",
    "quota exceeded",
    "Error: Quota exceeded.",
    "Quota exceeded for quota metric 'Generate Content API requests per minute'",
    "You exceeded your current quota, please check your plan and billing details.",
    "Credit balance is too low",
    "stream error: You've hit your usage limit.",
    "\x1b[33mYou've hit your usage limit\x1b[0m",
    "T: You've hit your free requests limit. Upgrade to Pro.",
    "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.",
    "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.",
    "You're out of extra usage · resets 3:45pm (America/Los_Angeles)",
    "Your workspace is out of credits. Ask your workspace owner to refill in order to continue.",
    "You've used all your included usage for this month.",
    "Limit reached · resets 9pm (Europe/Rome)",
    "You have exhausted your daily quota on this model.",
    "You have exhausted your capacity on this model. Your quota will reset after 2h3m4s.",
    "Usage limit reached for gemini-2.5-pro. Access resets at 3:40 PM EST.",
    "You have exceeded your monthly premium requests quota.",
    "This organization has exceeded its usage limit. Contact your admin.",
    "The usage limit has been reached",
    "You have hit your ChatGPT usage limit (plus plan). Try again in ~2 days.",
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
    "Usage limit reached errors are retried after the reset.",
    '"You\'ve hit your usage limit" is shown in the dialog.',
    "- You've hit your usage limit: shown when the counter is used up",
    "+    You've hit your usage limit.",
    "> usage limit reached",
    "    usage limit reached",
    "# usage limit reached",
    "`usage limit reached`",
    "The usage limit reached by a user is stored in the table.",
    "When you've hit your usage limit, the button is disabled.",
    "Users see: You've hit your usage limit.",
    "Handles [resource_exhausted] from the server.",
    "[resource_exhausted] is mapped to status 429.",
    "Quota exceeded responses now carry a Retry-After header.",
    "Quota exceeded is tested in test_quota.py.",
    "The client will try again in 2 hours 5 minutes.",
    "Try again in 5 minutes is what the banner says.",
    "Daily limit reached handling: done.",
    "You exceeded your expectations, quota and all.",
    "Rate limit handling, 429 and 401 are tested; not logged in users get a 401 Unauthorized.",
    "Overloaded functions are documented.",
    "Insufficient credits are shown in red.",
    "You have exhausted your retries, says the dialog.",
    "You've hit the limit button too early in this test.",
    "Usage limit reached for a user is stored in the table.",
    "Your account has reached its limits in the new view.",
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
        ("You are not logged in.", FailureKind.AUTH),
        ("HTTP 403 Forbidden", FailureKind.AUTH),
        ("Your refresh token was revoked. Please log out and sign in again.", FailureKind.AUTH),
        ("GEMINI_API_KEY environment variable not set", FailureKind.AUTH),
        ("API key not valid. Please pass a valid API key.", FailureKind.AUTH),
        ("Invalid bearer token", FailureKind.AUTH),
        ("Login required", FailureKind.AUTH),
        ("HTTP 403: API rate limit exceeded", FailureKind.RATE_LIMIT),
        ("API Error: 429 {}", FailureKind.RATE_LIMIT),
        ("HTTP 429 Too Many Requests", FailureKind.RATE_LIMIT),
        ("exceeded retry limit, last status: 429", FailureKind.RATE_LIMIT),
        ("API Error: 529 overloaded_error", FailureKind.OUTAGE),
        ("The service is overloaded", FailureKind.OUTAGE),
        ("Error: 507 Insufficient Storage", FailureKind.OUTAGE),
        ("520 Web server returned an unknown error", FailureKind.OUTAGE),
        ("Request timed out.", FailureKind.OUTAGE),
        ("dial tcp: lookup api.openai.com: no such host", FailureKind.OUTAGE),
        ("Selected model is at capacity. Please try a different model.", FailureKind.OUTAGE),
        ("Context limit reached", FailureKind.CONTEXT),
        ("This request exceeds the maximum number of tokens", FailureKind.CONTEXT),
        ("ConnectError: [unavailable] Error", FailureKind.OUTAGE),
        ("curl: (7) Failed to connect: Connection refused", FailureKind.OUTAGE),
        ("TypeError: fetch failed", FailureKind.OUTAGE),
        ("Qwen Code: Internal error: terminated", FailureKind.OUTAGE),
        ("Info: Response was interrupted due to a server error. Retrying...", FailureKind.OUTAGE),
        ("HTTP/1.1 503 Service Unavailable", FailureKind.OUTAGE),
        ("connect ECONNREFUSED 127.0.0.1:8080", FailureKind.OUTAGE),
        ("Unable to connect to API (ConnectionRefused)", FailureKind.OUTAGE),
        ("ConnectError: [unauthenticated] Error", FailureKind.AUTH),
        ("400 prompt is too long: 210000 tokens > 200000 maximum", FailureKind.CONTEXT),
        ("This model's maximum context length is 128000 tokens.", FailureKind.CONTEXT),
        ("Error: Reached max turns (3)", FailureKind.MAX_TURNS),
        ("Stopped: turn_limit", FailureKind.MAX_TURNS),
        ("rate limit exceeded", FailureKind.RATE_LIMIT),
        ("You have hit the rate limit. Please wait", FailureKind.RATE_LIMIT),
        ("API Error: 402 Payment Required", FailureKind.USAGE_LIMIT),
        ('Error 429: {"error": {"code": "insufficient_quota"}}', FailureKind.USAGE_LIMIT),
        ('API Error: 400 {"error": {"message": "Your credit balance is too low."}}', FailureKind.USAGE_LIMIT),
        ("You have no quota left", FailureKind.USAGE_LIMIT),
        ("Billing hard limit has been reached", FailureKind.USAGE_LIMIT),
        ("You've reached the limit of your plan", FailureKind.USAGE_LIMIT),
        ("Your prepayment credits are depleted. Please go to AI Studio.", FailureKind.USAGE_LIMIT),
        ('{"code":403,"message":"This model is not included in your plan."}', FailureKind.USAGE_LIMIT),
        ("API Error: 403 Your plan does not include this model.", FailureKind.USAGE_LIMIT),
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
        "401 files read",
        "see line 529",
        "port 4290 is busy",
        "error on line 503",
        "503 passed, 1 failed",
        "the commit message is too long",
        "the turns were taken",
        "OSError: [Errno 122] Disk quota exceeded",
        "the stack limit was reached",
        "403 passed, 1 failed",
        "the login form is required",
        "the token list is sorted",
        "exceeded the time limit for the quota test",
    ],
)
def test_a_number_alone_is_neither_a_key_nor_a_pace_problem(text: str) -> None:
    assert kind(after("", text + "\n", code=1)) is FailureKind.CRASH


def test_the_last_complaint_decides() -> None:
    assert kind(after("", "rate limit, retrying\nError: invalid API key\n", code=1)) is FailureKind.AUTH


def test_a_rate_limit_says_when_to_come_back() -> None:
    failure = after("", "rate limit: retry after 20s\n", code=1)
    assert failure is not None
    assert failure.until == NOW + 20


def test_a_field_in_the_sentence_counts_more_than_its_words() -> None:
    said = 'Error: 429 {"type": "usage_limit_reached", "resets_in_seconds": 4000}, try again in 5 minutes'
    failure = after("", said, code=1)
    assert failure is not None
    assert (failure.kind, failure.until) == (FailureKind.USAGE_LIMIT, NOW + 4000)


def test_a_crash_names_exit_code_and_last_words() -> None:
    failure = after("", "Traceback\nValueError: no such colour\n", code=3)
    assert failure is not None
    assert failure.kind is FailureKind.CRASH
    assert "exit code 3" in failure.message
    assert "no such colour" in failure.message
    assert failure.stderr_tail.startswith("Traceback")


def test_a_signal_is_a_crash_and_is_named() -> None:
    failure = after("all fine\n", code=None, signal=9)
    assert failure is not None
    assert failure.kind is FailureKind.CRASH
    assert "SIGKILL" in failure.message


def test_exit_without_complaint_is_no_failure() -> None:
    assert after("I did it.\n", "warning: something noisy\n") is None
    assert after() is None


def at(*parts: int, zone: ZoneInfo = ROME) -> float:
    return datetime(*parts, tzinfo=zone).timestamp()  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("reached|1773160000", 1773160000.0),
        ("reached|1773160000000", 1773160000.0),
        ("resets at 2026-03-10T20:00:00Z", datetime(2026, 3, 10, 20, tzinfo=UTC).timestamp()),
        ("resets at 2026-03-10T20:00:00.123+02:00", datetime(2026, 3, 10, 18, tzinfo=UTC).timestamp()),
        ("until 2026-03-10 20:00 (Europe/Rome)", at(2026, 3, 10, 20)),
        ("resets 3pm (Europe/Rome)", at(2026, 3, 10, 15) + MINUTE),
        ("resets 11am (Europe/Rome)", at(2026, 3, 11, 11) + MINUTE),
        ("resets 11:59am (Europe/Rome)", NOW + MINUTE),  # a moment ago, not tomorrow
        ("resets 11:50am (Europe/Rome)", NOW + MINUTE),
        ("resets 12pm (Europe/Rome)", NOW + MINUTE),
        ("resets at 12am (Europe/Rome)", at(2026, 3, 11, 0) + MINUTE),
        ("Try again at 12:30 p.m. (Europe/Rome)", at(2026, 3, 10, 12, 30) + MINUTE),
        ("resets 15:04 UTC", datetime(2026, 3, 10, 15, 4, tzinfo=UTC).timestamp() + MINUTE),
        ("resets 9am (America/New_York)", at(2026, 3, 10, 9, zone=ZoneInfo("America/New_York")) + MINUTE),
        ("resets Oct 9, 3pm (Europe/Rome)", at(2026, 10, 9, 15) + MINUTE),
        ("resets Jan 2 at 3pm (Europe/Rome)", at(2027, 1, 2, 15) + MINUTE),
        ("try again at Mar 12th, 2026 3:45 PM (Europe/Rome)", at(2026, 3, 12, 15, 45) + MINUTE),
        ("resets Monday at 3pm (Europe/Rome)", at(2026, 3, 16, 15) + MINUTE),
        ("resets Tue 11am (Europe/Rome)", at(2026, 3, 17, 11) + MINUTE),
        ("try again in 2 hours 5 minutes", NOW + 7500 + MINUTE),
        ("try again in 1 day, 2 hours and 3 minutes", NOW + 86400 + 7200 + 180 + MINUTE),
        ("resets in 2h 5m 10s", NOW + 7510),
        ("Please wait 90 seconds", NOW + 90),
        ("resets 3:40 PM PST", at(2026, 3, 10, 15, 40, zone=ZoneInfo("Etc/GMT+8")) + MINUTE),
        ("resets 3:40 PM PT", at(2026, 3, 10, 15, 40, zone=ZoneInfo("America/Los_Angeles")) + MINUTE),
        ("resets at 18:00 UTC+02:00", datetime(2026, 3, 10, 16, tzinfo=UTC).timestamp() + MINUTE),
        ("resets 5pm (GMT-5)", datetime(2026, 3, 10, 22, tzinfo=UTC).timestamp() + MINUTE),
        ("resets at 18:00 +0530", datetime(2026, 3, 10, 12, 30, tzinfo=UTC).timestamp() + MINUTE),
        ("resets tomorrow at 5pm (Europe/Rome)", at(2026, 3, 11, 17) + MINUTE),
        ("resets at midnight (Europe/Rome)", at(2026, 3, 11) + MINUTE),
        ("resets 18 Mar 09:33 (Europe/Rome)", at(2026, 3, 18, 9, 33) + MINUTE),
        ("resets on 18 March 2026 at 9 AM (Europe/Rome)", at(2026, 3, 18, 9) + MINUTE),
        ("resets Mar 20 (Europe/Rome)", at(2026, 3, 20) + MINUTE),
        ("resets Mar 10 (Europe/Rome)", at(2026, 3, 11) + MINUTE),
        ("resets Mar 10, 9am (Europe/Rome)", NOW + MINUTE),  # hours ago, not next year
        ("resets Friday (Europe/Rome)", at(2026, 3, 13) + MINUTE),
        ("regain access on 2026-04-01 at 00:00 UTC", datetime(2026, 4, 1, tzinfo=UTC).timestamp()),
        ("until 2026-03-12 03:05 PM (Europe/Rome)", at(2026, 3, 12, 15, 5) + MINUTE),
        ("resets on 04/01/2026 at 9:00 AM (Europe/Rome)", at(2026, 4, 1, 9) + MINUTE),
        (
            "Retry-After: Wed, 11 Mar 2026 09:33:00 GMT",
            datetime(2026, 3, 11, 9, 33, tzinfo=UTC).timestamp() + MINUTE,
        ),
        ("retry-after: 120", NOW + 120),
        ("try again in an hour", NOW + 3600 + MINUTE),
        ("try again in ~2 weeks", NOW + 14 * 86400 + MINUTE),
        ("try again in 01:30:00", NOW + 5400),
        ("try again in 20ms", None),
        ("resets monthly", None),
        ("resets after 3 attempts", None),
        ("reached|1573160000", None),
        ("resets Feb 31 at 3pm", None),
        ("resets at 25:61", None),
        ("resets soon", None),
        ("in 999999999 days", None),
    ],
)
def test_reset_times(text: str, expected: float | None) -> None:
    assert reset_time(text, NOW) == expected


def test_an_unknown_zone_means_local_time() -> None:
    assert reset_time("resets 3pm (Middle/Earth)", NOW) == reset_time("resets 3pm", NOW) is not None


def test_a_clock_time_keeps_to_the_wall_clock_when_summer_time_begins() -> None:
    evening = at(2026, 3, 28, 22)
    assert reset_time("resets 3pm (Europe/Rome)", evening) == at(2026, 3, 29, 15) + MINUTE


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


@pytest.mark.parametrize(("ago", "is_known"), [(1, True), (59, True), (61, False), (3600, False)])
def test_a_limit_that_ended_while_it_was_read_is_over(ago: int, is_known: bool) -> None:
    ended = int(NOW) - ago
    assert reset_time(f"usage limit reached|{ended}", int(NOW)) == (ended if is_known else None)


@settings(deadline=None)
@given(st.integers(0, 23), st.integers(0, 59), instants)
def test_a_clock_time_is_its_next_occurrence_or_just_over(hour: int, minute: int, now: float) -> None:
    instant = reset_time(f"resets at {hour:02}:{minute:02} UTC", now)
    assert instant is not None
    assert 0 < instant - now <= 86400
    named = datetime.fromtimestamp(instant - MINUTE, UTC)
    assert (named.hour, named.minute) == (hour, minute) or instant == now + MINUTE


@given(st.integers(0, 14 * 60), instants)
def test_a_time_of_day_that_has_just_passed_is_not_tomorrow(ago: int, now: float) -> None:
    clock = datetime.fromtimestamp(now - ago, UTC)
    instant = reset_time(f"resets {clock:%H:%M} UTC", now)
    assert instant is not None
    assert 0 < instant - now <= MINUTE + 0.001


@settings(deadline=None)
@given(st.integers(0, 40), st.integers(0, 23), st.integers(1, 59), instants)
def test_a_duration_is_the_sum_of_its_parts(days: int, hours: int, minutes: int, now: float) -> None:
    instant = reset_time(f"try again in {days} days, {hours} hours and {minutes} minutes", now)
    assert instant == now + (days * 86400 + hours * 3600 + minutes * 60) + MINUTE


@settings(deadline=None)
@given(st.text(), st.text(), st.sampled_from([0, 1, None]))
def test_no_output_breaks_the_classifier(out: str, err: str, code: int | None) -> None:
    failure = after(out, err, code=code)
    assert failure is not None or code == 0
