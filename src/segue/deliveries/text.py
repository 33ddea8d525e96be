"""Texts for pull requests: Segue's part of the body, between hidden marks, and logs cut to the failure."""

from __future__ import annotations

import re

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-_]|[\x00-\x08\x0b-\x1f\x7f]")
_STAMP = re.compile(r"^\ufeff?\d{4}-\d\d-\d\dT[\d:.]+Z (?:\d\d[OE][+ ]?)?")
_SECTION = re.compile(r"section_(?:start|end):\d+:\S*")
_FAILS = re.compile(
    r"##\[error\]|^E  |\bERROR\b|\bError:|\berror(?:\[\w+\])?:|\bFAIL(?:ED|URES?)?\b|Traceback \(most|panic:"
    r"|^not ok |AssertionError|✗|✖"
)
_LAST = re.compile(r"##\[error\]Process completed with exit code|ERROR: Job failed")
_BEFORE, _AFTER = 30, 60
MOST_BODY = 60_000
"""GitHub takes 65,536 characters; GitLab takes more."""


def mark_of(run: str) -> str:
    """Return the hidden mark that a run's pull request starts its part with, up to where details begin."""
    return f"<!-- segue:run={run}"


_END = "<!-- segue:end -->"
_PART = re.compile(r"<!-- segue:run=[^>]*-->.*?(?:<!-- segue:end -->|\Z)", re.DOTALL)


def write_body(before: str, run: str, text: str, drafted: bool) -> str:
    """Return the body with Segue's part replaced; what people wrote around it stays."""
    room = MOST_BODY - len(_PART.sub("", before))
    cut = (
        text
        if len(text) <= room
        else f"{text[: max(0, room - 200)].rstrip()}\n\n… (the rest: `segue proof {run}`)"
    )
    start = f"{mark_of(run)}{' draft' if drafted else ''} -->"
    part = f"{start}\n{cut.strip()}\n{_END}"
    if _PART.search(before):
        return _PART.sub(lambda _found: part, before, count=1)
    return f"{before.rstrip()}\n\n{part}" if before.strip() else part


def was_drafted(body: str, run: str) -> bool:
    """Return whether Segue itself has opened it as a draft and has not made it ready since."""
    return f"{mark_of(run)} draft -->" in body


def is_ours(body: str, run: str) -> bool:
    """Return whether a body has the mark of the run."""
    return f"{mark_of(run)} " in body


def reply_mark(mark: str) -> str:
    """Return the hidden mark of an answer."""
    return f"<!-- segue:reply={mark} -->"


def is_reply(text: str) -> bool:
    """Return whether Segue wrote a comment."""
    return "<!-- segue:reply=" in text


def cut_log(log: str, most: int = 6000) -> str:
    """Return the part of a log that shows the failure, without colours and times."""
    lines = [_STAMP.sub("", _SECTION.sub("", _ANSI.sub("", line))).rstrip() for line in log.splitlines()]
    end = next((number for number, line in enumerate(lines) if _LAST.search(line)), len(lines))
    lines = lines[: end + 1]
    named = [number for number, line in enumerate(lines[:end]) if _FAILS.search(line)]
    if not named:
        return _bound("\n".join(lines[-_AFTER:]), most)
    # The last group of lines that name a failure: earlier ones are often warnings of the set-up.
    first = named[-1]
    for number in reversed(named):
        if first - number > _AFTER:
            break
        first = number
    start = max(0, first - _BEFORE)
    return _bound("\n".join(lines[start : named[-1] + _AFTER]), most)


def _bound(text: str, most: int) -> str:
    """Return the end of a text, where errors are summed up, and a bit of its beginning."""
    text = text.strip("\n")
    if len(text) <= most:
        return text
    head = most // 3
    return f"{text[:head].rstrip()}\n[…]\n{text[-(most - head - 10) :].lstrip()}"
