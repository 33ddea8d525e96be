"""Regular expressions that are compiled when they are first used: most commands need few of the hundreds."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

_METHODS = ("search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split")


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return what `re.compile` returns, at a time when it is needed; a mistake shows then, too."""
    return cast("re.Pattern[AnyStr]", _Pattern(text, flags))


def compile_all() -> None:
    """Compile every pattern that was made so far."""
    for made in _MADE:
        made.compile()


class _Pattern:
    def __init__(self, text: str | bytes, flags: int) -> None:
        self.pattern, self._flags = text, flags
        _MADE.append(self)

    def compile(self) -> re.Pattern[Any]:
        compiled = re.compile(self.pattern, self._flags)
        self.__dict__.update((method, getattr(compiled, method)) for method in _METHODS)
        return compiled

    def __getattr__(self, name: str) -> Any:
        return getattr(self.compile(), name)


_MADE: list[_Pattern] = []
