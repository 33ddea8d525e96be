"""What somebody probably meant who wrote a name that does not exist."""

from __future__ import annotations

from collections.abc import Iterable

_ALIKE = 0.6


def find_nearest(word: str, known: Iterable[str], alike: float = _ALIKE) -> str | None:
    """Return the known name that is most like a word; None if none is."""
    from difflib import get_close_matches  # only mistakes need it

    names = {name.casefold(): name for name in known}
    near = get_close_matches(word.casefold(), names, n=1, cutoff=alike)
    return names[near[0]] if near else None


def suggest(word: str, known: Iterable[str], form: str = "{!r}", alike: float = _ALIKE) -> str:
    """Return ` Did you mean …?`, to be added to a sentence; empty if no known name is like the word."""
    near = find_nearest(word, known, alike)
    return "" if near is None else f" Did you mean {form.format(str(near))}?"
