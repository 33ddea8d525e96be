"""Mistakes on the command line, in Segue's own words: each answer has the line to type.

Every guess is parsed, and the first that Segue can read wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import join

import click

from segue.cli.main import COMMANDS, unknown_command
from segue.cli.mistakes import values
from segue.cli.mistakes.commands import guess_command
from segue.cli.mistakes.line import (
    RUN_ID,
    TASK,
    Guess,
    Words,
    complete,
    find_command,
    find_context,
    find_example,
    find_path,
    make_plain,
    read_line,
    suggest,
)
from segue.cli.mistakes.options import find_near_options, guess_option
from segue.cli.mistakes.places import SWITCHES, find_extra, guess_place
from segue.cli.mistakes.values import name_of
from segue.domain.errors import UsageError
from segue.domain.pattern import pattern

_UNKNOWN = pattern(r"(?:There is no|No such) command '(.*?)'\.(?: .*)?")
_EXTRA = pattern(r"Got unexpected extra arguments? \((.*)\)")


def explain(error: click.UsageError, args: Sequence[str]) -> UsageError:
    """Return what is wrong with a command line, and the line to type instead."""
    guesses = list(_guess(error, list(args)))
    found = next(filter(None, map(suggest, guesses)), None)
    found = found or next(filter(None, map(_suggest_second, guesses)), None)
    return found or _explain_other(error, list(args))


def _suggest_second(guess: Guess) -> UsageError | None:
    """Return the answer to a line with two mistakes, of which the guess corrects the first."""
    try:
        read_line(guess.words)
    except click.UsageError as error:
        again = (one._replace(sentence=guess.sentence) for one in _guess(error, guess.words))
        return next(filter(None, map(suggest, again)), None)
    except UsageError:
        return None
    return None


def _guess(error: click.UsageError, args: Words) -> Iterator[Guess]:
    plain = [make_plain(word) for word in args]
    if plain != args:
        odd = next(word for word, other in zip(args, plain, strict=True) if word != other)
        yield Guess(f"{odd} has a dash or quotes of a word processor.", plain)
    if isinstance(error, click.NoSuchOption):
        yield from guess_option(error, args)
    elif unknown := _UNKNOWN.match(error.message):
        yield from guess_command(unknown[1], error, args)
    elif extra := _EXTRA.match(error.message):
        yield from guess_place(find_extra(extra[1], args), args)
    elif isinstance(error, click.MissingParameter):
        yield from _guess_missing(error, args)
    elif isinstance(error, click.BadOptionUsage) and "does not take a value" in error.message:
        yield from _guess_switch(error.option_name, args)
    elif isinstance(error, click.BadParameter):
        yield from _guess_value(error, args)


def _guess_switch(option: str, args: Words) -> Iterator[Guess]:
    """Guess what is meant by a value of an option that takes none: `--yes=no` leaves it out."""
    at = next((at for at, word in enumerate(args) if word.startswith(f"{option}=")), None)
    if at is not None:
        wanted = SWITCHES.get(args[at].partition("=")[2].casefold(), True)
        yield Guess(f"{option} takes no value.", [*args[:at], *([option] if wanted else []), *args[at + 1 :]])


def _guess_value(error: click.BadParameter, args: Words) -> Iterator[Guess]:
    """Guess the value that was meant by one that an option or argument does not take."""
    message, given, meant = values.explain_value(error)
    name = name_of(error.param)
    for at in [at for at, word in enumerate(args) if meant and word.endswith(given)]:
        if args[at] == given or args[at].startswith((f"{name}=", "-")):
            yield Guess(message, [*args[:at], f"{args[at].removesuffix(given)}{meant}", *args[at + 1 :]])
    if RUN_ID.fullmatch(given) and "run" in getattr(getattr(error.param, "type", None), "choices", ()):
        yield Guess("The report of one run is called `run`.", [*args[: args.index(given)], "run", given])


def _guess_missing(error: click.MissingParameter, args: Words) -> Iterator[Guess]:
    """Guess what was meant for an argument or an option that is missing."""
    for at, word in enumerate(args):
        if "=" in word and not word.startswith("-"):
            split = [*args[:at], *word.split("=", 1), *args[at + 1 :]]
            yield Guess(f"{word} is written as two words here.", split)
    for run in (one for one in args if RUN_ID.fullmatch(one)):
        yield Guess(f"The run is named with --run: {run}.", [*(o for o in args if o != run), "--run", run])
    if error.param is not None and error.param.name == "text":
        yield from _guess_task(args)
    if isinstance(error.param, click.Option) and len(args) > 3:
        option, at = error.param.opts[-1], len(find_path(args).split()) + 1
        if len(args) > at + 1 and not any(word.startswith("-") for word in args):
            yield Guess(f"{join(args[at:])} follows {option}.", [*args[:at], option, " ".join(args[at:])])
        yield Guess(f"{args[-1]!r} follows {option}.", [*args[:-1], option, args[-1]])


def _guess_task(args: Words) -> Iterator[Guess]:
    """Guess that the only word where a task and a text belong is the text, or a command."""
    first = next(param for param in find_command(args)[0].params if isinstance(param, click.Argument))
    at = len(find_path(args).split())
    word, name = "".join(args[at : at + 1]), name_of(first)
    if not word or word.startswith("-") or TASK.fullmatch(word):
        return
    if word in COMMANDS:
        yield Guess(f"Is `segue {word}` meant? {name} comes before a text.", args[at:])
    yield Guess(f"{name} is missing: {word!r} is a text.", [*args[:at], name, *args[at:]])


def _explain_other(error: click.UsageError, args: Words) -> UsageError:
    message = error.format_message().strip()
    if error.ctx is not None and (unknown := _UNKNOWN.fullmatch(message)):
        message = unknown_command(unknown[1], error.ctx).message
    context = error.ctx or find_context(args)
    path = context.command_path if context is not None else "segue"
    hint = f"{path} --help"
    if isinstance(error, click.NoSuchOption):
        near = find_near_options(error.option_name, context) if context is not None else []
        message = f"There is no option {error.option_name}." + (f" Did you mean {near[0]}?" if near else "")
        without = _leave_out(error.option_name, args)
        hint += f"   Without it: segue {join(without)}" if without else ""
    param = _find_param(error, context)
    if isinstance(error, click.MissingParameter) and param is not None:
        message = f"{name_of(param)} is missing"
        line = complete(args)
        hint = f"Type: segue {join(line)}" if line else f"For example: {find_example(error.ctx) or hint}"
    elif isinstance(error, click.BadOptionUsage) and param is not None:
        message = f"{name_of(param)} needs a value"
        hint = f"For example: segue {join([*args, values.sample(param)])}"
    elif isinstance(error, click.BadParameter):
        message, given, _ = values.explain_value(error)
        shown = [values.sample(param) if param and word == given else word for word in args]
        hint = f"For example: segue {join(shown)}" if given and shown != args else hint
    return UsageError(message if message.endswith((".", "?", "!")) else f"{message}.", hint=hint)


def _leave_out(option: str, args: Words) -> Words:
    """Return a line without an option, and without its value if it has one."""
    at = next((at for at, word in enumerate(args) if word.split("=")[0] == option), len(args))
    lines = [[*args[:at], *args[at + 1 :]], [*args[:at], *args[at + 2 :]]]
    value = "".join(args[at + 1 : at + 2])
    if value and not (RUN_ID.fullmatch(value) or value.startswith("-") or Path(value).exists()):
        lines.reverse()
    return next((line for line in lines if at < len(args) and complete(line) == line), [])


def _find_param(error: click.UsageError, context: click.Context | None) -> click.Parameter | None:
    """Return the option or argument that an error is about; one that takes no value is none."""
    if isinstance(error, click.BadParameter):
        return error.param
    if not isinstance(error, click.BadOptionUsage) or "requires an argument" not in error.message:
        return None
    params = context.command.params if context is not None else ()
    return next((one for one in params if error.option_name in one.opts), None)
