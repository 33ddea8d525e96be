"""The error classifier: reads from how a process ended and what it printed last why it failed.

Exit code 0 is not proof of success, and an agent may well write *about* usage limits. So limits are
recognised by whole sentences at the start of the last lines only, outside of code blocks.
"""

from __future__ import annotations

import json
import re
import signal as signals
from collections.abc import Iterator

from segue.agents.limits import read_signal, reset_time
from segue.domain.outcome import Failure, FailureKind

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

_TRACE = re.compile(r"\s+at \S|[\s\]\[(){},;^]*$|Node\.js v\d")
"""Lines that a crashing program of JavaScript prints around its error."""
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
# Signs and words that programs put before an error; quotes, list dashes and diff signs are not among them.
_LEAD = (
    r"^ {0,3}(?:[■✗✘✖❌⚠\ufe0f⛔⎿●⏺×!]+\s*)?(?:\[error\]\s*)?"
    r"(?:(?:(?:api|stream|http|request|connect) )?(?:\w{0,30}error|fatal|failed|warning|[tw])\s*:\s*)*"
)
_ADVICE = (
    r"(?:(?:it|this|access|you|your (?:limit|quota|access)|the limit|limit|will|and|or) )*"
    r"(?:resets?|try again|please|upgrade|visit|check|wait|switch|purchase|contact|until|regain|add|ask"
    r"|increase)\b"
)
# After the sentence: nothing, the reset time, or advice. Any other word makes it prose about the sentence.
_END = rf"(?=\s*(?:\|\s*\d|[.!…]*\s*$|[.!…·∙•,;:(—–|-]*\s*{_ADVICE}))"
_STOP = rf"(?:(?=[.!]|\s*[·∙•|]| for\b| on\b)|{_END})"
_WHOSE = r"(?:claude(?: ai| code)?|codex|cursor|gemini|openai|anthropic|copilot)"
_WHICH = (
    r"(?:usage|session|weekly|daily|monthly|hourly|(?:\d+|five)-hour|opus|sonnet|plan|free requests|api"
    r"|chatgpt|extra|included|premium|requests?|spend(?:ing)?|specified|current|tokens?|free(?: tier| plan)?)"
)
_AMOUNT = r"\d[\d.]*\s?[dhms][a-z]*"
_SENTENCES = (
    rf"you(?:['’]ve| have) (?:hit|reached|exceeded|exhausted|used up) (?:your|the) (?:{_WHICH} ){{0,3}}"
    rf"(?:limits?|quota|allowance|capacity)(?: \([\w ]+\))?{_STOP}",
    rf"(?:you(?:['’]re| are)|your \w+ is) out of (?:(?:extra|included) )?(?:usage|credits?|quota){_STOP}",
    rf"you(?:['’]ve| have) (?:run out of|used (?:up )?all (?:of )?your) (?:{_WHICH} ){{0,3}}"
    rf"(?:usage|credits?|quota){_STOP}",
    rf"(?:your|this) (?:account|organi[sz]ation|team|workspace) has (?:hit|reached|exceeded) (?:its|the)"
    rf" (?:{_WHICH} ){{0,3}}(?:limits?|quota){_STOP}",
    rf"(?:(?:{_WHOSE}|the|your) )?(?:{_WHICH} ){{1,3}}limits? (?:has been |have been )?(?:reached|exceeded)"
    rf"(?: for [\w.:/-]*\w)?{_END}",
    r"limit reached(?=\s*[·∙•|]\s*resets\b)",
    rf"you(?: have)? exceeded your (?:{_WHICH} )?quota(?:(?=[.,!])|{_END})",
    rf"(?:{_WHICH} ){{0,2}}quota exceeded(?: for (?:quota )?metric\b|{_END})",
    rf"(?:your )?credit balance is too low(?: to access the \w+ api)?{_END}",
    rf"insufficient (?:credits?|balance|quota|funds){_END}",
    r"insufficient_quota\b",
    r"\[resource_exhausted\](?=\s*(?:error\b|$|[:.]))",
    rf"(?:please )?try again in (?:about )?{_AMOUNT}(?:,?\s(?:and\s)?{_AMOUNT})*\.?\s*$",
)
_LIMIT = re.compile(_LEAD + "(?:" + "|".join(_SENTENCES) + ")", re.IGNORECASE)
_OTHER = r"(?!(?:[\w-]+ ){0,3}(?:rate|context|turns?|time|size|length|retry|memory|disk|output|input)\b)"
"""Limits that no payment ends."""
_ENDS = r"(?:reached|exceeded|hit|exhausted|used up)"
_SPENT = re.compile(
    r"\b(?:insufficient|not enough|no (?:more )?|low) ?(?:credits?|credit balance|balance|quota|funds)\b"
    r"|\bout of (?:(?:extra|included) )?(?:usage|credits?|quota|funds)\b"
    r"|\bcredit balance is\b|\bquota is (?:not enough|used up|exhausted)\b"
    r"|\b(?:credits|funds) (?:are|have been) (?:depleted|exhausted|used up)\b"
    rf"|\b{_ENDS} {_OTHER}(?:all |of )*(?:your|its|the|their|this)(?: [\w.'’-]+){{0,4}}"
    r" (?:limits? (?:of|for|on) (?:your|the) \w+|usage limits?|quota|allowance|capacity|credits"
    r"|spending (?:limit|cap))\b"
    rf"|\b(?:{_WHICH} ){{1,3}}(?:limits?|quota|cap|allowance) (?:has been |have been |was |is )?{_ENDS}\b"
    r"|\b(?:spend(?:ing)?|billing|quota|credit)(?: hard)? (?:limit|cap) (?:has been |was |is )?"
    rf"{_ENDS}\b|\b(?:insufficient_(?:quota|credits?|funds|balance)|billing_hard_limit_reached|out_of_credits)\b"
    r"|\b(?:usage|spend|quota|credit)_(?:limit_)?(?:reached|exceeded)\b|\bpayment[_ ]required\b"
    r"|\b(?:http|status|error|code|api)\b[\w\s:=(\"]{0,20}\b402\b",
    re.IGNORECASE,
)
"""Says that there is no more to use until somebody pays or time passes."""
_AUTH = re.compile(
    r"\b(?:http|status|error|code|api)\b[\w\s:=(\"]{0,20}\b40[13]\b|\b40[13]\b\W{0,3}(?:unauthori[sz]ed|forbidden)"
    r"|authentication(?:_error| required| failed| error)|authentication_failed|permission_error"
    r"|(?:could not|failed to|cannot|unable to|not) authenticated?\b"
    r"|(?:invalid|incorrect|missing|expired|bad|no) (?:x-)?api[ _-]?key"
    r"|api[ _-]?key (?:is |was |has been )?(?:invalid|missing|expired|disabled|revoked)"
    r"|api[ _-]?key\b[\w ]{0,30}\bnot (?:valid|found|set|provided)|invalid (?:bearer|access|authentication)\b"
    r"|(?:not|must be|need to be) (?:logged|signed) in\b|unauthori[sz]ed\b|please (?:log|sign) ?in\b"
    r"|(?:log|sign) in again\b|\blog-?in (?:is )?required|(?:run|use)\W{1,3}/login\b|set an auth method"
    r"|\b(?:token|credentials|session)\b(?: \w+){0,5} (?:expired|revoked)\b"
    r"|\baccount (?:has been |is |was )?(?:disabled|suspended|deactivated)\b"
    r"|\[(?:unauthenticated|permission_denied)\]",
    re.IGNORECASE,
)
_RATE = re.compile(
    r"\b(?:http|status|error|code|api)\b[\w\s:=(\"]{0,20}\b429\b|\b429\b\W{0,3}too many"
    r"|rate[ _-]?limit|too many requests|\[?resource_exhausted\]?",
    re.IGNORECASE,
)
_OUTAGE = re.compile(
    r"\b(?:http(?:/[\d.]+)?|status|error|code)[\s:=(\"]{1,3}5(?:0\d|2\d|30|9[89])\b"
    r"|\b5\d\d\b\W{0,3}(?:internal server|bad gateway|service unavailable|gateway time|overloaded)"
    r"|internal server error|bad gateway|service (?:is )?(?:temporarily )?unavailable|gateway time-?out"
    r"|\boverloaded(?:_error)?\b|high demand|\[(?:unavailable|internal|deadline_exceeded)\]"
    r"|connection ?(?:was |is )?(?:refused|reset|closed|lost|aborted|error|failed|timed out)"
    r"|connection_failed"
    r"|\bE(?:CONNREFUSED|CONNRESET|NOTFOUND|AI_AGAIN|TIMEDOUT|PIPE|NETUNREACH|HOSTUNREACH)\b"
    r"|could not resolve|(?:temporary failure in|failed) name resolution|name or service not known"
    r"|network is unreachable|network error|fetch failed|socket hang up|stream disconnected"
    r"|error sending request for url|unable to connect to (?:the )?api\b|no such host|request timed out"
    r"|upstream connect error|stream closed before|socket closed|server had an error|server is down"
    r"|\bat capacity\b|returned an unknown error|error (?:decoding|reading) (?:a |the )?(?:response )?body"
    r"|due to a (?:server|transient api) error\b|\berror: terminated$",
    re.IGNORECASE,
)
_CONTEXT = re.compile(
    r"\b(?:prompt|input|conversation|context) (?:is |as )?too (?:long|large)\b"
    r"|context[_ ]length[_ ]exceeded|maximum context length|context[_ ]window[_ ]exceeded"
    r"|exceed(?:s|ed)? the (?:model'?s )?(?:maximum )?context (?:window|length|limit)"
    r"|ran out of room in the model'?s context|request_too_large|input token count .{0,40}exceeds"
    r"|context (?:limit|window) (?:is |was )?(?:reached|full|exceeded)|too many (?:input )?tokens\b"
    r"|context ?overflow|context exceeds|tokens exceed the limit"
    r"|exceeds the maximum (?:number|amount) of tokens"
    r"|\b(?:request|payload|content) (?:entity )?(?:is )?too large\b|\brequest exceeds the maximum\b"
    r"|\b(?:http|status|error|code|api)\b[\w\s:=(\"]{0,20}\b413\b",
    re.IGNORECASE,
)
_TURNS = re.compile(
    r"\b(?:reached|exceeded|hit) (?:the )?max(?:imum)?(?: number of)?(?: session)?[ _-]turns\b"
    r"|\bmax(?:imum)?[ _](?:session[ _])?turns (?:were |was )?(?:reached|exceeded)"
    r"|error_max_turns|\bturn_limit\b",
    re.IGNORECASE,
)
_ERROR = re.compile(
    r"^\W{0,4}(?:(?:api|stream|http|request|connect\w*|execution|internal|server|unexpected|fatal) )?"
    r"(?:\w{0,30}error|failed|failure|fatal)\b(?:\W*\w+){0,3}?\s*(?:[:(·\]]|\d{3}\b|[.!]?$)"
    r"|^\W{0,4}(?:\w+ ){0,3}(?:request|call) (?:was |has been )?(?:rejected|refused|aborted|timed out)\b"
    r"|^\W{0,4}(?:(?:an? )?(?:unexpected |internal |unknown )?error (?:has )?occurred|something went wrong)\b"
    r"|^\W{0,4}(?:maximum|max|too many|all) (?:number of )?(?:retries|attempts) ?"
    r"(?:exceeded|reached|failed|$)",
    re.IGNORECASE,
)
"""How a line begins that is itself an error."""
_DECLINED = re.compile(
    r"^\W*(?:(?:i['’]?m |i am )?(?:so |very )?sorry,?(?: but)? |unfortunately,? )?i"
    r"(?: can(?:no|['’])t|(?:['’]m| am) (?:unable|not able) to| (?:won['’]t|will not))"
    r"(?: \w+){0,2}? (?:assist|help|comply|continue|respond)\b(?: \w+){0,2} (?:with|to|on) (?:that|this)\b",
    re.IGNORECASE,
)
"""How a model declines a request."""
_MODEL = re.compile(
    r"\bmodels?\b[^.\n]{0,80}\b(?:do(?:es)? not exist|not (?:found|known|available|supported))\b"
    r"|\b(?:unknown|no such|invalid|unsupported) model\b|\bmodel[ _]?not[ _]?found|\bunsupported_model\b"
    r"|\b(?:http|status|error|code|api)\b[\w\s:=(\"]{0,20}\b404\b",
    re.IGNORECASE,
)
"""Says that its service does not know the model, or this account has no access to it."""
_PLAN = re.compile(
    r"\b(?:plan|subscription|licen[cs]e|tier) (?:does not|doesn['’]t) (?:include|cover|allow|support)\b"
    r"|\bnot (?:included|available) (?:in|on|with|for|by) your (?:[\w-]+ ){0,2}(?:plan|subscription|tier)\b"
    r"|\b(?:plan|subscription), upgrade to\b|\b(?:usage|plan)_not_included\b",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"\bcontent[ _]filter(?:ed)?\b|\bsafeguards flagged\b|\bfinish[ _]?reason\W{1,3}(?:safety|refusal)\b"
    r"|\b(?:flagged|blocked|rejected|refused|declined|violat\w+)\b[^\n]{0,80}\b(?:polic(?:y|ies)|safety|safeguards?)\b"
    r"|\b(?:polic(?:y|ies)|safety)\b[^\n]{0,40}\b(?:violation|violated|flagged|blocked)\b",
    re.IGNORECASE,
)
_CUT = re.compile(r"\bmax_output_tokens\b|\boutput token (?:maximum|limit)\b", re.IGNORECASE)
_SAID = (
    (_SPENT, FailureKind.USAGE_LIMIT),
    (_RATE, FailureKind.RATE_LIMIT),
    (_PLAN, FailureKind.USAGE_LIMIT),
    (_AUTH, FailureKind.AUTH),
    (_CONTEXT, FailureKind.CONTEXT),
    (_TURNS, FailureKind.MAX_TURNS),
    (_REFUSED, FailureKind.REFUSED),
    (_CUT, FailureKind.TRUNCATED),
    (_MODEL, FailureKind.NOT_STARTED),
    (_OUTAGE, FailureKind.OUTAGE),
)
"""What a line may say about a launch that failed, in the order in which it is looked for."""
_LIMITED = (FailureKind.USAGE_LIMIT, FailureKind.RATE_LIMIT)


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
                said = line.strip()[:_MESSAGE_CHARS]
                return Failure(FailureKind.USAGE_LIMIT, said, stderr, _read_end(rest, now))
    return None


def _refused(out_tail: str, err_tail: str, stderr: str, now: float) -> Failure | None:
    """Return what a service rejects, or that it is down: the last line that says so decides.

    Where that is only a status of 429, a line before it may say that nothing is left to use.
    """
    for tail in (err_tail, out_tail):
        lines = _last_lines(tail, _WINDOW_FAILED)
        found = [(kind, line) for line in lines if (kind := meaning_of(line[:_MESSAGE_CHARS])) is not None]
        if found and found[0][0] is FailureKind.RATE_LIMIT:
            found = [one for one in found if one[0] is FailureKind.USAGE_LIMIT] or found
        if found:
            kind, line = found[0]
            until = _read_end(line, now) if kind in _LIMITED else None
            return Failure(kind, line.strip()[:_MESSAGE_CHARS], stderr, until)
    return None


def read_last_words(text: str, now: float) -> Failure | None:
    """Return what an error means with which a message ends, of a program that ended well; None: it has none.

    Only who knows that nothing was done may believe it: others write about errors.
    """
    line = _error_object(text) or next(filter(_ERROR.match, _last_lines(text, _WINDOW_CLEAN)), None)
    if line is None:
        declined = next(filter(_DECLINED.match, _last_lines(text, _WINDOW_CLEAN)), None)
        return Failure(FailureKind.REFUSED, declined.strip()[:_MESSAGE_CHARS]) if declined else None
    failure = _usage_limit(line, "", True, "", now) or _refused(line, "", "", now)
    return failure or Failure(FailureKind.UNKNOWN, line.strip()[:_MESSAGE_CHARS])


def _error_object(text: str) -> str | None:
    """Return a message that is nothing but an error as JSON, on one line."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return json.dumps(found) if isinstance(found, dict) and "error" in found else None


def _read_end(text: str, now: float) -> float | None:
    """Return when a limit ends: a field that is quoted says it better than words."""
    return read_signal(text, now).until or reset_time(text, now)


def meaning_of(said: str) -> FailureKind | None:
    """Return what a sentence says about a failure: money, key, pace, length, turns or an outage."""
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
    """Return the last lines outside of fenced code and traces, the very last one first."""
    in_code = False
    for line in reversed(plain(tail).splitlines()):
        if line.lstrip().startswith(("```", "~~~")):
            in_code = not in_code
            count -= 1
        elif line.strip() and not _TRACE.match(line):
            if not in_code:
                yield line[:_LINE_CHARS]
            count -= 1
        if count <= 0:
            return
