"""Reads command lines without running them, and tells the line to type."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from io import StringIO
from shlex import join
from typing import NamedTuple

import click

from segue.cli.main import cli
from segue.domain.errors import UsageError
from segue.domain.pattern import pattern

Words = list[str]
RUN_ID = pattern(r"last|latest|\d{8}-\S*")
_KEY = r"#?[A-Za-z]{0,3}\d+(?:\.\d+)*[a-z]?"
TASK = pattern(_KEY)
TASKS = pattern(rf"{_KEY}(?:(?:,|-|\.\.){_KEY})*")
"""A task as people number it, and several: `1,2`, `1-3`."""
RUNNING = ("run", "rehearse", "resume", "check", "follow")
"""Commands whose every setting can be given by a variable."""
_LONG_DASH = pattern(r"[\u2010-\u2015\u2212]+")
_CURLY = str.maketrans(dict.fromkeys("\u2018\u2019\u201c\u201d\u201e"))


class Guess(NamedTuple):
    """What may have been meant: the sentence that says so, and the line."""

    sentence: str
    words: Words
    variable: str = ""
    """A variable that precedes the line."""
    after: str = ""
    """What follows it: more lines."""


def suggest(guess: Guess) -> UsageError | None:
    """Return the answer that a guess makes; None: Segue cannot read it."""
    line = complete(guess.words)
    if line is None:
        return None
    typed = (join(guess.words), *line[len(guess.words) :])
    hint = " ".join(filter(None, ("Type:", guess.variable, "segue", *typed))) + guess.after
    kept = "Nothing was started." if line[:1] and line[0] in RUNNING else ""
    return UsageError(guess.sentence, kept=kept, hint=hint)


def complete(words: Sequence[str]) -> Words | None:
    """Return the words with what is missing at their end, by its name; None: Segue cannot read them."""
    line = list(words)
    for _ in range(4):
        try:
            read_line(line)
        except click.MissingParameter as error:
            if (param := error.param) is None:
                return None
            name = (param.metavar or param.name or "").upper().strip("[]")
            line += [name] if isinstance(param, click.Argument) else [param.opts[-1], "WHY"]
        except click.BadOptionUsage as error:
            if "requires an argument" not in error.message or line[-1] != error.option_name:
                return None
            line.append(_sample(line))
        except (click.UsageError, UsageError):
            return None
        else:
            return line
    return None


def _sample(line: Words) -> str:
    """Return a value of the option at the end of a line."""
    from segue.cli.mistakes.values import sample

    return next((sample(one) for one in find_command(line)[0].params if line[-1] in one.opts), "VALUE")


def read_line(words: Words) -> None:
    """Parse a command line without running anything; raises click.UsageError."""
    command, context, rest = find_command(words)
    quiet = redirect_stdout(StringIO())  # --version prints while it is read
    with quiet, suppress(click.exceptions.Exit, click.exceptions.NoArgsIsHelpError):
        command.make_context(command.name, list(rest), parent=context)


def find_command(words: Sequence[str]) -> tuple[click.Command, click.Context, Words]:
    """Return the command that the words name, its parent's context, and the words that follow."""
    command: click.Command = cli
    context, rest = click.Context(cli, info_name="segue", **cli.context_settings), list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None
        command = found
        if isinstance(command, click.Group):
            context = click.Context(command, info_name=name, parent=context)
    return command, context, rest


def find_context(args: Words) -> click.Context | None:
    with suppress(click.UsageError, UsageError):
        command, context, _ = find_command(args)
        return click.Context(command, info_name=command.name, parent=context)
    return None


def find_path(args: Words) -> str:
    found = find_context(args)
    return found.command_path.removeprefix("segue ") if found is not None else args[0]


def find_example(context: click.Context | None) -> str:
    """Return the first example of a command; empty: it has none."""
    lines = (context.command.help or "").splitlines() if context is not None else []
    found = (line.strip() for line in lines)
    return next((line.partition("   ")[0] for line in found if line.startswith("segue ")), "")


def make_plain(word: str) -> str:
    """Return a word as it is typed: word processors make one long dash of two, and curly quotes."""
    dashes = _LONG_DASH.match(word)
    return (f"--{word[dashes.end() :]}" if dashes else word).translate(_CURLY)


_LONGEST_SHORT = 3
"""How many letters an abbreviation has at most: longer ones fit too many words."""


def is_short_for(name: str, option: str) -> bool:
    """Return whether a name abbreviates an option or a word, as `--md` does `--markdown`."""
    letters, begin = iter(option), len(name) - len(name.lstrip("-"))
    if begin == 1:
        return option.startswith(f"-{name}")
    return (
        begin + 1 < len(name) <= begin + _LONGEST_SHORT
        and name[: begin + 1] == option[: begin + 1]
        and all(one in letters for one in name)
    )


def is_agent(word: str) -> bool:
    """Return whether a word names agents: `claude`, `codex:gpt-5`, `cursor,claude`."""
    from segue.runtime.registry import names

    known = names("agents")
    return all(one.partition(":")[0] in known for one in word.split(","))
