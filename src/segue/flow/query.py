"""Makes a query for a search that nobody worded: from what failed, in the words that a person would type."""

from __future__ import annotations

import re
from collections.abc import Iterator

from segue.domain.task import Task
from segue.domain.verdict import Verdict

_MOST = 10
_FROM_TITLE = 4
_ERROR = re.compile(
    r"\b\w*(?:Error|Exception|Fault)\b|\berror\b|\bcannot\b|\bfailed to\b|\bundefined\b|\bdenied\b", re.I
)
_WORD = re.compile(r"`([^`\n]{1,60})`|([A-Za-z_][\w.@-]*[\w]|[A-Z0-9]{2,})")
_PLACE = re.compile(
    r"(?:[A-Za-z]:)?[\w.@~-]*(?:[/\\][\w.@~-]+)+(?::\d+)*|\bline \d+\b|\b[0-9a-f]{8,}\b|\b\d+\b"
)
_EMPTY = re.compile(
    r"(?:"
    r"a|about|after|again|all|also|an|and|any|are|as|at|be|because|been|before|being|but|by|can|check|"
    r"checked|could|did|do|does|done|for|from|get|got|had|has|have|how|if|in|into|is|it|its|judge|"
    r"just|line|made|missing|more|must|never|no|not|of|on|only|or|other|out|see|seen|should|shows|so|"
    r"step|still|such|task|test|tests|than|that|the|their|them|then|there|these|they|this|those|to|"
    r"too|was|were|what|when|where|which|while|who|will|with|without|work|would|yet|you"
    r")",
    re.I,
)


def make_query(task: Task, verdict: Verdict) -> str:
    """Return a query about what a verdict objects to: its error if it names one, else what it is about."""
    said = [
        verdict.reason,
        *(text for one in verdict.criteria if not one.met for text in (one.key, one.evidence)),
    ]
    lines = [line for text in said for line in re.split(r"\n|(?<=[.;!?])\s", text or "") if line.strip()]
    telling = [line for line in lines if _ERROR.search(line)] or lines
    words = list(dict.fromkeys(word for line in telling[:3] for word in _list_words(line)))[:_MOST]
    known = {word.casefold() for word in words}
    title = [word for word in _list_words(task.title) if word.casefold() not in known][:_FROM_TITLE]
    return " ".join([*title, *words]) or task.title


def _list_words(text: str) -> Iterator[str]:
    """Yield the words that a search can use: not places, numbers, and words that are everywhere."""
    for quoted, word in _WORD.findall(_PLACE.sub(" ", text)):
        for one in (quoted or word).split():
            plain = one.strip("`'\"(),;:!?")
            if len(plain) > 1 and not _EMPTY.fullmatch(plain):
                yield plain
