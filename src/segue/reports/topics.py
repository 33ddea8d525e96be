"""Topics: texts that people and models word differently, brought together by the words they share."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

ALIKE = 0.5
"""Two texts are about the same when they share at least this part of all their words."""

_WORD = re.compile(r"[^\W\d_][\w.+#]*")
_FILLERS = """
    a an and are as at be been but by can cannot could did do does doing done for from get gets had has have
    how i if in into is it its just may me must my no not of on or our out should so some such than that the
    their them then there these they this to up use used using was we were what when where which while who
    why will with without would you your
"""
_EMPTY = frozenset(_FILLERS.split())


def words(text: str) -> frozenset[str]:
    """The words that carry meaning, without their plural."""
    found = (word.rstrip(".+") for word in _WORD.findall(text.lower()))
    return frozenset(_singular(word) for word in found if word not in _EMPTY and len(word) > 1)


def topics(texts: Iterable[str]) -> dict[str, str]:
    """Text → its topic, named by the most frequent text about it, whatever the order of the texts."""
    counts = Counter(texts)
    groups: list[list[str]] = []
    leaders: list[frozenset[str]] = []
    holders: dict[str, list[int]] = defaultdict(list)
    for text in sorted(counts, key=lambda text: (-counts[text], text)):
        meaning = words(text)
        place = _nearest(meaning, leaders, holders)
        if place is None:
            place = len(leaders)
            leaders.append(meaning)
            groups.append([])
            for word in meaning:
                holders[word].append(place)
        groups[place].append(text)
    return {text: group[0] for group in groups for text in group}


def _nearest(
    meaning: frozenset[str], leaders: list[frozenset[str]], holders: Mapping[str, list[int]]
) -> int | None:
    """The group whose leader shares most with the text, if that is enough."""
    shared = Counter(place for word in meaning for place in holders.get(word, ()))
    best, most = None, 0.0
    for place, common in sorted(shared.items()):
        likeness = common / (len(meaning) + len(leaders[place]) - common)
        if likeness >= ALIKE and likeness > most:
            best, most = place, likeness
    return best


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    plural = len(word) > 3 and word.isalpha() and word.endswith("s") and not word.endswith(("ss", "us", "is"))
    return word[:-1] if plural else word
