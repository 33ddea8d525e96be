"""Commands that users write in the configuration: fills in placeholders and splits text without a shell."""

from __future__ import annotations

import shlex
import string
from collections.abc import Mapping

_OPERATORS = frozenset("();<>|&")


def fill(argument: str, values: Mapping[str, str]) -> str:
    """Replace the placeholders of an argument; `{{` and `}}` stand for braces. It stays one argument."""
    parts = []
    for literal, name, spec, conversion in string.Formatter().parse(argument):
        parts.append(literal)
        if name is None:
            continue
        if name not in values or spec or conversion:
            known = ", ".join("{" + known + "}" for known in values)
            raise ValueError(
                f"unknown placeholder {{{name}}} in {argument!r}; known: {known}; a brace is {{{{"
            )
        parts.append(values[name])
    return "".join(parts)


def split(command: str) -> list[str]:
    """Split a command into words; raises ValueError for what only a shell understands."""
    try:
        raw, words = _raw_words(command), shlex.split(command)
    except ValueError:
        raise ValueError(f"a quotation mark in {command!r} is not closed") from None
    if any(map(_needs_shell, raw)) or "\n" in command.strip():
        raise ValueError(
            f"{command!r} needs a shell, and Segue never uses one: write a list of commands "
            'such as ["npm ci", "npm test"], or put it into a script'
        )
    if not words:
        raise ValueError("a command cannot be empty")
    return words


def _raw_words(command: str) -> list[str]:
    """Return the words with their quotes, so that a quoted `|` is not mistaken for an operator."""
    lexer = shlex.shlex(command, posix=False, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    return list(lexer)


def _needs_shell(word: str) -> bool:
    return bool(word) and (set(word) <= _OPERATORS or (word[0] not in "'\"" and "`" in word))
