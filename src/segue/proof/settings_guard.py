"""Compare Segue's settings before and after a launch as they are loaded, and put them back.

Whatever the spelling, only what the loader would read counts. The rest of a shared file belongs to the
product: it stays as the agent left it, byte for byte, wherever the settings can be exchanged by themselves.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from segue.domain.options import SHARED_FILE, has_settings, parse_settings

_OWN = ("tool", "segue")
_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*"
    r"|.",
    re.S,
)


class Settled(Struct, frozen=True):
    """What a file must contain again."""

    data: bytes | None
    """None: there must be no such file."""
    said: str
    whole: bool = False
    """Whether the agent's version of the rest is lost with it, so that it should be kept elsewhere."""


def settle_file(name: str, old: bytes | None, new: bytes | None) -> Settled | None:
    """Return what to put back after a launch; None if Segue's settings are what they were."""
    before, _ = _parse(name, old)
    after, is_readable = _parse(name, new)
    # Of what cannot be read, the loader asks whether it may be settings: then no command would start.
    if before == after and (is_readable or (before is None and not has_settings(new or b""))):
        return None
    if old is None and name != SHARED_FILE:
        return Settled(None, f"The agent created {name}, which would change the run. It was removed.", True)
    if name == SHARED_FILE and is_readable:
        merged = _exchange(_text(old), _text(new))
        if merged is not None:
            data = merged.encode() if merged.strip() or old is not None else None
            return Settled(data, f"The agent changed [tool.segue] in {name}. It was put back.")
    if new is None:
        return Settled(old, f"The agent removed {name}. It was put back.")
    why = "changed Segue's settings in" if is_readable else "left no readable TOML in"
    return Settled(old, f"The agent {why} {name}. It was put back as a whole.", True)


def _parse(name: str, data: bytes | None) -> tuple[dict[str, Any] | None, bool]:
    """Return the settings, and whether the file can be read; one that does not exist has none."""
    if data is None:
        return None, True
    try:
        return parse_settings(name, data), True
    except ValueError:
        return None, False


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")


class _Statement(Struct, frozen=True):
    """A header, or a key with its value: whole lines of a TOML file."""

    start: int
    end: int
    table: tuple[str, ...]
    """The table that the header before it opens."""
    path: tuple[str, ...]
    is_header: bool = False

    @property
    def is_own(self) -> bool:
        """Whether it is about Segue's settings."""
        return self.path[:2] == _OWN

    @property
    def is_inside(self) -> bool:
        """Whether it is in a table of Segue's own, or opens one."""
        return self.is_own and (self.is_header or self.table[:2] == _OWN)


def _exchange(old: str, new: str) -> str | None:
    """Return the new text with the settings of the old one; None if that cannot be done by moving lines."""
    text = new if not new or new.endswith("\n") else f"{new}\n"
    try:
        known = list(_statements(text))
        edits = [(start, end, "") for start, end in _blocks(known)]
        edits += [(one.start, one.end, "") for one in known if one.is_own and not one.is_inside]
        edits += _additions(old, known, text)
        for start, end, words in sorted(edits, key=lambda edit: (edit[0], edit[1]), reverse=True):
            text = text[:start] + words + text[end:]
        return text if _split(text) == (_split(old)[0], _split(new)[1]) else None
    except (ValueError, RecursionError):
        return None


def _additions(old: str, known: list[_Statement], text: str) -> Iterator[tuple[int, int, str]]:
    """Yield where the old settings are inserted: in the place of the new ones, if there are any."""
    statements = list(_statements(old))
    tables = "\n".join(_lines(old, start, end) for start, end in _blocks(statements))
    if tables:
        places = [start for start, _ in _blocks(known)]
        at = places[0] if places else len(text)
        yield at, at, tables if places or not text.strip() else f"\n{tables}"
    for table in ((), _OWN[:1]):
        keys = [one for one in statements if one.is_own and not one.is_inside and one.table == table]
        if keys:
            words = "".join(_lines(old, one.start, one.end) for one in keys)
            heads = [one.end for one in known if one.is_header and one.path == table]
            if not table or heads:
                at = heads[0] if table else 0
                yield at, at, words
            else:
                yield len(text), len(text), f"\n[tool]\n{words}"


def _lines(text: str, start: int, end: int) -> str:
    found = text[start:end]
    return found if found.endswith("\n") else f"{found}\n"


def _blocks(statements: list[_Statement]) -> Iterator[tuple[int, int]]:
    """Yield the parts of a text that consist of Segue's own tables; comments before and after are not."""
    start = end = -1
    for one in statements:
        if one.is_inside:
            start, end = (one.start if start < 0 else start), one.end
        elif start >= 0:
            yield start, end
            start = -1
    if start >= 0:
        yield start, end


def _statements(text: str) -> Iterator[_Statement]:
    """Yield the statements of a valid TOML file."""
    table: tuple[str, ...] = ()
    at = 0
    while at < len(text):
        end = _end_of(text, at)
        words = text[at:end].strip()
        if words.startswith("["):
            table = _path(words)
            yield _Statement(at, end, table, table, is_header=True)
        elif words and not words.startswith("#"):
            yield _Statement(at, end, table, (*table, *_path(f"{_key(words)} = 0")))
        at = end


def _end_of(text: str, start: int) -> int:
    """Return where the statement ends that starts here: with a line, but not inside of a value."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        word = token[0]
        depth += (word in ("[", "{")) - (word in ("]", "}"))
        if word == "\n" and depth <= 0:
            return token.end()
    return len(text)


def _key(statement: str) -> str:
    for token in _TOKEN.finditer(statement):
        if token[0] == "=":
            return statement[: token.start()]
    raise ValueError(statement)


def _path(words: str) -> tuple[str, ...]:
    """Return the names that a header, or a key with a plain value, consists of."""
    found: Any = tomllib.loads(words)
    path = []
    while isinstance(found, dict) and found:
        ((name, found),) = found.items()
        path.append(name)
    return tuple(path)


def _split(text: str) -> tuple[Any, Any]:
    """Return Segue's settings, and everything else that the file says."""
    found = tomllib.loads(text)
    tool = found.get("tool")
    own = tool.pop("segue", None) if isinstance(tool, dict) else None
    if tool == {}:
        del found["tool"]
    return own, found
