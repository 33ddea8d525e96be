"""Regular expressions that are compiled when they are first used: most commands need few of the hundreds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, AnyStr, cast

_LOOKS = ("search", "match", "fullmatch")
_METHODS = (*_LOOKS, "finditer", "findall", "sub", "subn", "split")


def pattern(text: AnyStr, flags: int = 0, needs: Sequence[str] = ()) -> re.Pattern[AnyStr]:
    """Return what `re.compile` returns, at a time when it is needed; a mistake shows then, too.

    Whatever matches contains one of the words that it `needs`, in lower case or not. A text without them does
    not match, which is known before anything is compiled.
    """
    return cast("re.Pattern[AnyStr]", _Pattern(text, flags, needs))


def compile_all() -> None:
    """Compile every pattern that was made so far."""
    for made in _MADE:
        made.compile()


class _Pattern:
    def __init__(self, text: str | bytes, flags: int, needs: Sequence[str]) -> None:
        self.pattern, self.needs, self._flags = text, needs, flags
        _MADE.append(self)

    def compile(self) -> re.Pattern[Any]:
        compiled = re.compile(self.pattern, self._flags)
        self.__dict__.update((method, getattr(compiled, method)) for method in _METHODS)
        return compiled

    def __getattr__(self, name: str) -> Any:
        if self.needs and name in _LOOKS:
            return lambda text, *place: self._look(name, text, *place)
        return getattr(self.compile(), name)

    def _look(self, how: str, text: str, *place: int) -> re.Match[str] | None:
        # Letters beyond ASCII may be others in lower case than for `re`.
        if text.isascii() and not any(word in text.lower() for word in self.needs):
            return None
        found: re.Match[str] | None = getattr(self.compile(), how)(text, *place)
        return found


_MADE: list[_Pattern] = []
