"""Read whether an agent's last message asks a person something, rather than reports."""

from __future__ import annotations

import re
from collections.abc import Iterator

from segue.domain.exits import CANNOT

ASKS = "The agent asks: "
"""How the reason of a task begins that waits for an answer."""

_LONGEST = 1000
_CODE = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1|\Z)", re.MULTILINE | re.DOTALL)
_QUOTED = re.compile(r"`[^`\n]*`|\"[^\"\n]*\"|“[^”\n]*”|«[^»\n]*»")
_SENTENCE = re.compile(r"(?<=[.!?:])[*_)\]]*\s+|(?<=[。！？؟])")
_MARKED = re.compile(r"[?？؟][*_)\]\s]*$|[(\[](?:y/n|yes/no)[)\]]\W*$", re.IGNORECASE)
_OPENS = re.compile(
    r"^\W*(?:(?:which|what|where|who|when|how)\b[^.!?]{0,40} )?"
    r"(?:do|does|should|shall|would|can|could|may) (?:i|we|you)\b(?!.*[.!]$)",
    re.IGNORECASE,
)
"""How a question begins whose mark was forgotten, or that a list follows."""
_TO_SOMEBODY = re.compile(r"\b(?:i|me|my|we|us|you|your|yours)\b", re.IGNORECASE)
_REQUEST = re.compile(
    r"\b(?:let me know|tell me|please (?:confirm|clarify|specify|choose|decide|advise|provide|answer|pick))\b"
    r"(?!\s+(?:if|should|when) (?:you|there|anything|something))"
    r"|^\W*(?:open )?questions?\W*:|\b(?:a)?wait(?:ing)? (?:for )?your\b",
    re.IGNORECASE,
)
_LIST = re.compile(r"^\s*(?:[-*•]|\w{1,2}[.)])\s")


def find_question(message: str) -> str:
    """Return what a message asks at its end; empty if it does not.

    A question at the end of a paragraph is open. One that is followed by more may be the author's own, unless
    it speaks to somebody.
    """
    paragraphs = _paragraphs(message)
    asked = [part for part in paragraphs if not _is_choice(part)] or paragraphs
    for number in (-1, -2):
        if len(asked) >= -number and _asks(asked[number], is_last=number == -1):
            return _keep_end(message.strip())
    return ""


def is_question(reason: str) -> bool:
    """Return whether the reason of a task that needs a person is what its agent asks or says about it."""
    return reason.startswith((ASKS, CANNOT))


def _paragraphs(message: str) -> list[str]:
    bare = _QUOTED.sub("X", _CODE.sub("\n\n", message))
    return [part.strip() for part in re.split(r"\n\s*\n", bare) if part.strip()]


def _asks(paragraph: str, is_last: bool) -> bool:
    sentences = list(_sentences(paragraph))
    for place, sentence in enumerate(sentences):
        if _MARKED.search(sentence):
            if place == len(sentences) - 1 or _TO_SOMEBODY.search(sentence):
                return True
        elif is_last and (_REQUEST.search(sentence) or _OPENS.search(sentence)):
            return True
    return False


def _is_choice(paragraph: str) -> bool:
    """Return whether a paragraph is a list of what may be chosen; a list of questions is none."""
    lines = paragraph.splitlines()
    return all(_LIST.match(line) and not _MARKED.search(line) for line in lines)


def _sentences(paragraph: str) -> Iterator[str]:
    for line in paragraph.splitlines() if paragraph.lstrip().startswith(("-", "*", "1")) else [paragraph]:
        yield from filter(None, (part.strip() for part in _SENTENCE.split(line)))


def _keep_end(text: str) -> str:
    """Return the last paragraphs, as many as are kept."""
    if len(text) <= _LONGEST:
        return text
    end = text[-_LONGEST:]
    return end[end.find("\n") + 1 :] if "\n" in end[:-1] else end
