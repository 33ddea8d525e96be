"""The error classifier: reads from how a process ended and what it printed last why it failed.

Exit code 0 is not proof of success, and an agent may well write *about* usage limits. So limits are
recognised by whole sentences at the start of the last lines only, outside of code blocks.
"""

from __future__ import annotations

import re
import signal as signals
from collections.abc import Iterator

from segue.domain.failure import Failure, FailureKind
from segue.domain.resets import reset_time

_ENDINGS = {
    "not_started": (FailureKind.NOT_STARTED, "the agent could not be started"),
    "wall": (FailureKind.TIMEOUT, "the agent did not finish within its time limit"),
    "idle": (FailureKind.HANG, "the agent printed nothing for too long and was ended"),
    "output": (FailureKind.OUTPUT_LIMIT, "the agent printed more than it may"),
    "disk": (FailureKind.CRASH, "the agent's output could not be kept"),
    "ended": (FailureKind.INTERRUPTED, "the agent was ended from outside"),
    "lost": (FailureKind.LOST, "the agent's process is gone and nobody saw how it ended"),
}

_WINDOW_CLEAN = 3
_WINDOW_FAILED = 8
_LINE_CHARS = 1000
_MESSAGE_CHARS = 500
_STDERR_CHARS = 2000

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
# Signs and words that programs put before an error; quotes, list dashes and diff signs are not among them.
_LEAD = (
    r"^ {0,3}(?:[■✗✘✖❌⚠\ufe0f⛔⎿●⏺×!]+\s*)?(?:\[error\]\s*)?"
    r"(?:(?:(?:api|stream|http|request|connect) )?(?:\w{0,30}error|fatal|failed|warning|[tw])\s*:\s*)*"
)
_ADVICE = (
    r"(?:(?:it|this|your (?:limit|quota)|the limit|limit|will|and|or) )*"
    r"(?:resets?|try again|please|upgrade|visit|check|wait|switch|purchase|contact|until)\b"
)
# After the sentence: nothing, the reset time, or advice. Any other word makes it prose about the sentence.
_END = rf"(?=\s*(?:\|\s*\d|[.!…]*\s*$|[.!…·∙•,;:(—–|-]*\s*{_ADVICE}))"
_WHOSE = r"(?:claude(?: ai| code)?|codex|cursor|gemini|openai|anthropic)"
_WHICH = r"(?:usage|session|weekly|daily|monthly|hourly|(?:\d+|five)-hour|opus|sonnet|plan|free requests)"
_AMOUNT = r"\d[\d.]*\s?[dhms][a-z]*"
_SENTENCES = (
    rf"you(?:['’]ve| have) (?:hit|reached|exceeded) your (?:{_WHICH} ){{0,3}}(?:limit|quota)"
    rf"(?:(?=[.!]|\s*[·∙•|]| for\b)|{_END})",
    rf"(?:{_WHOSE} )?(?:{_WHICH} ){{1,2}}limit (?:reached|exceeded){_END}",
    rf"you(?: have)? exceeded your (?:current |{_WHICH} )?quota(?:(?=[.,!])|{_END})",
    rf"(?:{_WHICH} )?quota exceeded(?: for (?:quota )?metric\b|{_END})",
    rf"(?:your )?credit balance is too low{_END}",
    r"insufficient_quota\b",
    r"\[resource_exhausted\](?=\s*(?:error\b|$|[:.]))",
    rf"(?:please )?try again in (?:about )?{_AMOUNT}(?:,?\s(?:and\s)?{_AMOUNT})*\.?\s*$",
)
_LIMIT = re.compile(_LEAD + "(?:" + "|".join(_SENTENCES) + ")", re.IGNORECASE)
_AUTH = re.compile(
    r"\b(?:http|status|error|code|api)\b[\w\s:=(\"]{0,20}\b401\b|\b401\b\W{0,3}unauthori[sz]ed"
    r"|authentication(?:_error| required| failed| error)|authentication_failed"
    r"|(?:invalid|incorrect|missing|expired|bad) (?:x-)?api[ _-]?key"
    r"|api key (?:is|was) (?:invalid|missing|expired|not)"
    r"|not (?:logged|signed) in\b|unauthori[sz]ed\b|please (?:log|sign) ?in\b|token (?:has|is) expired"
    r"|\[unauthenticated\]",
    re.IGNORECASE,
)
_RATE = re.compile(
    r"\b(?:http|status|error|code|api)\b[\w\s:=(\"]{0,20}\b429\b|\b429\b\W{0,3}too many"
    r"|rate[ _-]?limit|too many requests|\[?resource_exhausted\]?",
    re.IGNORECASE,
)
_OUTAGE = re.compile(
    r"\b(?:http(?:/[\d.]+)?|status|error|code)[\s:=(\"]{1,3}5(?:0[0-4]|2\d)\b"
    r"|\b5\d\d\b\W{0,3}(?:internal server|bad gateway|service unavailable|gateway time|overloaded)"
    r"|internal server error|bad gateway|service (?:is )?(?:temporarily )?unavailable|gateway time-?out"
    r"|\boverloaded(?:_error)?\b|high demand|\[(?:unavailable|internal|deadline_exceeded)\]"
    r"|connection ?(?:was |is )?(?:refused|reset|closed|lost|aborted|error|failed|timed out)"
    r"|connection_failed"
    r"|\bE(?:CONNREFUSED|CONNRESET|NOTFOUND|AI_AGAIN|TIMEDOUT|PIPE|NETUNREACH|HOSTUNREACH)\b"
    r"|could not resolve|(?:temporary failure in|failed) name resolution|name or service not known"
    r"|network is unreachable|network error|fetch failed|socket hang up|stream disconnected"
    r"|error sending request for url|unable to connect to (?:the )?api\b",
    re.IGNORECASE,
)
_CONTEXT = re.compile(
    r"\b(?:prompt|input|conversation|context) (?:is )?too (?:long|large)\b"
    r"|context[_ ]length[_ ]exceeded|maximum context length|context[_ ]window[_ ]exceeded"
    r"|exceeds? the (?:model'?s )?(?:maximum )?context (?:window|length|limit)"
    r"|ran out of room in the model'?s context|request_too_large|input token count .{0,40}exceeds",
    re.IGNORECASE,
)
_TURNS = re.compile(
    r"\b(?:reached|exceeded|hit) (?:the )?max(?:imum)?(?: number of)?(?: session)?[ _-]turns\b"
    r"|\bmax(?:imum)?[ _](?:session[ _])?turns (?:were |was )?(?:reached|exceeded)"
    r"|error_max_turns|\bturn_limit\b",
    re.IGNORECASE,
)
_SAID = (
    (_AUTH, FailureKind.AUTH),
    (_RATE, FailureKind.RATE_LIMIT),
    (_CONTEXT, FailureKind.CONTEXT),
    (_TURNS, FailureKind.MAX_TURNS),
    (_OUTAGE, FailureKind.OUTAGE),
)
"""What a line may say about a launch that failed, in the order in which it is looked for."""


def classify(
    exit_code: int | None,
    signal: int | None,
    reason: str | None,
    message: str,
    out_tail: str,
    err_tail: str,
    now: float,
) -> Failure | None:
    """Say why the process failed, or None when nothing speaks against success."""
    stderr = plain(err_tail).strip()[-_STDERR_CHARS:]
    if reason is not None:
        kind, sentence = _ENDINGS.get(reason, (FailureKind.CRASH, reason))
        return Failure(kind, message or sentence, stderr)
    failed = exit_code != 0 or signal is not None
    return (
        _usage_limit(out_tail, err_tail, failed, stderr, now)
        or (_refused(out_tail, err_tail, stderr, now) if failed else None)
        or (_crash(exit_code, signal, message, stderr) if failed else None)
    )


def plain(text: str) -> str:
    """Return the text without the colours a terminal would show."""
    return _ANSI.sub("", text)


def _usage_limit(out_tail: str, err_tail: str, failed: bool, stderr: str, now: float) -> Failure | None:
    window = _WINDOW_FAILED if failed else _WINDOW_CLEAN
    for tail in (err_tail, out_tail):
        lines = list(_last_lines(tail, window))
        for place, line in enumerate(lines):
            if _LIMIT.match(line):
                # the reset time may stand on the lines after the sentence
                rest = " ".join(reversed(lines[: place + 1]))
                return Failure(
                    FailureKind.USAGE_LIMIT, line.strip()[:_MESSAGE_CHARS], stderr, reset_time(rest, now)
                )
    return None


def _refused(out_tail: str, err_tail: str, stderr: str, now: float) -> Failure | None:
    """Return what a service rejects, or that it is down: the last line that says so decides."""
    for tail in (err_tail, out_tail):
        for line in _last_lines(tail, _WINDOW_FAILED):
            said = line.strip()[:_MESSAGE_CHARS]
            if (kind := meaning_of(said)) is not None:
                until = reset_time(said, now) if kind is FailureKind.RATE_LIMIT else None
                return Failure(kind, said, stderr, until)
    return None


def meaning_of(said: str) -> FailureKind | None:
    """What a sentence about a failure means: key, pace, length, turns or an outage; None when it is none."""
    return next((kind for pattern, kind in _SAID if pattern.search(said)), None)


def _crash(exit_code: int | None, signal: int | None, message: str, stderr: str) -> Failure:
    how = f"the agent ended with exit code {exit_code}"
    if signal is not None:
        how = f"the agent was ended by signal {signal}{_signal_name(signal)}"
    elif exit_code is None:
        how = "the agent ended without an exit code"
    last = stderr.splitlines()[-1].strip() if stderr else ""
    said = ": ".join(part for part in (how, message, last) if part)
    return Failure(FailureKind.CRASH, said[:_MESSAGE_CHARS], stderr)


def _signal_name(number: int) -> str:
    try:
        return f" ({signals.Signals(number).name})"
    except ValueError:
        return ""


def _last_lines(tail: str, count: int) -> Iterator[str]:
    """Return the last non-empty lines outside of fenced code, the very last one first."""
    in_code = False
    for line in reversed(plain(tail).splitlines()):
        if line.lstrip().startswith(("```", "~~~")):
            in_code = not in_code
            count -= 1
        elif line.strip():
            if not in_code:
                yield line[:_LINE_CHARS]
            count -= 1
        if count <= 0:
            return
