"""Tells tasks that ask for other code with the same behaviour: refactor, rename, move, speed up."""

from __future__ import annotations

import re

_SAME = re.compile(
    r"(?:^|[.!?:;]\s+|\n|\]\s+)[\s>*-]*(?:please\s+)?(?:refactor|rename|move|extract|inline|split|simplify"
    r"|clean up|tidy|reorgani[sz]e|restructure|deduplicate|optimi[sz]e|speed up|factor out|pull out"
    r"|rewrite)\b"
    r"|\bsame (?:behaviou?r|results?|output)\b|\bbehaviou?r (?:must|should) (?:stay|remain|not change)"
    r"|\bwithout (?:changing|a change (?:of|in|to)) (?:\w+ )?behaviou?r"
    r"|\bmake [^;:\n]{1,80}\b(?:faster|quicker|more efficient)\b"
    r"|\bimprove [^;:\n]{0,80}\b(?:performance|speed)\b"
    r"|\bresults? (?:must |should )?(?:stay|remain)s? the same\b|\bno (?:functional|behaviou?ral) changes?\b",
    flags=re.IGNORECASE,
)
_MORE = re.compile(
    r"(?:^|[.!?:;]\s+|\n[\s>*-]*)(?:also\s+)?(?:add|implement|fix|support|create|change|correct)\b",
    flags=re.IGNORECASE,
)
_STAYS = re.compile(
    r"\bbehaviou?r\b|\bthe same\b|\bsame (?:results?|output)\b|\bno functional\b", flags=re.IGNORECASE
)


def keeps_behaviour(words: str) -> bool:
    """Return whether a task asks for other code that does the same."""
    if not _SAME.search(words):
        return False
    return not _MORE.search(words) or bool(_STAYS.search(words))
