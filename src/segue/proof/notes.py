"""What proofs keep in files, as JSON that can hold any path, also one that is not UTF-8."""

from __future__ import annotations

import json
from typing import TypeVar

import msgspec

T = TypeVar("T")


def encode_note(value: object) -> bytes:
    """Return a value as JSON, in ASCII: bytes of a path that are no text survive as escapes."""
    return json.dumps(msgspec.to_builtins(value)).encode()


def decode_note(data: bytes, kind: type[T]) -> T:
    """Return the value; raises msgspec.MsgspecError if it is not of this kind."""
    try:
        found = json.loads(data)
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from None
    return msgspec.convert(found, kind)
