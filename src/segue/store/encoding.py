"""JSON and text that both databases store: Postgres refuses U+0000 and lone surrogates."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import msgspec

_REFUSED = re.compile("[\x00\ud800-\udfff]")
_encode = msgspec.json.Encoder().encode


def escape(text: str) -> str:
    """Return text that both databases take."""
    return text if text.isascii() and "\0" not in text else _REFUSED.sub("\ufffd", text)


def encode(value: Any) -> str:
    """Return JSON that both databases take."""
    try:
        text = _encode(value).decode()
        if "\\u0000" not in text:
            return text
    except (
        TypeError,
        ValueError,
        OverflowError,
    ):  # surrogates, huge numbers, mappings
        pass
    return json.dumps(_clean(value), ensure_ascii=False, separators=(",", ":"))


def decode(text: str) -> Any:
    """Return the value of JSON; raises ValueError if it is none."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {escape(key) if isinstance(key, str) else key: _clean(item) for key, item in value.items()}
    return [_clean(item) for item in value] if isinstance(value, list | tuple) else value
