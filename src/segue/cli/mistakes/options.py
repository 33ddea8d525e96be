"""What may be meant by an option that a command does not have."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import dropwhile, takewhile
from shlex import quote

import click

from segue.cli.main import COMMANDS
from segue.cli.mistakes import words as others
from segue.cli.mistakes.commands import OF_RUNS, find_groups, guess_order, list_groups
from segue.cli.mistakes.line import RUN_ID, RUNNING, TASK, Guess, Words, complete, is_agent, is_short_for
from segue.cli.mistakes.names import name_issue
from segue.cli.mistakes.values import find_setting, fit_setting
from segue.domain.pattern import pattern

_JOINT = pattern(r"[+;&|]")
"""What people write between agents."""


def is_several_agents(word: str) -> bool:
    """Return whether a word names agents, whatever is between them."""
    return is_agent(_JOINT.sub(",", word))


def _in_order(words: Words) -> Words:
    """Replace `--jobs N --order`, which let each task wait for the one before it."""
    if words[:2] == ["task", "graph"]:
        return [word for word in words if word != "--order"]
    kept = [word for word in words if word != "--order" and not word.startswith("--jobs=")]
    while "--jobs" in kept:
        at = kept.index("--jobs")
        del kept[at : at + 2]
    return [*kept, "--jobs", "1"]


def _without_stay(words: Words) -> Words:
    return [*(word for word in words if word not in ("--stay", "--serve")), "--serve"]


OLD_OPTIONS: dict[str, tuple[str, Callable[[Words], Words]]] = {
    "--order": ("now --jobs 1, because one task at a time is in order", _in_order),
    "--stay": ("now `segue serve`, which shows runs that have ended, too", _without_stay),
    "--resume": ("a command of its own", lambda _: ["resume"]),
}
"""Option → what it is now, and how a line with it is typed."""


def guess_option(error: click.NoSuchOption, args: Words) -> Iterator[Guess]:
    """Guess what is meant by an option that the command does not have."""
    name = error.option_name
    yield from guess_order(error, args)
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
    yield from _guess_inner_command(name, before, given)
    for near in find_near_options(name, error.ctx):
        sentence = f"There is no option {name}. Did you mean {near}?"
        yield from _with_values(sentence, before, near, given)
        if near not in _with_value(error.ctx):
            yield Guess(f"{sentence} It takes no value.", [*before, near, *given[1:]])
    yield from _guess_setting(name, path, before, given)
    if path == ["resume"]:
        line = ["run", *(word for word in [*before[1:], name, *given] if not RUN_ID.fullmatch(word))]
        yield Guess(f"`segue run` has {name}, and continues the last run as well.", line)
    yield from _guess_command_in_option(name.lstrip("-"), path, given)
    if path == ["config", "set"] and len(before) > 2:
        line = [*before[:3], " ".join([*before[3:], name, *given])]
        yield Guess("A value of several words needs quotes.", line)


def _with_value(context: click.Context) -> set[str]:
    """Return the options of a command that take a value."""
    options = (param for param in context.command.params if isinstance(param, click.Option))
    return {name for param in options if not param.is_flag for name in param.opts}


def _find_denied(name: str, context: click.Context) -> click.Option | None:
    """Return the option that `--no-…` turns off."""
    positive = f"--{name.removeprefix('--no-')}" if name.startswith("--no-") else None
    params = (param for param in context.command.params if isinstance(param, click.Option))
    return next((param for param in params if positive in param.opts), None)


def _guess_denial(name: str, denied: click.Option, before: Words, given: Words) -> Iterator[Guess]:
    """Guess how an option is turned off: what is a flag is off already."""
    if denied.is_flag:
        yield Guess(f"There is no option {name}: leave {denied.opts[-1]} out.", [*before, *given])
    elif isinstance(denied.type, click.Choice):
        yield Guess(f"There is no option {name}.", [*before, denied.opts[-1], "no", *given])


def _guess_other_name(name: str, path: Words, before: Words, given: Words) -> Iterator[Guess]:
    """Guess that others call something so that is here."""
    for meant in others.inner_meanings(others.LINES, " ".join(path), name):
        for line in ([*meant.split(), *given], meant.split()):
            yield Guess(f"`segue {' '.join(path)}` has no {name}.", line)
    if given:
        yield Guess(f"It is called --{given[0]} here.", [*before, f"--{given[0]}", *given[1:]])
    found = others.meanings(others.OPTIONS, name)
    if not given:  # what needs no value comes first
        found = sorted(found, key=lambda meant: complete(line := [*before, *meant.split()]) != line)
    for meant in found:
        yield from _with_values(f"{name} is called {meant} here.", before, meant, given)
    if name in others.POSITIONAL.split() or (name == "--task" and path[:1] == ["task"]):
        yield Guess(f"{name} is not needed here.", [*before, *given])


def _with_values(sentence: str, before: Words, option: str, given: Words) -> Iterator[Guess]:
    """Guess an option with what followed another one: several tasks, a value, or nothing."""
    words = list(takewhile(lambda word: all(map(TASK.fullmatch, word.split(","))), given))
    tasks = [key for word in words for key in word.split(",")]
    if option == "--task" and len(tasks) > 1:
        repeated = [word for key in tasks for word in (option, key)]
        yield Guess(sentence, [*before, *repeated, *given[len(words) :]])
    left = list(dropwhile(is_several_agents, given)) if option == "--agent" else given
    if ((agents := ",".join(given[: len(given) - len(left)])) and agents != given[0]) or (
        agents and _JOINT.search(agents)
    ):
        yield Guess(sentence, [*before, option, _JOINT.sub(",", agents), *left])
    line = [*before, *option.split(), *given]
    # A number belongs to the option before it: what takes none is not meant.
    alone = [*before, *option.split()]
    if not (given and given[0].isdigit() and complete(alone) == alone):
        yield Guess(sentence, line)


def _guess_inner_command(name: str, before: Words, given: Words) -> Iterator[Guess]:
    """Guess that an option is made of a group and its command, as `--skip-task 2` is."""
    parts = name.strip("-").split("-")
    for group, verb in ((group, verb) for group in parts for verb in parts if group != verb):
        if group in list_groups() and verb in list_groups()[group].commands:
            yield Guess(f"{name} is a command: `segue {group} {verb}`.", [group, verb, *given])
    if name in ("--issue", "--issues") and given and given[0].lstrip("#").isdigit():
        line = [*before, name_issue(given[0].lstrip("#")), *given[1:]]
        yield Guess("An issue on GitHub is named by its repository.", line)


def _guess_command_in_option(name: str, path: Words, given: Words) -> Iterator[Guess]:
    """Guess that an option is a command, as in `--skip 2` or `--status`."""
    groups = [group for group in find_groups(name) if group in path or path[:1] == ["run"]]
    for group in ["", *sorted(groups, key=lambda group: group not in path)]:
        verb = [*([group] if group else []), name]
        if group or (name in COMMANDS and name not in list_groups()):
            sentence = f"--{name} is a command: `segue {' '.join(verb)}`."
            if verb[-1] not in OF_RUNS or all(RUN_ID.fullmatch(word) for word in given):
                yield Guess(sentence, [*verb, *given])
                yield Guess(sentence, [*verb, *takewhile(lambda word: not word.startswith("-"), given)])
            yield Guess(sentence, verb)


def find_near_options(name: str, context: click.Context) -> list[str]:
    from segue.domain.text import find_nearest

    options = [param for param in context.command.params if isinstance(param, click.Option)]
    names = [word for one in options for word in (*one.opts, *one.secondary_opts) if word.startswith("--")]
    begun = [one for one in names if len(name) > len("--x") and one.startswith(name)]
    swapped = [one for one in names if sorted(one) == sorted(name)]
    near = find_nearest(name.lstrip("-"), [one.lstrip("-") for one in names], 0.76)
    other_case = [one for param in options for one in param.opts if one == name.swapcase()]
    flags = {one for param in options if param.is_flag for one in param.opts}
    short = [one for one in names if is_short_for(name, one)]
    short = [one for one in short if name.startswith("--") or one in flags]
    found = [
        *begun,
        *swapped,
        *([f"--{near}"] if near else []),
        *other_case,
        *(short if len(short) == 1 and name.lstrip("-") not in COMMANDS else []),
        *_find_parts(name, options),
    ]
    return found[:1]


def _find_parts(name: str, options: list[click.Option]) -> list[str]:
    """Return the option that the last part of a name means; the first, if it takes the same."""
    parts = [next((one for one in options if f"--{part}" in one.opts), None) for part in name[2:].split("-")]
    first, last = parts[0], parts[-1]
    if first is not None and last is not None and first.metavar == last.metavar:
        return [first.opts[-1]]
    return [last.opts[-1]] if last is not None else []


def _guess_setting(name: str, path: Words, before: Words, given: Words) -> Iterator[Guess]:
    """Guess that a setting is meant, which a variable sets for one call."""
    meant = next(iter(others.meanings(others.SETTINGS, name)), "")
    setting = meant or find_setting(name.lstrip("-").replace("-", "_"))
    if not setting or not given or not path or path[0] not in RUNNING:
        return
    others_given = [given[at + 1] for at, word in enumerate(given[:-1]) if word == name]
    value = json.dumps([given[0], *others_given]) if others_given else fit_setting(setting, given[0])
    if value is None:
        return
    rest = [word for word in given[1:] if word not in (name, *others_given)]
    variable = f"SEGUE_{setting.upper().replace('.', '__')}={quote(value)}"
    sentence = f"{name} is the setting {setting}; this sets it for one call."
    yield Guess(sentence, [*before, *rest], variable)
