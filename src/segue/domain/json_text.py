"""Finds the JSON object in a model's answer, whatever is around it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from segue.domain.pattern import pattern

_START = pattern(r'\{[ \t\r\n]*["}]')

_EFFORT, _PASSES = 10_000_000, 10
"""Characters that are read before the search is given up, and how often those of a long text may be:
braces in braces would take for ever."""

_WINDOW, _LONGEST_WORD = 2000, 30
"""Characters that are looked at first, and how long a number or an escape may be that the window cuts."""

_COUNTING = 50
"""How much faster than reading an error finds out on which line it is."""


def objects(text: str) -> Iterator[dict[str, Any]]:
    """Every JSON object in the text that does not lie in another one."""
    decoder, found, effort = json.JSONDecoder(), _START.search(text), 0
    most = max(_EFFORT, _PASSES * len(text))
    while found and effort < most:
        place = found.start()
        end = place + 1
        if not _breaks_at_once(decoder, text[place : place + _WINDOW]):
            try:
                value, end = decoder.raw_decode(text, place)
                yield value
            except (ValueError, RecursionError) as error:
                reached = getattr(error, "pos", len(text))
                effort += reached - place + reached // _COUNTING
        found = _START.search(text, end)


def _breaks_at_once(decoder: json.JSONDecoder, start: str) -> bool:
    """Return whether it cannot be an object, whatever follows: as braces in code, of which there are many."""
    try:
        decoder.raw_decode(start)
    except json.JSONDecodeError as error:
        return error.pos < len(start) - _LONGEST_WORD and not error.msg.startswith("Unterminated")
    except RecursionError:
        return False
    return False


def the_object(text: str, field: str) -> dict[str, Any] | str:
    """The one object that has the field; or what is wrong, as a sentence for whoever wrote the text."""
    found = [value for value in objects(text) if field in value]
    if not found:
        return f'There is no JSON object with "{field}" in the answer.'
    if any(not _same(other, found[0]) for other in found[1:]):
        return "There is more than one JSON object in the answer, and they differ."
    return found[0]


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    try:
        return one == other
    except RecursionError:
        return False
