"""Mistakes on the command line, in Segue's own words: each answer has the line to type.

Every guess is parsed, and the first that Segue can read wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from shlex import join, quote
from typing import NamedTuple

import click

from segue.cli import words as others
from segue.cli.main import ALIKE, COMMANDS, cli, unknown_command
from segue.domain.errors import UsageError
from segue.domain.pattern import pattern

_Words = list[str]
_UNKNOWN = pattern(r"(?:There is no|No such) command '(.*?)'\.(?: .*)?")
_EXTRA = pattern(r"Got unexpected extra arguments? \((.*)\)")
_RUN_ID = pattern(r"last|latest|\d{8}-\S*")
_RUNNING = ("run", "rehearse", "resume", "check", "follow")
"""Commands whose every setting can be given by a variable."""
_OF_RUNS = ("status", "resume", "stop", "logs --follow")
"""Commands whose argument is a run."""


class Guess(NamedTuple):
    """What may have been meant: the sentence that says so, and the line."""

    sentence: str
    words: _Words
    variable: str = ""
    """A variable that precedes the line."""


def _in_order(words: _Words) -> _Words:
    """Replace `--jobs N --order`, which let each task wait for the one before it."""
    if words[:2] == ["task", "graph"]:
        return [word for word in words if word != "--order"]
    kept = [word for word in words if word != "--order" and not word.startswith("--jobs=")]
    while "--jobs" in kept:
        at = kept.index("--jobs")
        del kept[at : at + 2]
    return [*kept, "--jobs", "1"]


def _without_stay(words: _Words) -> _Words:
    return [*(word for word in words if word not in ("--stay", "--serve")), "--serve"]


OLD_OPTIONS: dict[str, tuple[str, Callable[[_Words], _Words]]] = {
    "--order": ("now --jobs 1, because one task at a time is in order", _in_order),
    "--stay": ("now `segue serve`, which shows runs that have ended, too", _without_stay),
    "--resume": ("a command of its own", lambda _: ["resume"]),
}
"""Option → what it is now, and how a line with it is typed."""


def explain(error: click.UsageError, args: Sequence[str]) -> UsageError:
    """Return what is wrong with a command line, and the line to type instead."""
    for guess in _guess(error, list(args)):
        line = complete(guess.words)
        if line is not None:
            typed = (join(guess.words), *line[len(guess.words) :])
            hint = " ".join(filter(None, ("Type:", guess.variable, "segue", *typed)))
            kept = "Nothing was started." if line[:1] and line[0] in _RUNNING else ""
            return UsageError(guess.sentence, kept=kept, hint=hint)
    return _explain_other(error, list(args))


def complete(words: Sequence[str]) -> _Words | None:
    """Return the words with what is missing at their end, by its name; None: Segue cannot read them."""
    line = list(words)
    for _ in range(4):
        try:
            _read(line)
        except click.MissingParameter as error:
            if (param := error.param) is None:
                return None
            name = (param.metavar or param.name or "").upper().strip("[]")
            line += [name] if isinstance(param, click.Argument) else [param.opts[-1], "WHY"]
        except (click.UsageError, UsageError):
            return None
        else:
            return line
    return None


def _read(words: _Words) -> None:
    """Parse a command line without running anything; raises click.UsageError."""
    command, context, rest = _find_command(words)
    with suppress(click.exceptions.Exit, click.exceptions.NoArgsIsHelpError):
        command.make_context(command.name, list(rest), parent=context)


def _find_command(words: Sequence[str]) -> tuple[click.Command, click.Context, _Words]:
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


def _guess(error: click.UsageError, args: _Words) -> Iterator[Guess]:
    if isinstance(error, click.NoSuchOption):
        yield from _guess_option(error, args)
    elif unknown := _UNKNOWN.match(error.message):
        yield from _guess_command(unknown[1], error, args)
    elif extra := _EXTRA.match(error.message):
        yield from _guess_place(extra[1].split()[0], args)
    elif isinstance(error, click.MissingParameter):
        yield from _guess_missing(error, args)
    elif isinstance(error, click.BadOptionUsage) and "does not take a value" in error.message:
        without = [word.split("=")[0] if word.startswith(f"{error.option_name}=") else word for word in args]
        yield Guess(f"{error.option_name} takes no value.", without)


def _guess_missing(error: click.MissingParameter, args: _Words) -> Iterator[Guess]:
    """Guess what was meant for an argument or an option that is missing."""
    for at, word in enumerate(args):
        if "=" in word and not word.startswith("-"):
            split = [*args[:at], *word.split("=", 1), *args[at + 1 :]]
            yield Guess(f"{word} is written as two words here.", split)
    if isinstance(error.param, click.Option) and len(args) > 3:
        option = error.param.opts[-1]
        yield Guess(f"{args[-1]!r} follows {option}.", [*args[:-1], option, args[-1]])


def _guess_command(name: str, error: click.UsageError, args: _Words) -> Iterator[Guess]:
    """Guess what is meant by a word where a command is expected."""
    path = (error.ctx.command_path.split() if error.ctx is not None else ["segue"])[1:]
    yield from _guess_order(error, args)
    at = args.index(name, len(path)) if name in args[len(path) :] else len(path)
    rest = args[at + 1 :]
    single = name.removesuffix("s")
    if not path and rest and single in _groups():
        yield Guess(f"`{name}` is `segue {single}` here.", [single, *rest])
    inner = others.inner_meanings(others.INNER, path[0], name) if path else []
    for meant in [*inner, *([] if path else others.meanings(others.COMMANDS, name))]:
        sentence = f"`{' '.join([*path, name])}` is `segue {meant}` here."
        if not (meant in _OF_RUNS or meant.startswith("help")):
            yield Guess(sentence, [*meant.split(), *rest])
        yield Guess(sentence, [*meant.split(), *(word for word in rest if _RUN_ID.fullmatch(word))])
        yield Guess(sentence, meant.split())
    for group in [] if path else _find_groups(name):
        yield Guess(f"There is no command {name!r}: it belongs to `segue {group}`.", [group, *args])
    for near in _find_near(name, error.ctx):
        sentence = f"There is no command {name!r}. Did you mean `{join(['segue', *path, near])}`?"
        yield Guess(sentence, [*args[:at], near, *rest])
        yield Guess(sentence, [*path, near])
    yield from _guess_object(name, path, args)


def _find_groups(name: str) -> list[str]:
    """Return the groups of the core that have a command of this name."""
    return [group for group, one in _groups().items() if name in one.commands]


@cache
def _groups() -> dict[str, click.Group]:
    """Return the groups of the core by name."""
    found = {name: cli.get_command(click.Context(cli), name) for name in COMMANDS}
    return {name: one for name, one in found.items() if isinstance(one, click.Group)}


def _find_near(name: str, context: click.Context | None) -> list[str]:
    from segue.domain.text import find_nearest

    group = context.command if context is not None else cli
    names = group.list_commands(context or click.Context(cli)) if isinstance(group, click.Group) else []
    near = find_nearest(name, names, ALIKE)
    return [near] if near else []


def _guess_object(name: str, path: _Words, args: _Words) -> Iterator[Guess]:
    """Guess the command from what follows: a run, a task, a setting, a plan."""
    rest = args[len(path) + 1 :]
    group = _find_context(path) if path else None
    inner = group.command.list_commands(group) if group and isinstance(group.command, click.Group) else ()
    if (verb := next((word for word in rest if word in inner), None)) is not None:
        line = [*path, verb, *(word for word in args[len(path) :] if word != verb)]
        yield Guess(f"The command comes first: `{verb}` follows {name}.", line)
    elif not path and _RUN_ID.fullmatch(name):
        yield Guess(f"{name} is a run; a command comes before it.", ["status", *args])
    elif not path and (" " in name or Path(name).is_file()):
        yield Guess(f"There is no command {name!r}. Did you mean `segue run {quote(name)}`?", ["run", *args])
    elif not path and name.isdigit():
        yield Guess(f"{name} may be a task; a command comes before it.", ["proof", "last", name])
    elif path == ["task"]:
        yield Guess(f"What should be done with {name}? This shows its proof.", ["proof", "last", name])
    elif path == ["config"] and _find_setting(name):
        verb = "set" if rest else "explain"
        yield Guess(f"What should be done with {name}?", ["config", verb, name, *rest])
    elif path == ["check"]:
        yield Guess(f"`segue check` proves work that is there; {name} is run.", ["run", name, *rest])


def _guess_order(error: click.UsageError, args: _Words) -> Iterator[Guess]:
    """Guess that the command is there, but not at the beginning."""
    root = error.ctx.find_root() if error.ctx is not None else None
    if root is None or error.ctx is not root or not isinstance(root.command, click.Group):
        return
    names = root.command.list_commands(root)
    at = next((at for at, word in enumerate(args) if word in names), 0)
    if at and not any(word in names for word in args[:at]):
        sentence = f"The command comes first: `{args[at]}` follows {join(args[:at])}."
        yield Guess(sentence, [args[at], *args[at + 1 :], *args[:at]])


def _guess_option(error: click.NoSuchOption, args: _Words) -> Iterator[Guess]:
    """Guess what is meant by an option that the command does not have."""
    name = error.option_name
    yield from _guess_order(error, args)
    if name in OLD_OPTIONS:
        what, renew = OLD_OPTIONS[name]
        yield Guess(f"{name} is {what}.", renew(args))
    at = next((at for at, word in enumerate(args) if word.split("=")[0] == name), None)
    if at is None or error.ctx is None:
        return
    path = error.ctx.command_path.split()[1:]
    before, given = args[:at], [*args[at].split("=", 1)[1:], *args[at + 1 :]]
    yield from _guess_other_name(name, path, before, given)
    for near in _find_near_options(name, error.ctx):
        sentence = f"There is no option {name}. Did you mean {near}?"
        yield Guess(sentence, [*before, near, *given])
        yield Guess(sentence, [*before, near, *given[1:]])
    yield from _guess_setting(name, path, before, given)
    if path == ["resume"]:
        line = ["run", *(word for word in [*before[1:], name, *given] if not _RUN_ID.fullmatch(word))]
        yield Guess(f"`segue run` has {name}, and continues the last run as well.", line)
    yield from _guess_command_in_option(name.lstrip("-"), path, given)
    if path == ["config", "set"] and len(before) > 2:
        line = [*before[:3], " ".join([*before[3:], name, *given])]
        yield Guess("A value of several words needs quotes.", line)


def _guess_other_name(name: str, path: _Words, before: _Words, given: _Words) -> Iterator[Guess]:
    """Guess that others call something so that is here."""
    for meant in others.inner_meanings(others.LINES, " ".join(path), name):
        for line in ([*meant.split(), *given], meant.split()):
            yield Guess(f"`segue {' '.join(path)}` has no {name}.", line)
    if given:
        yield Guess(f"It is called --{given[0]} here.", [*before, f"--{given[0]}", *given[1:]])
    for meant in others.meanings(others.OPTIONS, name):
        yield Guess(f"{name} is called {meant} here.", [*before, *meant.split(), *given])
    if name in others.POSITIONAL.split() or (name == "--task" and path[:1] == ["task"]):
        yield Guess(f"{name} is not needed here.", [*before, *given])


def _guess_command_in_option(name: str, path: _Words, given: _Words) -> Iterator[Guess]:
    """Guess that an option is a command, as in `--skip 2` or `--status`."""
    for group in ["", *sorted(_find_groups(name), key=lambda group: group not in path)]:
        verb = [*([group] if group else []), name]
        if group or (name in COMMANDS and name not in _groups()):
            sentence = f"--{name} is a command: `segue {' '.join(verb)}`."
            yield Guess(sentence, [*verb, *given])
            yield Guess(sentence, verb)


def _find_near_options(name: str, context: click.Context) -> list[str]:
    from segue.domain.text import find_nearest

    options = [param for param in context.command.params if isinstance(param, click.Option)]
    names = [word for one in options for word in (*one.opts, *one.secondary_opts) if word.startswith("--")]
    begun = [one for one in names if len(name) > len("--x") and one.startswith(name)]
    swapped = [one for one in names if sorted(one) == sorted(name)]
    near = find_nearest(name.lstrip("-"), [one.lstrip("-") for one in names], 0.76)
    other_case = [one for param in options for one in param.opts if one == name.swapcase()]
    short = [one for one in names if _is_short_for(name, one)]
    found = [
        *begun,
        *swapped,
        *([f"--{near}"] if near else []),
        *other_case,
        *(short if len(short) == 1 else []),
    ]
    return found[:1]


def _is_short_for(name: str, option: str) -> bool:
    """Return whether a name abbreviates an option, as `--md` does `--markdown`."""
    letters = iter(option)
    if not name.startswith("--"):
        return option.startswith(f"-{name}")
    return len(name) > len("--x") and name[2] == option[2] and all(letter in letters for letter in name)


def _guess_setting(name: str, path: _Words, before: _Words, given: _Words) -> Iterator[Guess]:
    """Guess that a setting is meant, which a variable sets for one call."""
    setting = next(iter(others.meanings(others.SETTINGS, name)), "") or _find_setting(
        name.lstrip("-").replace("-", "_")
    )
    if not setting or not given or not path or path[0] not in _RUNNING:
        return
    variable = f"SEGUE_{setting.upper().replace('.', '__')}={quote(given[0])}"
    sentence = f"{name} is the setting {setting}; this sets it for one call."
    yield Guess(sentence, [*before, *given[1:]], variable)


def _find_setting(name: str) -> str:
    """Return the setting of this name, or the only one that ends with it; empty: there is none."""
    from segue.config.part_tables import list_settings

    known = [one for one, _ in list_settings()]
    ending = [one for one in known if one.rpartition(".")[2] == name]
    ending = [one for one in ending if one == f"limits.{name}"] or ending
    if name in known:
        return name
    return ending[0] if len(ending) == 1 else ""


def _guess_place(word: str, args: _Words) -> Iterator[Guess]:
    """Guess where a word belongs that the command has no place for."""
    at = len(args) - 1 - args[::-1].index(word) if word in args else len(args)
    rest = [*args[:at], *args[at + 1 :]]
    for run in (one for one in args if _RUN_ID.fullmatch(one)):
        yield Guess(f"The run is named with --run: {run}.", [*(o for o in args if o != run), "--run", run])
    command, _, _ = _find_command(args)
    if any(param.name == "text" for param in command.params):
        begin = args.index(word) - 1 if word in args else at
        yield Guess("A text of several words needs quotes.", [*args[:begin], " ".join(args[begin:])])
    if any("--reason" in param.opts for param in command.params) and word in args:
        begin = args.index(word)
        line = [*args[:begin], "--reason", " ".join(args[begin:])]
        yield Guess("Why is said with --reason.", line)
    if args[0] in ("run", "rehearse"):
        plain = [one for one in args[1 : at + 1] if not one.startswith("-")]
        if plain and not Path(plain[0]).exists() and ":" not in plain[0]:
            options = [one for one in args[1:] if one not in plain]
            yield Guess("A text of several words needs quotes.", [args[0], " ".join(plain), *options])
        yield Guess(f"A task is named with --task: {word}.", [*rest, "--task", word])
    if word.isdigit() and any("--port" in param.opts for param in command.params):
        yield Guess(f"The port is named with --port: {word}.", [*rest, "--port", word])
    yield Guess(f"`segue {command.name}` takes nothing like {word}.", rest)


def _explain_other(error: click.UsageError, args: _Words) -> UsageError:
    message = error.format_message().strip()
    if error.ctx is not None and (unknown := _UNKNOWN.fullmatch(message)):
        message = unknown_command(unknown[1], error.ctx).message
    context = error.ctx or _find_context(args)
    path = context.command_path if context is not None else "segue"
    hint = f"{path} --help"
    if isinstance(error, click.NoSuchOption):
        near = _find_near_options(error.option_name, context) if context is not None else []
        message = f"There is no option {error.option_name}." + (f" Did you mean {near[0]}?" if near else "")
        without = _leave_out(error.option_name, args)
        hint += f"   Without it: segue {join(without)}" if without else ""
    if isinstance(error, click.BadOptionUsage) and (filled := _fill_in(error, context)):
        hint = f"For example: segue {join([*args, filled])}"
    if isinstance(error, click.MissingParameter) and (example := find_example(error.ctx)):
        hint = f"For example: {example}"
    return UsageError(message if message.endswith((".", "?", "!")) else f"{message}.", hint=hint)


def _find_context(args: _Words) -> click.Context | None:
    with suppress(click.UsageError, UsageError):
        command, context, _ = _find_command(args)
        return click.Context(command, info_name=command.name, parent=context)
    return None


def _leave_out(option: str, args: _Words) -> _Words:
    """Return a line without an option, and without its value if it has one."""
    at = next((at for at, word in enumerate(args) if word.split("=")[0] == option), len(args))
    lines = [[*args[:at], *args[at + 1 :]], [*args[:at], *args[at + 2 :]]]
    value = "".join(args[at + 1 : at + 2])
    if value and not (_RUN_ID.fullmatch(value) or value.startswith("-") or Path(value).exists()):
        lines.reverse()
    return next((line for line in lines if at < len(args) and complete(line) == line), [])


def _fill_in(error: click.BadOptionUsage, context: click.Context | None) -> str:
    """Return a value for an option that was given without one."""
    params = context.command.params if context is not None else ()
    option = next((one for one in params if error.option_name in one.opts), None)
    if option is None or "requires an argument" not in error.message:
        return ""
    if isinstance(option.type, click.Choice):
        return str(option.type.choices[0])
    if isinstance(option.type, click.types.IntParamType):
        return "4"
    return {"--agent": "claude", "--task": "1"}.get(option.opts[-1], (option.metavar or "VALUE").strip("[]"))


def find_example(context: click.Context | None) -> str:
    """Return the first example of a command; empty: it has none."""
    lines = (context.command.help or "").splitlines() if context is not None else []
    found = (line.strip() for line in lines)
    return next((line.partition("   ")[0] for line in found if line.startswith("segue ")), "")
