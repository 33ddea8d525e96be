"""Groups texts by topic: people and models word the same thing differently, but share words."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

SIMILARITY = 0.5
"""Two texts belong to the same topic if they share at least this part of all their words."""

_WORD = re.compile(r"[^\W\d_][\w.+#]*")
_STOP_LIST = """
    a an and are as at be been but by can cannot could did do does doing done for from get gets had has have
    how i if in into is it its just may me must my no not of on or our out should so some such than that the
    their them then there these they this to up use used using was we were what when where which while who
    why will with without would you your
"""
_STOP_WORDS = frozenset(_STOP_LIST.split())


def extract_words(text: str) -> frozenset[str]:
    """Return the meaningful words of a text, in the singular."""
    found = (word.rstrip(".+") for word in _WORD.findall(text.lower()))
    return frozenset(_to_singular(word) for word in found if word not in _STOP_WORDS and len(word) > 1)


def group_by_topic(texts: Iterable[str]) -> dict[str, str]:
    """Map each text to its topic, named after the most frequent text in it, whatever their order."""
    counts = Counter(texts)
    groups: list[list[str]] = []
    leaders: list[frozenset[str]] = []
    index: dict[str, list[int]] = defaultdict(list)
    for text in sorted(counts, key=lambda text: (-counts[text], text)):
        meaning = extract_words(text)
        place = _find_nearest(meaning, leaders, index)
        if place is None:
            place = len(leaders)
            leaders.append(meaning)
            groups.append([])
            for word in meaning:
                index[word].append(place)
        groups[place].append(text)
    return {text: group[0] for group in groups for text in group}


def _find_nearest(
    meaning: frozenset[str], leaders: list[frozenset[str]], index: Mapping[str, list[int]]
) -> int | None:
    """Find the group whose leader shares most with the text, if it shares enough."""
    shared = Counter(place for word in meaning for place in index.get(word, ()))
    best, most = None, 0.0
    for place, common in sorted(shared.items()):
        similarity = common / (len(meaning) + len(leaders[place]) - common)
        if similarity >= SIMILARITY and similarity > most:
            best, most = place, similarity
    return best


def _to_singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    plural = len(word) > 3 and word.isalpha() and word.endswith("s") and not word.endswith(("ss", "us", "is"))
    return word[:-1] if plural else word
