"""Finds JSON in what a model has said, whatever stands around it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def objects(text: str) -> Iterator[dict[str, Any]]:
    """Every JSON object in the text that does not lie in another one."""
    decoder, place = json.JSONDecoder(), text.find("{")
    while place >= 0:
        try:
            value, end = decoder.raw_decode(text, place)
            yield value
        except (ValueError, RecursionError):
            end = place + 1
        place = text.find("{", end)


def the_object(text: str, field: str) -> dict[str, Any] | str:
    """The one object that has the field; or what is wrong, as a sentence for whoever wrote the text."""
    found = [value for value in objects(text) if field in value]
    if not found:
        return f'There is no JSON object with "{field}" in the answer.'
    if any(other != found[0] for other in found[1:]):
        return "There is more than one JSON object in the answer, and they differ."
    return found[0]
