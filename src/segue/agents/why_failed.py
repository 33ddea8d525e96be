"""Why an agent failed: read from how its process ended, and from the sentences in `sentences.toml`.

Exit code 0 is not proof of success, and an agent may well write *about* usage limits. So after exit code 0
limits are recognised by whole sentences at the start of the last lines only, outside of code blocks.
"""

from __future__ import annotations

import json
import re
import signal as signals
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from segue.agents.limits import read_signal, reset_time
from segue.domain.outcome import Failure, FailureKind
from segue.system.process.processes import Exit

MESSAGE_CHARS = 500
_ENDINGS = {
    "not_started": (FailureKind.NOT_STARTED, "the agent could not be started"),
    "wall": (FailureKind.TIMEOUT, "the agent did not finish within its time limit"),
    "idle": (FailureKind.HANG, "the agent printed nothing for too long and was ended"),
    "output": (FailureKind.OUTPUT_LIMIT, "the agent printed more than it may"),
    "disk": (FailureKind.CRASH, "the agent's output could not be kept"),
    "ended": (FailureKind.INTERRUPTED, "the agent was ended from outside"),
    "lost": (FailureKind.LOST, "the agent's process is gone, and its end was not seen"),
}
_LINES_CLEAN, _LINES_FAILED = 3, 8
_LINE_CHARS = 1000
_STDERR_CHARS = 2000
_TRACE = re.compile(r"\s+at \S|[\s\]\[(){},;^]*$|Node\.js v\d")
"""Lines that a crashing program of JavaScript prints around its error."""
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_BY_STATUS = {
    401: FailureKind.AUTH,
    402: FailureKind.USAGE_LIMIT,
    403: FailureKind.AUTH,
    404: FailureKind.NOT_STARTED,
    413: FailureKind.CONTEXT,
    429: FailureKind.RATE_LIMIT,
}
_LIMITED = (FailureKind.USAGE_LIMIT, FailureKind.RATE_LIMIT)


def explain_end(end: Exit, out_tail: str, err_tail: str, now: float) -> Failure | None:
    """Return why a process failed, judging by its end and its last lines; None: nothing speaks against it."""
    stderr = plain(err_tail).strip()[-_STDERR_CHARS:]
    if end.reason is not None:
        kind, sentence = _ENDINGS.get(end.reason, (FailureKind.CRASH, end.reason))
        return Failure(kind, end.message or sentence, stderr)
    if end.code == 0 and end.signal is None:
        return _find_limit(out_tail, err_tail, _LINES_CLEAN, now)
    return explain_text(out_tail, now, err_tail) or _describe_crash(end, stderr)


def explain_text(text: str, now: float, err_tail: str = "") -> Failure | None:
    """Return what the last lines of a failed program, or an error, say about the reason; None: nothing."""
    limit = _find_limit(text, err_tail, _LINES_FAILED, now)
    if limit is not None:
        return limit
    stderr = plain(err_tail).strip()[-_STDERR_CHARS:]
    for tail in (err_tail, text):
        lines = _last_lines(tail, _LINES_FAILED)
        known = [(kind, line) for line in lines if (kind := meaning_of(line[:MESSAGE_CHARS])) is not None]
        if (
            known and known[0][0] is FailureKind.RATE_LIMIT
        ):  # a line before may say that nothing is left to use
            known = [one for one in known if one[0] is FailureKind.USAGE_LIMIT] or known
        if known:
            kind, line = known[0]
            until = _read_end(line, now) if kind in _LIMITED else None
            return Failure(kind, line.strip()[:MESSAGE_CHARS], stderr, until)
    return None


def explain_last_words(text: str, now: float) -> Failure | None:
    """Return what an error means with which a message ends, of a program that ended well; None: it has none.

    It counts only where nothing was done: agents write about errors.
    """
    lines = list(_last_lines(text, _LINES_CLEAN))
    line = _error_object(text) or next(filter(_last_words()["error"].match, lines), None)
    if line is not None:
        return explain_text(line, now) or Failure(FailureKind.UNKNOWN, line.strip()[:MESSAGE_CHARS])
    declined = next(filter(_last_words()["declined"].match, lines), None)
    return Failure(FailureKind.REFUSED, declined.strip()[:MESSAGE_CHARS]) if declined else None


def meaning_of(sentence: str) -> FailureKind | None:
    """Return what a sentence says about a failure: money, key, pace, length, turns or an outage."""
    return next((kind for kind, pattern in _meanings() if pattern.search(sentence)), None)


def kind_of_status(status: Any) -> FailureKind | None:
    """Return what the HTTP status of a service means; None if it says nothing by itself."""
    if isinstance(status, int) and 500 <= status < 600:
        return FailureKind.OUTAGE
    return _BY_STATUS.get(status) if isinstance(status, int) else None


def plain(text: str) -> str:
    """Return the text without the colours a terminal would show."""
    return _ANSI.sub("", text)


@cache
def load_sentences() -> Mapping[str, Any]:
    """Return the table of `sentences.toml`."""
    return tomllib.loads(Path(__file__).with_name("sentences.toml").read_text("utf-8"))


def _compile(patterns: Sequence[str], before: str = "") -> re.Pattern[str]:
    """Return one pattern for all; `<name>` stands for a part, which may contain other parts."""
    parts, text = load_sentences()["parts"], f"{before}(?:{'|'.join(patterns)})"
    while (filled := re.sub(r"<(\w+)>", lambda found: parts[found[1]], text)) != text:
        text = filled
    return re.compile(text, re.IGNORECASE)


@cache
def _limit() -> re.Pattern[str]:
    return _compile(load_sentences()["limit"]["patterns"], "<lead>")


@cache
def _meanings() -> Sequence[tuple[FailureKind, re.Pattern[str]]]:
    return [(FailureKind(one["kind"]), _compile(one["patterns"])) for one in load_sentences()["any"]]


@cache
def _last_words() -> Mapping[str, re.Pattern[str]]:
    return {name: _compile(patterns) for name, patterns in load_sentences()["last_words"].items()}


def _find_limit(out_tail: str, err_tail: str, window: int, now: float) -> Failure | None:
    for tail in (err_tail, out_tail):
        lines = list(_last_lines(tail, window))
        for place, line in enumerate(lines):
            if _limit().match(line):
                # The reset time may be on the lines after the sentence.
                until = _read_end(" ".join(reversed(lines[: place + 1])), now)
                stderr = plain(err_tail).strip()[-_STDERR_CHARS:]
                return Failure(FailureKind.USAGE_LIMIT, line.strip()[:MESSAGE_CHARS], stderr, until)
    return None


def _read_end(text: str, now: float) -> float | None:
    """Return when a limit ends: a field that is quoted says it better than words."""
    return read_signal(text, now).until or reset_time(text, now)


def _error_object(text: str) -> str | None:
    """Return a message that is nothing but an error as JSON, on one line."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return json.dumps(value) if isinstance(value, dict) and "error" in value else None


def _describe_crash(end: Exit, stderr: str) -> Failure:
    how = f"the agent ended with exit code {end.code}"
    if end.signal is not None:
        names = [f" ({one.name})" for one in signals.Signals if one == end.signal]
        how = f"the agent was ended by signal {end.signal}{''.join(names)}"
    elif end.code is None:
        how = "the agent ended without an exit code"
    last = stderr.splitlines()[-1].strip() if stderr else ""
    message = ": ".join(part for part in (how, end.message, last) if part)
    return Failure(FailureKind.CRASH, message[:MESSAGE_CHARS], stderr)


def _last_lines(tail: str, count: int) -> Iterator[str]:
    """Yield the last lines outside of fenced code and traces, the very last one first."""
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
