"""JSON and text that come back from both databases exactly as they went in.

Postgres refuses U+0000 and lone surrogates, and its jsonb turns 1e+300 into an integer and -0.0 into 0.0.
They are written as U+0010 (DLE, "data link escape") followed by four hex digits, or by `n` and the number.
"""

from __future__ import annotations

import json
import json.encoder
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

DLE = "\x10"
"""Marks what was escaped."""

_REFUSED = re.compile("[\x00\x10\ud800-\udfff]")
_ESCAPED = re.compile("\x10([0-9a-f]{4})")


def _make_dumps() -> Callable[[Any], str]:
    """`json.dumps`, but with an encoder made once: to make one for each value is a third of the cost."""
    plain = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False)
    try:
        make = json.encoder.c_make_encoder  # type: ignore[attr-defined]
        quick = make(None, plain.default, json.encoder.encode_basestring, None, ":", ",", False, False, False)
    except (AttributeError, TypeError):  # only CPython has it, and may change it
        return plain.encode
    return lambda value: "".join(quick(value, 0))


_dumps = _make_dumps()


def escape(text: str) -> str:
    """Text that both databases take."""
    if text.isascii() and text.isprintable():
        return text
    return _REFUSED.sub(lambda match: f"{DLE}{ord(match[0]):04x}", text)


def unescape(text: str) -> str:
    """Return the text that was escaped."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text) if DLE in text else text


def encode(value: Any) -> str:
    """JSON that both databases take and give back unchanged, but for the order of keys."""
    if not isinstance(value, dict) and isinstance(value, Mapping):
        value = dict(value)
    try:
        text = _dumps(value)
    except ValueError:  # a number that is not finite
        return _dumps(_guard(value))
    return _dumps(_guard(value)) if _is_awkward(text) else text


def decode(text: str) -> Any:
    """Return the value that was encoded."""
    try:
        value = json.loads(text)
        return _unguard(value) if is_guarded(text) else value
    except RecursionError:
        raise ValueError("nested too deeply") from None


def is_guarded(text: str) -> bool:
    """Return whether JSON has marks of this encoding, so that not everybody can read it."""
    return "\\u0010" in text


def _is_awkward(text: str) -> bool:
    """Return whether a database may refuse or change the text. Spelt out, as every event passes here."""
    if "e+" in text or "-0.0" in text or ("\\u00" in text and ("\\u0000" in text or "\\u0010" in text)):
        return True
    return not text.isascii() and _REFUSED.search(text) is not None


def _guard(value: Any) -> Any:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, float):
        return f"{DLE}n{value!r}" if _unsafe(value) else value
    if isinstance(value, dict):
        return {escape(key) if isinstance(key, str) else key: _guard(item) for key, item in value.items()}
    return [_guard(item) for item in value] if isinstance(value, list | tuple) else value


def _unsafe(number: float) -> bool:
    return not math.isfinite(number) or "e+" in repr(number) or repr(number) == "-0.0"


def _unguard(value: Any) -> Any:
    if isinstance(value, str):
        return float(value[2:]) if value.startswith(DLE + "n") else unescape(value)
    if isinstance(value, dict):
        return {unescape(key): _unguard(item) for key, item in value.items()}
    return [_unguard(item) for item in value] if isinstance(value, list) else value
