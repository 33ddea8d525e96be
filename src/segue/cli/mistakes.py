"""Mistakes on the command line, in Segue's own words: each answer has the line to type.

Every guess is parsed, and the first that Segue can read wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout, suppress
from functools import cache
from io import StringIO
from itertools import takewhile
from pathlib import Path
from shlex import join, quote
from typing import NamedTuple

import click

from segue.cli import values
from segue.cli import words as others
from segue.cli.main import ALIKE, COMMANDS, cli, unknown_command
from segue.domain.amounts import parse_duration
from segue.domain.errors import SourceError, UsageError
from segue.domain.pattern import pattern

_Words = list[str]
_UNKNOWN = pattern(r"(?:There is no|No such) command '(.*?)'\.(?: .*)?")
_EXTRA = pattern(r"Got unexpected extra arguments? \((.*)\)")
_RUN_ID = pattern(r"last|latest|\d{8}-\S*")
_TASK = pattern(r"#?[A-Za-z]{0,3}\d+(?:\.\d+)*[a-z]?")
_LONG_DASH = pattern(r"[\u2010-\u2015\u2212]+")
_CURLY = str.maketrans(dict.fromkeys("\u2018\u2019\u201c\u201d\u201e"))
_SWITCHES = ("yes", "no", "true", "false", "on", "off", "1", "0")
_UNITS = ("hour", "day", "week", "minute")
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
    guesses = list(_guess(error, list(args)))
    found = next(filter(None, map(_suggest, guesses)), None)
    found = found or next(filter(None, map(_suggest_second, guesses)), None)
    return found or _explain_other(error, list(args))


def explain_source(error: SourceError, args: Sequence[str]) -> Exception:
    """Return the refusal of a source; one that was not found may have been meant as a command."""
    command, context, rest = _find_command(args)
    named = command.make_context(command.name, rest, parent=context).params.get("source")
    if not isinstance(named, str) or "Did you mean" in error.message:
        return error
    if Path(named) == Path():
        said = "This folder is no Spec Kit feature; without a source, Segue looks for the tasks here."
        return _suggest(Guess(said, [word for word in args if word != named])) or error
    if Path(named).exists() or "task list" in others.meanings(others.COMMANDS, named):
        return error  # a folder, or a file such as `todo`
    return next(filter(None, map(_suggest, _guess_no_source(named, []))), error)


def _guess_no_source(word: str, rest: _Words) -> Iterator[Guess]:
    """Guess that a word in the place of a source is a command."""
    for meant in [word] if word in COMMANDS else others.meanings(others.COMMANDS, word):
        said = f"There is no list of tasks {word!r}. Did you mean `segue {meant}`?"
        yield Guess(said, [*meant.split(), *rest])


def _suggest(guess: Guess) -> UsageError | None:
    """Return the answer that a guess makes; None: Segue cannot read it."""
    line = complete(guess.words)
    if line is None:
        return None
    typed = (join(guess.words), *line[len(guess.words) :])
    hint = " ".join(filter(None, ("Type:", guess.variable, "segue", *typed)))
    kept = "Nothing was started." if line[:1] and line[0] in _RUNNING else ""
    return UsageError(guess.sentence, kept=kept, hint=hint)


def _suggest_second(guess: Guess) -> UsageError | None:
    """Return the answer to a line with two mistakes, of which the guess corrects the first."""
    try:
        _read(guess.words)
    except click.UsageError as error:
        again = (one._replace(sentence=guess.sentence) for one in _guess(error, guess.words))
        return next(filter(None, map(_suggest, again)), None)
    except UsageError:
        return None
    return None


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
    quiet = redirect_stdout(StringIO())  # --version prints while it is read
    with quiet, suppress(click.exceptions.Exit, click.exceptions.NoArgsIsHelpError):
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
    plain = [_make_plain(word) for word in args]
    if plain != args:
        odd = next(word for word, other in zip(args, plain, strict=True) if word != other)
        yield Guess(f"{odd} has a dash or quotes of a word processor.", plain)
    if isinstance(error, click.NoSuchOption):
        yield from _guess_option(error, args)
    elif unknown := _UNKNOWN.match(error.message):
        yield from _guess_command(unknown[1], error, args)
    elif extra := _EXTRA.match(error.message):
        yield from _guess_place(extra[1].split(), args)
    elif isinstance(error, click.MissingParameter):
        yield from _guess_missing(error, args)
    elif isinstance(error, click.BadOptionUsage) and "does not take a value" in error.message:
        without = [word.split("=")[0] if word.startswith(f"{error.option_name}=") else word for word in args]
        yield Guess(f"{error.option_name} takes no value.", without)
    elif isinstance(error, click.BadParameter):
        yield from _guess_value(error, args)


def _make_plain(word: str) -> str:
    """Return a word as it is typed: word processors make one long dash of two, and curly quotes."""
    dashes = _LONG_DASH.match(word)
    return (f"--{word[dashes.end() :]}" if dashes else word).translate(_CURLY)


def _guess_value(error: click.BadParameter, args: _Words) -> Iterator[Guess]:
    """Guess the value that was meant by one that an option or argument does not take."""
    message, given, meant = values.explain_value(error)
    name = values.name_of(error.param)
    for at in [at for at, word in enumerate(args) if meant and word.endswith(given)]:
        if args[at] == given or args[at].startswith((f"{name}=", "-")):
            yield Guess(message, [*args[:at], f"{args[at].removesuffix(given)}{meant}", *args[at + 1 :]])


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
        if meant == "resume" and rest and _TASK.fullmatch(rest[0]):
            yield Guess(f"A task is tried again with `segue run --task {rest[0]}`.", ["run", "--task", *rest])
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
    elif path == ["task"] and _TASK.fullmatch(name):
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
    if denied := _find_denied(name, error.ctx):
        yield from _guess_denial(name, denied, before, given)
        return
    for near in _find_near_options(name, error.ctx):
        sentence = f"There is no option {name}. Did you mean {near}?"
        yield from _with_values(sentence, before, near, given)
        yield Guess(f"{sentence} It takes no value.", [*before, near, *given[1:]])
    yield from _guess_setting(name, path, before, given)
    if path == ["resume"]:
        line = ["run", *(word for word in [*before[1:], name, *given] if not _RUN_ID.fullmatch(word))]
        yield Guess(f"`segue run` has {name}, and continues the last run as well.", line)
    yield from _guess_command_in_option(name.lstrip("-"), path, given)
    if path == ["config", "set"] and len(before) > 2:
        line = [*before[:3], " ".join([*before[3:], name, *given])]
        yield Guess("A value of several words needs quotes.", line)


def _find_denied(name: str, context: click.Context) -> click.Option | None:
    """Return the option that `--no-…` turns off."""
    positive = f"--{name.removeprefix('--no-')}" if name.startswith("--no-") else None
    params = (param for param in context.command.params if isinstance(param, click.Option))
    return next((param for param in params if positive in param.opts), None)


def _guess_denial(name: str, denied: click.Option, before: _Words, given: _Words) -> Iterator[Guess]:
    """Guess how an option is turned off: what is a flag is off already."""
    if denied.is_flag:
        yield Guess(f"There is no option {name}: leave {denied.opts[-1]} out.", [*before, *given])
    elif isinstance(denied.type, click.Choice):
        yield Guess(f"There is no option {name}.", [*before, denied.opts[-1], "no", *given])


def _guess_other_name(name: str, path: _Words, before: _Words, given: _Words) -> Iterator[Guess]:
    """Guess that others call something so that is here."""
    for meant in others.inner_meanings(others.LINES, " ".join(path), name):
        for line in ([*meant.split(), *given], meant.split()):
            yield Guess(f"`segue {' '.join(path)}` has no {name}.", line)
    if given:
        yield Guess(f"It is called --{given[0]} here.", [*before, f"--{given[0]}", *given[1:]])
    for meant in others.meanings(others.OPTIONS, name):
        yield from _with_values(f"{name} is called {meant} here.", before, meant, given)
    if name in others.POSITIONAL.split() or (name == "--task" and path[:1] == ["task"]):
        yield Guess(f"{name} is not needed here.", [*before, *given])


def _with_values(sentence: str, before: _Words, option: str, given: _Words) -> Iterator[Guess]:
    """Guess an option with what followed another one: several tasks, a value, or nothing."""
    words = list(takewhile(lambda word: all(map(_TASK.fullmatch, word.split(","))), given))
    tasks = [key for word in words for key in word.split(",")]
    if option == "--task" and len(tasks) > 1:
        repeated = [word for key in tasks for word in (option, key)]
        yield Guess(sentence, [*before, *repeated, *given[len(words) :]])
    line = [*before, *option.split(), *given]
    # A number belongs to the option before it: what takes none is not meant.
    if not (given and given[0].isdigit() and complete([*before, *option.split()]) is not None):
        yield Guess(sentence, line)


def _guess_command_in_option(name: str, path: _Words, given: _Words) -> Iterator[Guess]:
    """Guess that an option is a command, as in `--skip 2` or `--status`."""
    groups = [group for group in _find_groups(name) if group in path or path[:1] == ["run"]]
    for group in ["", *sorted(groups, key=lambda group: group not in path)]:
        verb = [*([group] if group else []), name]
        if group or (name in COMMANDS and name not in _groups()):
            sentence = f"--{name} is a command: `segue {' '.join(verb)}`."
            yield Guess(sentence, [*verb, *given])
            yield Guess(sentence, [*verb, *takewhile(lambda word: not word.startswith("-"), given)])
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
        *(short if len(short) == 1 and name.lstrip("-") not in COMMANDS else []),
        *(one for one in names if one.strip("-") == name.rpartition("-")[2]),
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
    seconds = parse_duration(given[0])
    value = given[0] if seconds is None else f"{seconds:g}"
    variable = f"SEGUE_{setting.upper().replace('.', '__')}={quote(value)}"
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


def _guess_place(extra: _Words, args: _Words) -> Iterator[Guess]:
    """Guess where words belong that the command has no place for."""
    from segue.runtime.registry import names

    word = extra[0]
    at = len(args) - 1 - args[::-1].index(word) if word in args else len(args)
    rest = [*args[:at], *args[at + 1 :]]
    for run in (one for one in args if _RUN_ID.fullmatch(one)):
        yield Guess(f"The run is named with --run: {run}.", [*(o for o in args if o != run), "--run", run])
    before = args[at - 1]
    if word.rstrip("s") in _UNITS and before.isdigit():
        yield Guess("A time is one word.", [*args[: at - 1], f"{before}{word[0]}", *args[at + 1 :]])
    if before.startswith("-") and word.casefold() in _SWITCHES:
        yield Guess(f"{before} takes no value.", rest)
    yield from _guess_text(extra, at, args)
    if args[0] in ("run", "rehearse"):
        yield from _guess_for_run(extra, at, args)
    options = {option for param in _find_command(args)[0].params for option in param.opts}
    if word.isdigit() and "--port" in options:
        yield Guess(f"The port is named with --port: {word}.", [*rest, "--port", word])
    if "--repo" in options and Path(word).is_dir():
        yield Guess(f"The repository is named with --repo: {word}", [*rest, "--repo", word])
    if "--agents" in options and word in names("agents"):
        yield Guess("One option shows every agent.", [*rest, "--agents"])
    path = _find_path(args)
    yield Guess(f"`segue {path}` has no place for `{join(extra)}`.", [*args[:at], *args[at + len(extra) :]])


def _guess_text(extra: _Words, at: int, args: _Words) -> Iterator[Guess]:
    """Guess that words are a text without quotes, or the reason of a decision."""
    command, _, _ = _find_command(args)
    if any(param.name in ("text", "sql", "prompt") for param in command.params):
        begin = max(at - 1, 0)
        yield Guess("A text of several words needs quotes.", [*args[:begin], " ".join(args[begin:])])
    if any("--reason" in param.opts for param in command.params) and at < len(args):
        if all(_TASK.fullmatch(word) for word in extra):
            yield Guess(f"One task at a time, and then {join(extra)}.", args[:at])
        yield Guess("Why is said with --reason.", [*args[:at], "--reason", " ".join(args[at:])])


def _guess_for_run(extra: _Words, at: int, args: _Words) -> Iterator[Guess]:
    """Guess what the words are beside a source: more agents, a goal without quotes, tasks."""
    from segue.runtime.registry import names

    others_left = args[at + len(extra) :]
    if at > 1 and args[at - 2] == "--agent" and set(extra) <= set(names("agents")):
        line = [*args[: at - 1], ",".join([args[at - 1], *extra]), *others_left]
        yield Guess("Agents that take over from each other are joined by commas.", line)
    source = [one for one in args[1:at] if not one.startswith("-")]
    if source and all(_RUN_ID.fullmatch(word) or _TASK.fullmatch(word) for word in extra):
        tasks = [word for key in extra for word in ("--task", key)]
        if source[0] in ("task", "tasks"):
            yield Guess(f"A task is named with --task: {join(extra)}.", [args[0], *tasks, *others_left])
        yield from _guess_no_source(source[0], extra)
    if any(Path(word).suffix or Path(word).exists() for word in extra):
        yield Guess(f"One source at a time, and then {join(extra)}.", [*args[:at], *others_left])
    if source and not Path(source[0]).exists() and ":" not in source[0]:
        goal = " ".join(map(_make_plain, [*source, *extra]))
        options = [one for one in args[1:] if one not in (*source, *extra)]
        yield Guess("A text of several words needs quotes.", [args[0], goal, *options])
    tasks = [word for key in extra for word in ("--task", key)]
    yield Guess(f"A task is named with --task: {join(extra)}.", [*args[:at], *others_left, *tasks])


def _find_path(args: _Words) -> str:
    found = _find_context(args)
    return found.command_path.removeprefix("segue ") if found is not None else args[0]


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
    param = _find_param(error, context)
    if isinstance(error, click.MissingParameter) and param is not None:
        message = f"{values.name_of(param)} is missing"
        line = complete(args)
        hint = f"Type: segue {join(line)}" if line else f"For example: {find_example(error.ctx) or hint}"
    elif isinstance(error, click.BadOptionUsage) and param is not None:
        message = f"{values.name_of(param)} needs a value"
        hint = f"For example: segue {join([*args, values.sample(param)])}"
    elif isinstance(error, click.BadParameter):
        message, given, _ = values.explain_value(error)
        shown = [values.sample(param) if param and word == given else word for word in args]
        hint = f"For example: segue {join(shown)}" if given and shown != args else hint
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


def _find_param(error: click.UsageError, context: click.Context | None) -> click.Parameter | None:
    """Return the option or argument that an error is about; one that takes no value is none."""
    if isinstance(error, click.BadParameter):
        return error.param
    if not isinstance(error, click.BadOptionUsage) or "requires an argument" not in error.message:
        return None
    params = context.command.params if context is not None else ()
    return next((one for one in params if error.option_name in one.opts), None)


def find_example(context: click.Context | None) -> str:
    """Return the first example of a command; empty: it has none."""
    lines = (context.command.help or "").splitlines() if context is not None else []
    found = (line.strip() for line in lines)
    return next((line.partition("   ")[0] for line in found if line.startswith("segue ")), "")
